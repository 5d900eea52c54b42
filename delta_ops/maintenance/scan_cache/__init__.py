"""Scan cache on request: `plan` decides whether one is due, `act` writes it."""
