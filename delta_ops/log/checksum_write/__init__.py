"""Writes and verifies the checksum file of a version."""
