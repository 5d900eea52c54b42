"""Vacuum: by `facts`, `plan` decides which files go, `act` deletes them, `commits` tells of it."""
