"""Optimize: `plan` chooses the files to put together, `act` has them rewritten and commits."""
