"""Reports commits that other writers made, as Dagster events."""
