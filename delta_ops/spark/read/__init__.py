"""Reads data files into Spark DataFrames."""
