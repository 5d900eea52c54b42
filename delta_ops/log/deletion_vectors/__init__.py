"""Reads and writes deletion vectors."""
