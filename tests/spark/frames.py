"""DataFrames for tests, and their rows as Python values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from tests.tables import rows


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows, times in UTC; by Arrow, since PySpark's own rows pass through local time."""
    table = frame.toArrow()
    schema = pa.schema([field.with_type(_to_utc_type(field.type)) for field in table.schema])
    return rows(table.cast(schema))


def files_under(root: Path) -> set[str]:
    """Every file there, whoever wrote it."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def _to_utc_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type) and data_type.tz is not None:
        return pa.timestamp(data_type.unit, "UTC")
    return data_type
