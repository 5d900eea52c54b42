"""Stream rows: a table as a stream through Spark's public API, for sessions without a local JVM.

Rows pass through Python workers, and all columns of a file are read. This is a few times slower
than the native source (`source`). Both use the same offsets, so a query can continue from its
checkpoint with either.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from delta_ops.arrow.read.scan import read_files
from delta_ops.log import DeltaLog
from delta_ops.planning.stream_slices import SliceLimits
from delta_ops.planning.table_stream import TableStream
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.stream_offset import StreamOffset, stream_offset_from_json

_TASKS = 16
"""Maximum number of tasks in a batch."""


def streaming_rows(
    spark: SparkSession,
    log: DeltaLog,
    schema: StructType,
    open_stream: Callable[[], TableStream],
) -> DataFrame:
    """Read the rows of a table as a stream.

    Args:
        spark: Any session. The Python of its server needs delta_ops.
        log: The table.
        schema: The columns of every batch.
        open_stream: Called in the process that runs the query.
    """
    text = schema.json()

    # Defined here so that the class is sent to the server with its variables.
    class TableSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"delta_ops_{uuid.uuid5(uuid.NAMESPACE_URL, log.uri).hex}"

        def schema(self) -> str:
            return text

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return TableReader(log, open_stream, schema)

    spark.dataSource.register(TableSource)
    return spark.readStream.schema(schema).format(TableSource.name()).load()


@dataclass
class _Files(InputPartition):
    """Files that one task reads."""

    version: int
    """Version of the table whose columns the rows get."""
    adds: Sequence[AddFile]

    def __init__(self, version: int, adds: Sequence[AddFile]) -> None:
        self.version, self.adds = version, adds


class TableReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A table as a Python data source of Spark. An empty offset is the position before all rows."""

    def __init__(
        self, log: DeltaLog, open_stream: Callable[[], TableStream], schema: StructType
    ) -> None:
        self._log, self._open, self._schema = log, open_stream, schema
        self._opened: TableStream | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Drop the planning state, because tasks do not need it."""
        return {**vars(self), "_opened": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """See Spark."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """See Spark; `latestOffset` applies the limits of the reader's options."""
        return ReadMaxFiles(2**31 - 1)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """See Spark."""
        limits = SliceLimits() if isinstance(limit, ReadAllAvailable) else None
        end = self._stream.end_after(_offset(start), limits)
        return start if end is None else dict(json.loads(end.to_json()))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """See Spark."""
        self._stream.stop_at_latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See Spark."""
        place = _offset(end)
        if place is None or start == end:
            return []
        adds = self._stream.adds_between(_offset(start), place)
        version, size = self._stream.shape.version, -(-len(adds) // _TASKS)
        return [_Files(version, adds[n : n + size]) for n in range(0, len(adds), max(size, 1))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See Spark."""
        assert isinstance(partition, _Files)
        snapshot = self._log.snapshot(partition.version)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for batch in read_files(snapshot, partition.adds, schema.names):
            columns = [batch.column(field.name).cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    @property
    def _stream(self) -> TableStream:
        if self._opened is None:
            self._opened = self._open()
        return self._opened


def _offset(fields: dict[str, Any]) -> StreamOffset | None:
    return stream_offset_from_json(json.dumps(fields)) if fields else None
