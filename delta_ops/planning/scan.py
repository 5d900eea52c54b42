"""Scan: which live files a read opens.

A file is left out only if its partition values or statistics prove that no row of it matches. Both
functions choose alike, for every engine and the terminal: an index or a cache of choices has its
place here.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.predicate import Predicate, must_match, resolve
from delta_ops.protocol.predicate import columns as columns_of
from delta_ops.protocol.stats.file_domains import PartitionColumn


def plan_scan(
    snapshot: Snapshot, predicate: Predicate | None = None, *, partition_time_zone: str = "UTC"
) -> list[AddFile]:
    """Choose the files that may hold a matching row, as the log has them.

    Args:
        predicate: None chooses every file.
        partition_time_zone: Zone of partition values of type timestamp that name none.

    Raises:
        InvalidRequestError: The predicate does not fit the table.
    """
    return snapshot.add_files(predicate, partition_time_zone=partition_time_zone)


def plan_columnar_scan(
    snapshot: Snapshot,
    columns: Sequence[str],
    predicate: Predicate | None = None,
    *,
    partition_time_zone: str = "UTC",
) -> pa.Table:
    """Choose as `plan_scan` does, and tell of the files column by column: far less for many.

    Args:
        columns: As for `Snapshot.files`.

    Raises:
        InvalidRequestError: There is no such column, or the predicate does not fit the table.
    """
    return snapshot.files(columns, predicate, partition_time_zone=partition_time_zone)


def is_true_throughout(predicate: Predicate, snapshot: Snapshot, files: pa.Table) -> bool:
    """Whether partition values alone say of all rows of these files that the predicate is true.

    Args:
        files: As `plan_columnar_scan` tells of them, with `partition_values`.
    """
    resolved = resolve(predicate, snapshot.schema)
    named = columns_of(resolved)
    if not named <= set(snapshot.partition_columns):
        return False  # statistics are the writer's word: rows are looked at
    values = files["partition_values"].combine_chunks()
    partitions: dict[str, PartitionColumn] = {}
    for name in named:
        encoded = values.field(name).dictionary_encode(null_encoding="encode")
        partitions[name] = PartitionColumn(encoded.indices, encoded.dictionary)
    matched = must_match(resolved, partitions, pa.nulls(len(files), pa.string()))
    return bool(pc.all(pc.fill_null(matched, False), min_count=0).as_py())
