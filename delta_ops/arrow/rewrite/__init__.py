"""Rewrites groups of data files: compaction, clustering and purge."""
