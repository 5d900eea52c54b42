"""Stale reads: rows of a version of a table that are to replace all rows of a later one.

A DataFrame that `format("delta")` reads is of the version that was the latest then. Where it
overwrites the table that it comes from, what was committed since would be lost without a word. So
its scans bear the table and the version, and a writer looks for them. Who asks for a version by its
number or time means that one, and its scans bear nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.spark.read.read import read_marked
from delta_ops.spark.session.session import is_connect

_MARK = "delta_ops.latest"


def read_latest(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """All rows and columns of the latest version, of which the DataFrame remembers that it is one.

    Args:
        snapshot: The latest version.
    """
    return read_marked(spark, snapshot, {_MARK: f"{snapshot.metadata.id}@{snapshot.version}"})


def refuse_stale_rows(df: DataFrame, snapshot: Snapshot) -> None:
    """Refuse to replace a version of a table by what an earlier one was read for.

    Raises:
        InvalidRequestError: The rows come from an earlier version.
    """
    marks = _marks_on_connect(df) if is_connect(df.sparkSession) else _marks(df)
    for mark in marks:
        table, _, version = mark.rpartition("@")
        if table == snapshot.metadata.id and int(version) < snapshot.version:
            raise InvalidRequestError(
                f"{snapshot.uri}: the rows come from version {version} of this table, and version "
                f"{snapshot.version} has been committed since, whose rows would be lost; load the "
                "table again and overwrite it with that, or load it with versionAsOf if the older "
                "version is meant"
            )


def _marks(df: DataFrame) -> Iterator[str]:
    plan: Any = df._jdf.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        if leaf.nodeName().startswith("LogicalRelation") or leaf.nodeName() == "Relation":
            yield from _mark_of(leaf.relation())


def _mark_of(relation: Any) -> Iterator[str]:
    if relation.getClass().getSimpleName() == "HadoopFsRelation":
        mark = relation.options().get(_MARK)
        if mark.isDefined():
            yield mark.get()


def _marks_on_connect(df: Any) -> Iterator[str]:
    yield from _marks_in(df._plan.to_proto(df.sparkSession.client))


def _marks_in(message: Any) -> Iterator[str]:
    """The marks anywhere in a plan, as it is sent."""
    for descriptor, value in message.ListFields():
        if descriptor.name == "options" and _MARK in value:
            yield value[_MARK]
        elif descriptor.message_type is not None and not hasattr(value, "items"):
            for each in [value] if hasattr(value, "ListFields") else value:
                yield from _marks_in(each)
