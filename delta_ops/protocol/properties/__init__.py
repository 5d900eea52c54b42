"""Table properties: their names, values and meaning."""
