"""Local storage: files of this machine's file system."""
