"""Structured Streaming from and into Delta tables."""
