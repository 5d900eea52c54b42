"""Stale reads: stops an overwrite with rows from an older version of the same table.

A DataFrame from `format("delta")` reads the version that was the latest at load time. If it
overwrites its own table, commits since then would be lost silently. The scans of such a DataFrame
are therefore marked with the table id and the version, and a writer checks the marks. A read of an
explicit version or time is deliberate, so its scans have no mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.spark.read.read import read_marked
from delta_ops.spark.versions import is_connect

_MARK = "delta_ops.latest"


def read_latest(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """Read all rows and columns of the latest version, and mark the scans with the version.

    Args:
        snapshot: The latest version.
    """
    return read_marked(spark, snapshot, {_MARK: version_mark(snapshot)})


def version_mark(snapshot: Snapshot) -> str:
    """The mark of a version: it differs from those of other versions and other tables."""
    return f"{snapshot.metadata.id}@{snapshot.version}"


def refuse_stale_rows(df: DataFrame, snapshot: Snapshot) -> None:
    """Reject an overwrite if the rows come from an earlier version of the same table.

    Raises:
        InvalidRequestError: The rows come from an earlier version.
    """
    marks = _marks_on_connect(df) if is_connect(df.sparkSession) else version_marks(df)
    for mark in marks:
        table, _, version = mark.rpartition("@")
        if table == snapshot.metadata.id and int(version) < snapshot.version:
            raise InvalidRequestError(
                f"{snapshot.uri}: the rows come from version {version} of this table, and the "
                f"overwrite would lose version {snapshot.version}, which was committed later; "
                "load the table again and overwrite it with the new rows, or load it with "
                "versionAsOf if you want the older version"
            )


def version_marks(df: DataFrame) -> Iterator[str]:
    """Yield the marks of the scans in a classic DataFrame."""
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
    """Yield the marks at any depth of a plan message."""
    for descriptor, value in message.ListFields():
        if descriptor.name == "options" and _MARK in value:
            yield value[_MARK]
        elif descriptor.message_type is not None and not hasattr(value, "items"):
            for each in [value] if hasattr(value, "ListFields") else value:
                yield from _marks_in(each)
