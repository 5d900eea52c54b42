"""Rewrites groups of data files with Spark: compaction, clustering and purge."""
