"""DataFrames for tests, and their rows as Python values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from delta_ops.spark.installed_version import VERSION
from delta_ops.spark.versions import arrow_of, is_connect
from tests.support.tables import rows


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows with times in UTC; through Arrow, because PySpark's rows use local time."""
    if VERSION < (4, 0) or is_connect(frame.sparkSession):
        table = arrow_of(frame)
    else:
        # The first half of `toArrow`; its cast fails for a variant that is null inside another
        # variant.
        collect: Any = frame._collect_as_arrow
        table = pa.Table.from_batches(collect(empty_list_if_zero_records=False))
    schema = pa.schema([(each.name, _to_utc_type(each.type)) for each in table.schema])
    return rows(table.cast(schema))


def rows_of_each(frames: Sequence[DataFrame]) -> list[list[dict[str, Any]]]:
    """The rows of each frame; all have the same columns and are computed by one job."""
    numbered = (frame.withColumn("frame", sf.lit(i)) for i, frame in enumerate(frames))
    found: list[list[dict[str, Any]]] = [[] for _ in frames]
    for row in rows_of(reduce(DataFrame.unionAll, numbered)):
        found[row.pop("frame")].append(row)
    return found


def sorted_texts(found: Iterable[Any]) -> list[str]:
    """Rows as texts to compare, independent of the order of struct fields."""
    return sorted(repr(_in_order(row)) for row in found)


def plan_of(frame: DataFrame) -> str:
    """The text of the plan that Spark would run."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def files_under(root: Path) -> set[str]:
    """Every existing file, from any writer; directories may be deleted meanwhile."""
    found = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {str(path.relative_to(root)) for path in found}


def make_nan(root: Path, column: str, text: str) -> None:
    """Turn a partition of the first commit into NaN, as only other engines write it."""
    for directory in [*root.rglob(f"{column}={text}")]:
        directory.rename(directory.with_name(f"{column}=NaN"))
    commit = root / "_delta_log" / f"{0:020}.json"
    recorded = commit.read_text().replace(f"{column}={text}", f"{column}=NaN")
    commit.write_text(recorded.replace(f'"{column}":"{text}"', f'"{column}":"NaN"'))
    for checksum in (root / "_delta_log").glob("*.crc"):
        checksum.unlink()


def _to_utc_type(data_type: pa.DataType) -> pa.DataType:
    """The type with UTC times, and null types as Spark has them."""
    if pt.is_struct(data_type):
        return pa.struct([(each.name, _to_utc_type(each.type)) for each in data_type])
    if pt.is_map(data_type):
        return pa.map_(*map(_to_utc_type, (data_type.key_type, data_type.item_type)))
    if pt.is_list(data_type):
        return pa.list_(_to_utc_type(data_type.value_type))
    if pt.is_timestamp(data_type) and data_type.tz is not None:
        return pa.timestamp(data_type.unit, "UTC")
    return data_type


def _in_order(value: Any) -> Any:
    match value:
        case dict():
            return {name: _in_order(value[name]) for name in sorted(value)}
        case list() | tuple():
            return [_in_order(each) for each in value]
    return value
