"""A file that another writer has added to a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops import DeltaLog, begin
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import encode_path
from delta_ops.transaction import Staged


def add_file(root: Path, data: pa.Table, path: str, **partition_values: str) -> None:
    """Add a file to a table as another writer might."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, place)
    transaction = begin(DeltaLog(root))
    add = AddFile(
        path=encode_path(path),
        size=place.stat().st_size,
        partition_values=partition_values,
        modification_time=0,
    )
    transaction.stage(
        Staged(
            adds=(add,),
            schema=transaction.schema,
            partition_columns=transaction.metadata.partition_columns,
            num_rows=len(data),
        )
    )
    transaction.commit(operation="WRITE")
