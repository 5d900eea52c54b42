"""Column lineage: finds the input columns of each output column."""
