"""Writes the scan cache."""
