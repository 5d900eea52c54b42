"""Races: commits, vacuums and deletions by others while a commit is prepared."""
