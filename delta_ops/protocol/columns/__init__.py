"""Columns in the protocol: mapping, ids, defaults, generation, identity and clustering."""
