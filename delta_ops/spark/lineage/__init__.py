"""Which input columns an output column is computed from."""
