"""Every command that changes a table, as an operation to kill and rerun."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, ddl
from delta_ops.maintenance import backfill_statistics, create_checkpoint
from delta_ops.storage import open_storage

TXN = ("command", 1)
_DAY_S = 86_400
_MAPPED = {"delta.columnMapping.mode": "name"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, and the table that it runs on; a rerun does nothing more."""

    function: Callable[..., Any]
    run: Callable[[DeltaLog], Any]
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the existing table, where every second commit makes a checkpoint due."""
    prepare: Callable[[DeltaLog], Any] | None = None
    """Prepares that table of two commits."""
    is_new: bool = False
    """Whether it starts without a table."""
    deltalake: bool = True
    """Whether deltalake can read the table before and after the command."""
    is_slow: bool = False
    """Whether only the long tests search its crash points."""
    reads_files: bool = False
    """Whether it needs the list of the table's files, or its rows."""


def rows_from(first: int, count: int = 2, **more: Any) -> pa.Table:
    """Two or more rows of the table, each in its own partition."""
    ids = pa.array(range(first, first + count), pa.int64())
    of_struct = pa.struct([("x", pa.int64()), ("y", pa.string())])
    struct = pa.array([{"x": 1, "y": "a"}] * count, of_struct)
    values = [0.5, *([None] * (count - 1))]
    parts = [chr(ord("a") + number) for number in range(count)]
    return pa.table({"id": ids, "p": parts, "s": struct, "v": values, **more})


def prepared(root: Path, command: Command, *, interval: str = "2", count: int = 2) -> Path:
    """Create the table for a command.

    Args:
        root: A directory to create.
        command: The command.
        interval: Number of commits between checkpoints.
        count: Files of each of its two commits.
    """
    root.mkdir()
    if command.is_new:
        return root
    configuration = {"delta.checkpointInterval": interval, **command.properties}
    da.write(root, rows_from(1, count), partition_by=["p"], configuration=configuration)
    da.write(root, rows_from(count + 1, count))
    if command.prepare is not None:
        command.prepare(DeltaLog("", storage=open_storage(root)))
    return root


def age_log(log: DeltaLog, days: float) -> None:
    """Set older times on the files of a log on disk."""
    then = time.time() - days * _DAY_S
    for place in (Path(log.uri) / "_delta_log").iterdir():
        os.utime(place, (then, then))


def _leave_v2_checkpoints(log: DeltaLog) -> None:
    ddl.set_properties(log, {"delta.checkpointPolicy": "v2"})
    create_checkpoint(log)
    ddl.set_properties(log, {"delta.checkpointPolicy": "classic"})
    age_log(log, 40)


def _leave_vectors(log: DeltaLog) -> None:
    da.delete(log, col("id") == 1)
    ddl.set_properties(log, {"delta.enableDeletionVectors": None})
    da.write(log, rows_from(1), "overwrite")
    age_log(log, 40)


def _give_ids(log: DeltaLog) -> None:
    ddl.add_feature(log, "rowTracking")
    da.write(log, rows_from(1), "overwrite")


def _unpartitioned(log: DeltaLog) -> None:
    da.write(log, rows_from(1), "overwrite", overwrite_schema=True, partition_by=[])


