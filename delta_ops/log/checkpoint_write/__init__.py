"""Checkpoints written: `write` chooses the kind, `content` has the rows."""
