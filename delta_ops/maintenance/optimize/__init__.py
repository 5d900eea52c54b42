"""Optimize: `plan` chooses files to combine, `act` rewrites them and commits."""
