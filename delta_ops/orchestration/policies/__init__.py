"""Which maintenance a table gets, and when."""
