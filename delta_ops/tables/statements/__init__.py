"""Statements of Delta's SQL, run with the functions of the Python API."""