COMMANDS: Mapping[str, Command] = {
    "create table": Command(
        function=ddl.create_table,
        run=lambda log: ddl.create_table(log, rows_from(1).schema, txn=TXN),
        is_new=True,
    ),
    "create table clustered": Command(
        function=ddl.create_table,
        run=lambda log: ddl.create_table(log, rows_from(1).schema, cluster_by=["id"], txn=TXN),
        is_new=True,
    ),
    "create or replace table": Command(
        function=ddl.create_table,
        run=lambda log: ddl.create_table(
            log, pa.schema([("other", pa.int32())]), if_exists="replace", txn=TXN
        ),
        reads_files=True,
    ),
    "rename table": Command(
        function=ddl.rename_table, run=lambda log: ddl.rename_table(log, "orders", txn=TXN)
    ),
    "comment on table": Command(
        function=ddl.set_table_comment,
        run=lambda log: ddl.set_table_comment(log, "What was sold.", txn=TXN),
    ),
    "set properties": Command(
        function=ddl.set_properties,
        run=lambda log: ddl.set_properties(log, {"owner": "me"}, txn=TXN),
    ),
    "unset properties": Command(
        function=ddl.set_properties,
        run=lambda log: ddl.set_properties(log, {"owner": None}, txn=TXN),
        properties={"owner": "me"},
    ),
    "switch in-commit timestamps on": Command(
        function=ddl.set_properties,
        run=lambda log: ddl.set_properties(
            log, {"delta.enableInCommitTimestamps": "true"}, txn=TXN
        ),
    ),
    "switch row tracking on": Command(
        function=ddl.set_properties,
        run=lambda log: ddl.set_properties(log, {"delta.enableRowTracking": "true"}, txn=TXN),
        prepare=_give_ids,
        reads_files=True,
    ),
    "upgrade to column mapping": Command(
        function=ddl.set_properties,
        run=lambda log: ddl.set_properties(log, _MAPPED, txn=TXN),
    ),
    "add columns": Command(
        function=ddl.add_columns,
        run=lambda log: ddl.add_columns(log, [ddl.NewColumn(name="s.z", data_type="int")], txn=TXN),
    ),
    "add mapped columns": Command(
        function=ddl.add_columns,
        run=lambda log: ddl.add_columns(log, [ddl.NewColumn(name="z", data_type="int")], txn=TXN),
        properties=_MAPPED,
    ),
    "rename column": Command(
        function=ddl.rename_column,
        run=lambda log: ddl.rename_column(log, "p", "part", txn=TXN),
        properties=_MAPPED,
    ),
    "drop columns": Command(
        function=ddl.drop_columns,
        run=lambda log: ddl.drop_columns(log, ["v", "s.x"], txn=TXN),
        properties=_MAPPED,
    ),
    "reorder columns": Command(
        function=ddl.reorder_columns,
        run=lambda log: ddl.reorder_columns(log, ["v", "id"], txn=TXN),
    ),
    "comment on column": Command(
        function=ddl.set_comment, run=lambda log: ddl.set_comment(log, "s.x", "one", txn=TXN)
    ),
    "set default": Command(
        function=ddl.set_default, run=lambda log: ddl.set_default(log, "v", "0.0", txn=TXN)
    ),
    "widen a type": Command(
        function=ddl.change_type,
        run=lambda log: ddl.change_type(log, "id", "decimal(22,0)", txn=TXN),
        properties={"delta.enableTypeWidening": "true"},
        deltalake=False,
    ),
    "cluster by": Command(
        function=ddl.cluster_by,
        run=lambda log: ddl.cluster_by(log, ["id"], txn=TXN),
        prepare=_unpartitioned,
    ),
    "add constraint": Command(
        function=ddl.add_constraint,
        run=lambda log: ddl.add_constraint(log, "positive", "id > 0", txn=TXN),
        reads_files=True,
    ),
    "drop constraint": Command(
        function=ddl.drop_constraint,
        run=lambda log: ddl.drop_constraint(log, "positive", txn=TXN),
        prepare=lambda log: ddl.add_constraint(log, "positive", "id > 0"),
    ),
    "set not null": Command(
        function=ddl.set_not_null,
        run=lambda log: ddl.set_not_null(log, "id", txn=TXN),
        reads_files=True,
    ),
    "drop not null": Command(
        function=ddl.drop_not_null,
        run=lambda log: ddl.drop_not_null(log, "id", txn=TXN),
        prepare=lambda log: ddl.set_not_null(log, "id"),
    ),
    "add feature": Command(
        function=ddl.add_feature, run=lambda log: ddl.add_feature(log, "domainMetadata", txn=TXN)
    ),
    "drop feature": Command(
        function=ddl.drop_feature,
        run=lambda log: ddl.drop_feature(log, "inCommitTimestamp", txn=TXN),
        properties={"delta.enableInCommitTimestamps": "true"},
    ),
    "drop V2 checkpoints with their history": Command(
        function=ddl.drop_feature,
        run=lambda log: ddl.drop_feature(log, "v2Checkpoint", True, txn=TXN),
        prepare=_leave_v2_checkpoints,
        deltalake=False,
        is_slow=True,
        reads_files=True,
    ),
    "drop deletion vectors with their history": Command(
        function=ddl.drop_feature,
        run=lambda log: ddl.drop_feature(log, "deletionVectors", True, txn=TXN),
        properties={"delta.enableDeletionVectors": "true"},
        prepare=_leave_vectors,
        reads_files=True,
    ),
    "upgrade protocol": Command(
        function=ddl.upgrade_protocol,
        run=lambda log: ddl.upgrade_protocol(log, 2, 5, txn=TXN),
    ),
    "symlink manifest": Command(
        function=ddl.generate_manifest, run=ddl.generate_manifest, reads_files=True
    ),
    "backfill statistics": Command(
        function=backfill_statistics,
        run=backfill_statistics,
        properties={"delta.dataSkippingNumIndexedCols": "0"},
        prepare=lambda log: ddl.set_properties(log, {"delta.dataSkippingNumIndexedCols": "9"}),
        reads_files=True,
    ),
    "write, mode append and merge of the schema": Command(
        function=da.write,
        run=lambda log: da.write(log, rows_from(5, z=[1, 2]), merge_schema=True, txn=TXN),
        properties=_MAPPED,
    ),
    "write, mode overwrite of the schema": Command(
        function=da.write,
        run=lambda log: da.write(
            log,
            pa.table({"other": [1]}),
            "overwrite",
            overwrite_schema=True,
            partition_by=[],
            txn=TXN,
        ),
    ),
    "write, mode overwrite of the data's partitions": Command(
        function=da.write,
        run=lambda log: da.write(
            log,
            rows_from(5).slice(0, 1),
            "overwrite",
            partition_overwrite_mode="dynamic",
            txn=TXN,
        ),
    ),
    "write, mode error": Command(
        function=da.write,
        run=lambda log: da.write(log, rows_from(1), "error", txn=TXN),
        is_new=True,
    ),
    "write, mode ignore": Command(
        function=da.write,
        run=lambda log: da.write(log, rows_from(1), "ignore", txn=TXN),
        is_new=True,
    ),
}
"""The commands by their effect; `test_kills_of_commands` names commands with tests of their own."""
