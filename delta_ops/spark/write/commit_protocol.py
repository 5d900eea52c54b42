"""The commit protocol: Spark's tasks write files under their final names and report them.

Spark asks a `FileCommitProtocol` where a task writes, and tells it which tasks succeeded. Hadoop's
writes into `_temporary` and renames, which copies every byte in an object store, and leaves it to a
listing to find out what was written. Ours names a file once, by the split and by an id of the
attempt, so that no two attempts share a name; a task sends back path, size and time of its files
with its result. Of a split the driver takes one result, whatever was retried or speculated: what
those results name is what was written. All else has no name in a log.

1. An attempt that fails deletes its files, and a job that fails those of its tasks; what a killed
   process leaves is garbage for vacuum.
2. A file's name is in the commit only if its attempt's result reached the driver.
3. Other writes of the same session, which see the setting meanwhile, get the protocol that they
   would have got without it.

The class (`java/delta_ops/writes`) reaches executors as a jar, so that they need no delta_ops. It
depends on internals of Spark. Where they differ, or there is no JVM at hand,
`ProtocolUnavailableError` says so, and the caller writes in a slower way by the public API.
"""

from __future__ import annotations

import json
import logging
import re
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameWriter, SparkSession

from delta_ops.spark.compiled import OBSTACLES, first_line, instance_on_executors
from delta_ops.spark.session.session import overriding

logger = logging.getLogger(__name__)

_WRITES = "delta_ops.writes.ReportedWrites"
_CLASS = "delta_ops.writes.CommitProtocol"
_SETTING = "spark.sql.sources.commitProtocolClass"
_CLASS_IS_MISSING = re.compile(
    rf"(ClassNotFoundException|NoClassDefFoundError):\s+{_CLASS.replace('.', '[./]')}"
)
_DIFFERS_INSIDE = re.compile(r"java\.lang\.(\w*LinkageError|\w+MethodError|IncompatibleClass\w+)")


class ProtocolUnavailableError(Exception):
    """This session, or this version of Spark, cannot use the protocol; write in another way."""


class WrittenFile(NamedTuple):
    """A file that a task wrote."""

    path: str
    """Below the place that was written to, as the file system has it."""
    size: int
    """Bytes."""
    modified_ms: int
    """Milliseconds since the Unix epoch, by the store's clock."""


_without: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""Why sessions cannot use it that were found so."""


def write_parquet(spark: SparkSession, writer: DataFrameWriter, place: str) -> list[WrittenFile]:
    """Write the writer's rows; the files that hold each row once, in the order of the splits.

    Args:
        spark: The session of the writer's rows.
        writer: With its options and partitioning set.
        place: A directory that holds nothing, and need not exist, as Spark takes it.

    Raises:
        ProtocolUnavailableError: It cannot be had here. Nothing was written, or what was written
            lies in `place` and belongs to no table.
    """
    reason = _without.get(spark)
    if reason is not None:
        raise ProtocolUnavailableError(reason)
    try:
        return _write(spark, writer, place)
    except ProtocolUnavailableError as error:
        _without[spark] = str(error)
        logger.warning(
            "This session writes by Hadoop's committer, which renames files and in an object store "
            "copies them: %s",
            error,
        )
        raise


def _write(spark: SparkSession, writer: DataFrameWriter, place: str) -> list[WrittenFile]:
    writes = _prepare(spark)
    try:
        with overriding(spark, {_SETTING: _CLASS}):
            report = writes.write(writer.mode("append")._jwrite, place)
    except (PySparkException, Py4JError) as error:
        text = f"{error}\n{getattr(error, '_stackTrace', None) or ''}"
        obstacle = _CLASS_IS_MISSING.search(text) or (
            _DIFFERS_INSIDE.search(text) if _CLASS in text else None
        )
        if obstacle is None:
            raise
        raise ProtocolUnavailableError(obstacle[0]) from error
    if report is None:
        raise ProtocolUnavailableError("Spark used another commit protocol")
    files: Sequence[list[Any]] = json.loads(report)
    return [WrittenFile(*file) for file in files]


def _prepare(spark: SparkSession) -> Any:
    try:
        writes = instance_on_executors(spark, _WRITES)
        writes.leaveOthersTo(spark.conf.get(_SETTING))
        return writes
    except OBSTACLES as error:
        raise ProtocolUnavailableError(first_line(error)) from error
