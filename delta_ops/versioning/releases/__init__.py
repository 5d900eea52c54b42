"""Releases: versions of several tables that readers see together."""
