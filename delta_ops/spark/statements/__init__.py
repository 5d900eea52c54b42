"""Statements: recognizes Delta's SQL statements on Delta tables, and routes them to delta_ops."""
