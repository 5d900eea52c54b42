"""Backfill of statistics: describes live files whose statistics lack columns."""
