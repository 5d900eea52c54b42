"""Evaluates SQL expressions on Arrow data."""
