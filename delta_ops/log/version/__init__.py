"""One version: its commits and checkpoint are loaded and reconciled, and its files listed."""
