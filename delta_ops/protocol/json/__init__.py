"""The JSON lines of a commit file."""
