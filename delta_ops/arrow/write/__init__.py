"""Writes Arrow data as data files with statistics."""
