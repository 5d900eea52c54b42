"""Reads data files into Arrow data."""
