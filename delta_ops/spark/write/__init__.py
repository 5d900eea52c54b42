"""Writes Spark DataFrames as data files with statistics."""
