"""The file list: a scan of given files by Spark's public API alone, on any kind of session.

Spark looks up every path on the driver; its default of a job with a task a path is switched off.
Partition values are looked up by `_metadata.file_path`, for a few files in a map, by which Spark
also leaves out files at planning, and for many in a broadcast table, since a map is searched
entry by entry for every row.
A path without an entry is an error, not a null.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from delta_ops.protocol.file_paths import encode_path
from delta_ops.protocol.schema import schema_from_json
from delta_ops.spark.expressions.columns import named_column, parse_physical_text
from delta_ops.spark.read.file_index import FileGroup
from delta_ops.spark.session.session import is_connect, overriding

_LISTING = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "100000000"}
_MAP_FILES = 64
_PATTERN_CHARACTERS = re.compile(r"[][{}*?\\]")
_PATH, _GROUP = "delta_ops file path", "delta_ops file group"
"""Names that no table's column can have, for their spaces."""
_ENCODED_CATEGORIES = frozenset({"Cc", "Zs", "Zl", "Zp"})


def scan(
    spark: SparkSession,
    groups: Sequence[FileGroup],
    data: StructType,
    partitions: StructType,
    options: Mapping[str, str],
    of_spark: Mapping[str, str],
) -> DataFrame:
    """A scan of exactly these files; columns of `data`, then of `partitions` and `of_spark`.

    Args:
        spark: Any session.
        groups: The files; one may be in several groups.
        data: Columns that files have.
        partitions: Columns of which groups have the values.
        options: Passed to Spark's Parquet reader.
        of_spark: Fields of Spark's metadata of rows, by the names that they get.
    """
    named = [path for group in groups for path, *_ in group.files]
    paths = list(dict.fromkeys(named))
    # A path is not a pattern, and its directories hold no columns.
    reader = spark.read.options(**options, recursiveFileLookup="true", __globPaths__="false")
    with overriding(spark, _LISTING):
        found = reader.schema(data).parquet(*(_literal_paths(spark, paths)))
        rows = add_metadata(found, of_spark)
    if not partitions.fields:
        return rows
    located = add_metadata(rows, {_PATH: "file_path"})
    if len(named) == len(paths) <= _MAP_FILES:
        grouped = located.withColumn(_GROUP, _group_by_map(groups))
    else:  # a file of several groups has its rows in each of them
        grouped = located.join(sf.broadcast(_group_by_path(spark, groups)), _PATH, "left")
    return grouped.select(
        *(named_column(field.name) for field in data.fields),
        *(
            parse_physical_text(_text(groups, i), field.data_type).alias(field.name)
            for i, field in enumerate(schema_from_json(partitions.json()).fields)
        ),
        *map(named_column, of_spark),
    )


def _literal_paths(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Paths that Spark does not read as patterns; a Connect server ignores `__globPaths__`."""
    if not is_connect(spark):
        return list(paths)
    return [_PATTERN_CHARACTERS.sub(r"\\\g<0>", path) for path in paths]


def add_metadata(rows: DataFrame, fields: Mapping[str, str]) -> DataFrame:
    """A scan with fields of Spark's metadata beside its columns, by the names that they get."""
    for name, field in fields.items():
        rows = rows.withColumn(name, rows.metadataColumn("_metadata").getField(field))
    return rows


def is_hidden(path: str) -> bool:
    """Whether Spark's reader leaves the file out, without a word, though its path is given."""
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
    """The group of each file, by `_metadata.file_path`."""
    for number, group in enumerate(groups):
        for path, *_ in group.files:
            yield _encode_like_java(path), number


def _encode_like_java(path: str) -> str:
    """The path as java.net.URI encodes it, which of the letters beyond ASCII leaves most alone."""
    return "".join(
        c if ord(c) > 127 and unicodedata.category(c) not in _ENCODED_CATEGORIES else encode_path(c)
        for c in path
    )


def _text(groups: Sequence[FileGroup], column: int) -> Column:
    """The column's physical text in the row's group."""
    texts = sf.from_json(
        sf.lit(json.dumps([group.values[column] for group in groups])), "array<string>"
    )
    unknown = sf.raise_error(
        sf.concat(sf.lit("no partition values are known of "), named_column(_PATH))
    )
    return sf.when(named_column(_GROUP).isNull(), unknown.cast("string")).otherwise(
        sf.get(texts, named_column(_GROUP))
    )
