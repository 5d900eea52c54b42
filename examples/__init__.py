"""Pipelines to read and to copy from; they are no part of the package."""
