"""Inverted indexes: creates, refreshes, lists and drops them; see `log.version.indexes`."""
