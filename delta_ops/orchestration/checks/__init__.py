"""Asset checks for tables and their changes."""
