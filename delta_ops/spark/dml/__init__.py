"""Delete, update and merge in the Spark engine."""
