"""A table without columns, as delta-spark's `CREATE TABLE ... USING delta` creates it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Action, Protocol
from delta_ops.protocol.schema import StructType, schema_to_json
from tests.support.tables import add, metadata

_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=4)
_FEED = {"delta.enableChangeDataFeed": "true"}


def create_without_columns(root: Path, num_rows: int) -> Path:
    """The table; its data file has a column that the table does not have."""
    log = DeltaLog(root)
    actions: list[Action] = [
        _PROTOCOL,
        metadata(schema_string=schema_to_json(StructType()), configuration=_FEED),
    ]
    create_commit(log.storage, log.log_directory, 0, actions)
    if num_rows:
        place = root / "a.parquet"
        pq.write_table(pa.table({"x": list(range(num_rows))}), place)
        file = add("a.parquet", size=place.stat().st_size)
        create_commit(log.storage, log.log_directory, 1, [file])
    return root
