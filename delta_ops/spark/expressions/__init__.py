"""Conditions and expressions as Spark columns."""
