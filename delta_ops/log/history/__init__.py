"""Commit history, commit times and time travel."""
