"""Converts a directory of Parquet files into a Delta table."""
