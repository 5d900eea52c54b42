"""Bloom filters: the options by which Spark's Parquet writer makes them."""

from __future__ import annotations

from delta_ops.protocol.bloom_filters import FALSE_POSITIVES, filtered_columns
from delta_ops.protocol.table_definition import TableDefinition

_MOST_FILTER_BYTES = 4 * 1024 * 1024
"""The largest Bloom filter, for three million values in a row group."""
_FILTER_SIZES = 8
"""Number of sizes to choose from, each half of the one before."""


def bloom_filter_options(definition: TableDefinition) -> dict[str, str]:
    """The options for Bloom filters, which Parquet makes as large as the values need."""
    columns = [".".join(path) for path in filtered_columns(definition)]
    if not columns:
        return {}
    return {
        "parquet.bloom.filter.adaptive.enabled": "true",
        "parquet.bloom.filter.max.bytes": str(_MOST_FILTER_BYTES),
        **{
            f"parquet.bloom.filter.{name}#{each}": value
            for each in columns
            for name, value in (
                ("enabled", "true"),
                ("fpp", str(FALSE_POSITIVES)),
                ("candidates.number", str(_FILTER_SIZES)),
            )
        },
    }
