"""Delete, update and merge in the Arrow engine."""
