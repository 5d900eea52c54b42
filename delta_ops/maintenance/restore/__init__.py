"""Restore: `plan` compares two versions of a table, `act` commits the difference."""
