"""The Markdown card that shows a table in the Dagster UI."""
