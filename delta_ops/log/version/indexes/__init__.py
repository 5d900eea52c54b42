"""Inverted indexes: which data files hold a value of a column.

An index excludes a file from a scan only if a run of the index covers the file and has no entry of
it for the value. Files that no run covers are always read, so writes of other engines never make an
index wrong.
"""
