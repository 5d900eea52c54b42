"""Reproduces a run: the same inputs, and outputs on branches that are compared with its outputs."""
