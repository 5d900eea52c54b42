"""Vacuum: by `facts`, `plan` decides which files go, `act` deletes them, `commits` logs it."""
