"""Table reader: reads a table as a Python stream source of Spark; since Spark 4.0."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from delta_ops.arrow.read.scan import read_files
from delta_ops.log import DeltaLog
from delta_ops.planning.stream_slices import SliceLimits
from delta_ops.planning.table_stream import TableStream
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.stream_offset import StreamOffset, stream_offset_from_json
from delta_ops.spark.versions import arrow_schema_of

_TASKS = 16
"""Maximum number of tasks in a batch."""


@dataclass
class _Files(InputPartition):
    """Files that one task reads."""

    version: int
    """Version of the table whose columns the rows get."""
    adds: Sequence[AddFile]

    def __init__(self, version: int, adds: Sequence[AddFile]) -> None:
        self.version, self.adds = version, adds


class TableReader(DataSourceStreamReader):
    """A table as a Python data source of Spark. An empty offset is the position before all rows.

    A batch has all available rows. `LimitedReader` applies the limits of the reader's options.
    """

    def __init__(
        self, log: DeltaLog, open_stream: Callable[[], TableStream], schema: StructType
    ) -> None:
        self._log, self._open, self._schema = log, open_stream, schema
        self._opened: TableStream | None = None
        self._end: StreamOffset | None = None
        """End of the last batch, if this process has seen it."""

    def __getstate__(self) -> dict[str, Any]:
        """Drop the planning state, because tasks do not need it."""
        return {**vars(self), "_opened": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """See Spark."""
        return {}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """See Spark; versions before 4.2 do not pass the start."""
        end = self._stream.end_after(self._end, SliceLimits())
        self._end = end or self._end
        return _fields_of(self._end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See Spark."""
        self._end = place = offset_of(end)
        if place is None or start == end:
            return []
        adds = self._stream.adds_between(offset_of(start), place)
        version, size = self._stream.schema_snapshot.version, -(-len(adds) // _TASKS)
        return [_Files(version, adds[n : n + size]) for n in range(0, len(adds), max(size, 1))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See Spark."""
        assert isinstance(partition, _Files)
        snapshot = self._log.snapshot(partition.version)
        schema = arrow_schema_of(self._schema)
        for batch in read_files(snapshot, partition.adds, schema.names):
            columns = [batch.column(field.name).cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    @property
    def _stream(self) -> TableStream:
        if self._opened is None:
            self._opened = self._open()
        return self._opened


def offset_of(fields: dict[str, Any]) -> StreamOffset | None:
    """Convert an offset from Spark's checkpoint; None for the empty offset before all rows."""
    return stream_offset_from_json(json.dumps(fields)) if fields else None


def _fields_of(offset: StreamOffset | None) -> dict[str, Any]:
    return {} if offset is None else dict(json.loads(offset.to_json()))
