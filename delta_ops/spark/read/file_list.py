"""The file list: a scan of given files through Spark's public API, for any kind of session.

Spark checks every path on the driver. By default it would start a job with one task per path, so
that is switched off. Partition values are looked up by `_metadata.file_path`. For a few files the
lookup uses a map, and Spark can prune files with it at planning. For many files it uses a broadcast
table, because Spark searches a map entry by entry for every row.
A path without an entry raises an error; it never gives null.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType, StructType

from delta_ops.protocol.file_paths import encode_path
from delta_ops.protocol.schema import schema_from_json
from delta_ops.spark.expressions.columns import named_column, parse_physical_text
from delta_ops.spark.read.file_index import FileGroup
from delta_ops.spark.session.session import overriding
from delta_ops.spark.versions import is_connect, metadata_column

_LISTING = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "100000000"}
_MAP_FILES = 64
_PATTERN_CHARACTERS = re.compile(r"[][{}*?\\]")
_PATH, _GROUP = "delta_ops file path", "delta_ops file group"
"""The spaces keep these names distinct from all column names of tables."""
_FRACTIONS = re.compile('"(float|double)"')
"""Types of fields in the JSON of a struct; a field of that name does no harm."""
_ENCODED_CATEGORIES = frozenset({"Cc", "Zs", "Zl", "Zp"})


def scan(
    spark: SparkSession,
    groups: Sequence[FileGroup],
    data: StructType,
    partitions: StructType,
    options: Mapping[str, str],
    of_spark: Mapping[str, str],
) -> DataFrame:
    """Scan exactly these files, with the columns of `data`, then of `partitions` and `of_spark`.

    Args:
        spark: Any session.
        groups: The files. A file may be in several groups.
        data: Columns that the files contain.
        partitions: Columns whose values the groups contain.
        options: Passed to Spark's Parquet reader.
        of_spark: Fields of Spark's row metadata, by the column names to give them.
    """
    named = [path for group in groups for path, *_ in group.files]
    paths = list(dict.fromkeys(named))
    # A path is not a pattern, and its directories hold no columns.
    reader = spark.read.options(**options, recursiveFileLookup="true", __globPaths__="false")
    with overriding(spark, _LISTING):
        found = reader.schema(data).parquet(*(_literal_paths(spark, paths)))
        rows = add_metadata(_keep_from_reader(found, data), of_spark)
    if not partitions.fields:
        return rows
    located = add_metadata(rows, {_PATH: "file_path"})
    if len(named) == len(paths) <= _MAP_FILES:
        grouped = located.withColumn(_GROUP, _group_by_map(groups))
    else:  # the rows of a file appear once for each of its groups
        grouped = located.join(sf.broadcast(_group_by_path(spark, groups)), _PATH, "left")
    return grouped.select(
        *(named_column(field.name) for field in data.fields),
        *(
            parse_physical_text(_text(groups, i), field.data_type).alias(field.name)
            for i, field in enumerate(schema_from_json(partitions.json()).fields)
        ),
        *map(named_column, of_spark),
    )


def _keep_from_reader(rows: DataFrame, data: StructType) -> DataFrame:
    """Keep filters of floating-point columns from Spark's Parquet reader.

    It skips row groups with matching rows (see `LogParquetFormat.java`). It gets no filter of an
    expression, and these expressions return each value as it is.
    """
    kept = {}
    for field in data.fields:
        column = named_column(field.name)
        if isinstance(field.dataType, FloatType | DoubleType):
            kept[field.name] = sf.nanvl(column, column)
        elif isinstance(field.dataType, StructType) and _FRACTIONS.search(field.dataType.json()):
            kept[field.name] = sf.coalesce(column, column)
    return rows.withColumns(kept) if kept else rows


def _literal_paths(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Escape characters of glob patterns for Connect servers, which ignore `__globPaths__`."""
    if not is_connect(spark):
        return list(paths)
    return [_PATTERN_CHARACTERS.sub(r"\\\g<0>", path) for path in paths]


def add_metadata(rows: DataFrame, fields: Mapping[str, str]) -> DataFrame:
    """Add fields of Spark's row metadata to a scan, under the given column names."""
    for name, field in fields.items():
        rows = rows.withColumn(name, metadata_column(rows, "_metadata").getField(field))
    return rows


def is_hidden(path: str) -> bool:
    """Whether Spark's reader silently skips the file, even if its path is listed."""
    name = path.rpartition("/")[2]
    return (name[0] in "_." and "=" not in name) or name.endswith("._COPYING_")


def _group_by_map(groups: Sequence[FileGroup]) -> Column:
    entries = ((sf.lit(path), sf.lit(number)) for path, number in _numbers_by_path(groups))
    return sf.try_element_at(sf.create_map(*chain.from_iterable(entries)), named_column(_PATH))


def _group_by_path(spark: SparkSession, groups: Sequence[FileGroup]) -> DataFrame:
    entries = json.dumps(
        [{"path": path, "number": number} for path, number in _numbers_by_path(groups)]
    )
    parsed = sf.from_json(sf.lit(entries), "array<struct<path:string,number:int>>")
    return spark.range(1).select(sf.inline(parsed).alias(_PATH, _GROUP))


def _numbers_by_path(groups: Sequence[FileGroup]) -> Iterator[tuple[str, int]]:
    """Yield each file's `_metadata.file_path` and the number of its group."""
    for number, group in enumerate(groups):
        for path, *_ in group.files:
            yield _encode_like_java(path), number


def _encode_like_java(path: str) -> str:
    """Encode the path as java.net.URI does: it keeps most non-ASCII characters."""
    return "".join(
        c if ord(c) > 127 and unicodedata.category(c) not in _ENCODED_CATEGORIES else encode_path(c)
        for c in path
    )


def _text(groups: Sequence[FileGroup], column: int) -> Column:
    """The physical text of a partition column for the group of each row."""
    texts = sf.from_json(
        sf.lit(json.dumps([group.values[column] for group in groups])), "array<string>"
    )
    unknown = sf.raise_error(
        sf.concat(sf.lit("no partition values are known of "), named_column(_PATH))
    )
    return sf.when(named_column(_GROUP).isNull(), unknown.cast("string")).otherwise(
        sf.get(texts, named_column(_GROUP))
    )
