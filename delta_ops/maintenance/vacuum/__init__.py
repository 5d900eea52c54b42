"""Vacuum: `plan` decides which files go, `act` deletes them, `commits` tells of it."""
