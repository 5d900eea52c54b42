"""Compares two test suites of one code: coverage by test, and the mutants that each suite kills."""
