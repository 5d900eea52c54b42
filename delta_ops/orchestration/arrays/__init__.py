"""Stores datasets of xarray as arrays of a table, and loads them as inputs."""
