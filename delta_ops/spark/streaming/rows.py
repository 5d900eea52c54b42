"""Stream rows: a table as a stream through Spark's public API, for sessions without a local JVM.

Rows pass through Python workers, and all columns of a file are read. This is a few times slower
than the native source (`read`). Both use the same offsets, so a query can continue from its
checkpoint with either.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from delta_ops.log import DeltaLog
from delta_ops.planning.table_stream import TableStream
from delta_ops.spark.streaming.table_reader import TableReader
from delta_ops.spark.versions import HAS_STREAM_LIMITS


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
            return reader_of(log, open_stream, schema)

    spark.dataSource.register(TableSource)
    return spark.readStream.schema(schema).format(TableSource.name()).load()


def reader_of(
    log: DeltaLog, open_stream: Callable[[], TableStream], schema: StructType
) -> DataSourceStreamReader:
    """The reader for this process's version of Spark: server and client may differ in version."""
    if not HAS_STREAM_LIMITS:
        return TableReader(log, open_stream, schema)
    from delta_ops.spark.streaming.limited_reader import LimitedReader

    return LimitedReader(log, open_stream, schema)
