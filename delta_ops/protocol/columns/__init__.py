"""What the protocol attaches to columns: names in files, ids, defaults, generation."""
