"""Log compaction: `plan` chooses commits, `act` writes them as one file."""
