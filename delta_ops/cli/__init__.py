"""The terminal command `delta-ops`; see `main` for what it prints."""
