"""`format("delta")`, SQL statements and catalog tables in Spark."""
