"""Fleets: finds tables, and reports on and maintains many of them in one process."""
