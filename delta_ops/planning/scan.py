"""Scan: choose the live files that a read opens.

A file is skipped only if its partition values or statistics prove that none of its rows match. Both
functions make the same choice, for every engine and the command line. An index or a cache of
choices would belong here.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import FALSE_SCALAR
from delta_ops.protocol.predicate import Predicate, must_match, resolve
from delta_ops.protocol.predicate import columns as columns_of
from delta_ops.protocol.stats.file_domains import PartitionColumn


def plan_scan(
    snapshot: Snapshot, predicate: Predicate | None = None, *, partition_time_zone: str = "UTC"
) -> list[AddFile]:
    """Choose the files that may hold a matching row, in the order of the log.

    Args:
        predicate: None chooses every file.
        partition_time_zone: Time zone for partition timestamps without a zone.

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
    """Choose files as `plan_scan` does, and return them as columns: much smaller for many files.

    Args:
        columns: As for `Snapshot.files`.

    Raises:
        InvalidRequestError: A column does not exist, or the predicate does not fit the table.
    """
    return snapshot.files(columns, predicate, partition_time_zone=partition_time_zone)


def is_true_throughout(predicate: Predicate, snapshot: Snapshot, files: pa.Table) -> bool:
    """Return whether partition values alone prove that a predicate is true for all rows of files.

    Args:
        files: Files from `plan_columnar_scan` with `partition_values`.
    """
    resolved = resolve(predicate, snapshot.schema)
    named = columns_of(resolved)
    if not named <= set(snapshot.partition_columns):
        return False  # statistics may be wrong: the rows must be checked
    values = files["partition_values"].combine_chunks()
    partitions: dict[str, PartitionColumn] = {}
    for name in named:
        encoded = values.field(name).dictionary_encode(null_encoding="encode")
        partitions[name] = PartitionColumn(encoded.indices, encoded.dictionary)
    matched = must_match(resolved, partitions, pa.nulls(len(files), pa.string()))
    return bool(pc.all(pc.fill_null(matched, FALSE_SCALAR), min_count=0).as_py())
