"""Row ids in queries: `_metadata.row_id` and `_metadata.row_commit_version` of tracked tables.

Spark has a hidden column `_metadata` for its own file formats only. A query that names one of the
two fields is therefore planned with other tables: each Delta table with row tracking becomes rows
with a hidden column of our own, which `*` leaves out. Other queries stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.log import Snapshot
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.spark.callbacks import Callback
from delta_ops.spark.delta_format.sql_source import is_provided, provided_source
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.read.read import pad_columns, read_kept
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.nodes import Target
from delta_ops.spark.statements.parameters import bind

_MAY_NAME = re.compile(r"\b_metadata\b.*\brow_(?:id|commit_version)\b", re.IGNORECASE | re.DOTALL)
_COLUMN, _OF_SPARK = "_metadata", "__metadata_col"
"""The hidden column, and the key that marks it for Spark."""

OpenTable = Callable[[Target], Snapshot | None]
"""Opens the Delta table of a name; returns None for other names."""


def may_name_row_ids(text: str) -> bool:
    """Whether a text may name the id of a row."""
    return _MAY_NAME.search(text) is not None


def refusal_of_row_ids(text: str, error: AnalysisException) -> str | None:
    """The reason if Spark does not know the ids of rows that a text names; None otherwise."""
    if not may_name_row_ids(text) or _COLUMN not in str(error):
        return None
    return (
        "_metadata.row_id and _metadata.row_commit_version are fields of Delta tables with row "
        "tracking, in the text of a query. A view cannot have them, and a DataFrame of spark.read "
        "or spark.table has none: write the query instead of the view, or name the table in "
        f"spark.sql. Spark: {str(error).partition(' SQLSTATE')[0]}"
    )


def query_with_row_ids(
    spark: SparkSession, text: str, args: Any, open_table: OpenTable
) -> DataFrame | None:
    """Run a query that names the ids of rows.

    Returns:
        None if the query has no table with row tracking.
    """
    if not is_provided(spark):
        return None
    try:
        bound = bind(text, args)
    except UnclearError:
        return None
    if bound.refusal is not None:
        return None

    def rows_of(name: str) -> Any:
        parts = tuple(name.split("\0"))
        snapshot = open_table(Target(parts=parts, text=".".join(parts)))
        rows = None if snapshot is None else _rows_with_ids(spark, snapshot)
        return None if rows is None else rows._jdf

    session: Any = spark
    found = provided_source(spark).queryWithRowIds(
        session._jsparkSession, bound.text, Callback(rows_of, spark.sparkContext)
    )
    return None if found is None else DataFrame(found, spark)


def _rows_with_ids(spark: SparkSession, snapshot: Snapshot) -> DataFrame | None:
    """The rows with their ids as the last column; None if the table tracks no rows."""
    names = row_columns(snapshot.definition, snapshot.uri)
    if names is None:
        return None
    kept = pad_columns(read_kept(spark, snapshot, list(snapshot.add_files())), snapshot.schema)
    ids = sf.struct(
        named_column(names.row_id).alias("row_id"),
        named_column(names.commit_version).alias("row_commit_version"),
    )
    return kept.select(
        *(named_column(each.name) for each in snapshot.schema.fields),
        ids.alias(_COLUMN, metadata={_OF_SPARK: _COLUMN}),
    )
