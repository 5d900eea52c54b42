"""The commit protocol: Spark's tasks write files under their final names and report them.

A `FileCommitProtocol` gives each Spark task its output paths and receives the results of successful
tasks. Hadoop's protocol writes into `_temporary` and then renames. In an object store a rename
copies every byte, and the driver has to list the directory to find the files. Our protocol gives
each file its final name, made from the split and the id of the attempt, so two attempts never share
a name. A task returns path, size and time of its files with its result. The driver accepts one
result for each split, even after retries or speculation. Only the files in accepted results count
as written. No log refers to any other file.

1. A failed attempt deletes its files. A failed job deletes the files of its tasks. Files of a
   killed process stay until vacuum.
2. A file is in the commit only if the result of its attempt reached the driver.
3. During the write, other writes of the same session see the setting too. They get the protocol
   that they would have without it.

The class (`java/delta_ops/writes`) reaches executors as a jar, so executors do not need delta_ops.
It depends on Spark internals. If these differ, or the session has no local JVM,
`ProtocolUnavailableError` is raised, and the caller falls back to a slower write through the public
API.
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
    """This session or Spark version does not support the protocol; use another write path."""


class WrittenFile(NamedTuple):
    """A file that a task wrote."""

    path: str
    """Relative to the written directory, as the file system names it."""
    size: int
    """Bytes."""
    modified_ms: int
    """Milliseconds since the Unix epoch, by the store's clock."""


_without: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""Sessions that do not support the protocol, with the reason."""


def write_parquet(spark: SparkSession, writer: DataFrameWriter, place: str) -> list[WrittenFile]:
    """Write the rows of a writer and return the files, in the order of the splits.

    Args:
        spark: The session of the writer's rows.
        writer: With its options and partitioning set.
        place: A directory in Spark's format. It must be empty or missing.

    Raises:
        ProtocolUnavailableError: The protocol is unavailable. Files left in `place` belong to no
            table.
    """
    reason = _without.get(spark)
    if reason is not None:
        raise ProtocolUnavailableError(reason)
    try:
        return _write(spark, writer, place)
    except ProtocolUnavailableError as error:
        _without[spark] = str(error)
        logger.warning(
            "This session uses Hadoop's committer, which renames files, and copies them in an "
            "object store: %s",
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
