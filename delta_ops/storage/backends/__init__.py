"""Backends: what is specific to each store."""
