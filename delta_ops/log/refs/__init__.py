"""Refs of a table: names for versions, kept in a journal beside the log."""
