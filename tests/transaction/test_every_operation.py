"""Claims about every committing operation of the Arrow engine, DDL and maintenance.

The commit describes its work, a rerun does nothing, and an append-only table loses no row.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col, ddl, maintenance
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize, purge, repair, restore, revert, vacuum
from delta_ops.transaction.commit.info import engine_info
from tests.support.commands import COMMANDS, TXN, Command, age_log, prepared, rows_from

Json = dict[str, Any]

_VECTORS = {"delta.enableDeletionVectors": "true"}
_FIRST = col("id") == 1
_WHY = "why"
_DRAWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DEPENDS_ON_BYTES = re.compile(r"Bytes|Size|TimeMs")
"""Metrics that depend on the bytes of a file, or on the time."""


def _one_file(log: DeltaLog) -> None:
    da.write(log, rows_from(1), "overwrite", overwrite_schema=True, partition_by=[])


def _one_file_with_a_vector(log: DeltaLog) -> None:
    _one_file(log)
    da.delete(log, _FIRST)


def _missing_file(log: DeltaLog) -> None:
    (Path(log.uri) / log.snapshot().add_files()[0].path).unlink()


def _file_of_nobody(log: DeltaLog) -> None:
    place = Path(log.uri) / "nobody.parquet"
    place.write_text("")
    os.utime(place, (0, 0))


def _merge(log: DeltaLog) -> Any:
    source = pa.concat_tables([rows_from(1), rows_from(5)])
    merge = da.merge(log, source, "target.id = source.id", txn=TXN, user_metadata=_WHY)
    merge = merge.when_matched_update_all("source.id > 1").when_matched_delete()
    merge = merge.when_not_matched_insert_all()
    return merge.when_not_matched_by_source_delete("target.id = 4").execute()


def _convert(log: DeltaLog) -> Any:
    pq.write_table(pa.table({"id": [1, 2]}), Path(log.uri) / "a.parquet")
    return da.convert(log, user_metadata=_WHY)


def _clone(log: DeltaLog) -> Any:
    return ddl.shallow_clone(log, _clone_of(log), txn=TXN, user_metadata=_WHY)


def _clone_of(log: DeltaLog) -> Path:
    return Path(log.uri).parent / "clone"


OPERATIONS: Mapping[str, Command] = {
    **{name: each for name, each in COMMANDS.items() if each.function is not ddl.generate_manifest},
    "write, mode append": Command(
        function=da.write,
        run=lambda log: da.write(log, rows_from(5), txn=TXN, user_metadata=_WHY),
    ),
    "write, mode overwrite": Command(
        function=da.write,
        run=lambda log: da.write(log, rows_from(5), "overwrite", txn=TXN, user_metadata=_WHY),
    ),
    "write, mode overwrite of the rows that match": Command(
        function=da.write,
        run=lambda log: da.write(
            log, rows_from(1, 1), "overwrite", replace_where=_FIRST, txn=TXN, user_metadata=_WHY
        ),
    ),
    "delete": Command(
        function=da.delete,
        run=lambda log: da.delete(log, _FIRST, txn=TXN, user_metadata=_WHY),
    ),
    "delete by a vector": Command(
        function=da.delete,
        run=lambda log: da.delete(log, _FIRST, txn=TXN, user_metadata=_WHY),
        properties=_VECTORS,
        prepare=_one_file,
    ),
    "update": Command(
        function=da.update,
        run=lambda log: da.update(log, {"v": 1.0}, "id = 1", txn=TXN, user_metadata=_WHY),
    ),
    "merge": Command(function=da.merge, run=_merge),
    "convert": Command(function=da.convert, run=_convert, is_new=True),
    "shallow clone": Command(function=ddl.shallow_clone, run=_clone),
    "optimize": Command(function=optimize, run=lambda log: optimize(log, user_metadata=_WHY)),
    "optimize, Z-order": Command(
        function=optimize, run=lambda log: optimize(log, zorder_by=["id"], user_metadata=_WHY)
    ),
    "purge": Command(
        function=purge,
        run=lambda log: purge(log, user_metadata=_WHY),
        properties=_VECTORS,
        prepare=_one_file_with_a_vector,
    ),
    "restore": Command(
        function=restore, run=lambda log: restore(log, version=0, user_metadata=_WHY)
    ),
    "revert": Command(function=revert, run=lambda log: revert(log, 1, user_metadata=_WHY)),
    "repair": Command(
        function=repair,
        run=lambda log: repair(log, remove_missing=True, user_metadata=_WHY),
        prepare=_missing_file,
    ),
    "vacuum": Command(
        function=vacuum,
        run=lambda log: vacuum(log, log_commits=True, user_metadata=_WHY),
        prepare=_file_of_nobody,
    ),
}
TAKE_TXN = [
    name
    for name, operation in OPERATIONS.items()
    if "txn" in inspect.signature(operation.function).parameters
]
LOSE_ROWS = (
    "create or replace table",
    "delete",
    "delete by a vector",
    "merge",
    "repair",
    "restore",
    "revert",
    "update",
    "write, mode overwrite",
    "write, mode overwrite of the data's partitions",
    "write, mode overwrite of the rows that match",
    "write, mode overwrite of the schema",
)
COMMIT_NOTHING = {
    # The Arrow engine.
    da.check_rows,
    da.count_rows,
    da.diff_rows,
    da.explain_scan,
    da.export_schema,
    da.read_changes,
    da.rewrite,
    da.stage_write,
    da.to_batches,
    da.to_table,
    # DDL.
    ddl.drop_table,
    ddl.generate_manifest,
    # Maintenance.
    maintenance.advise,
    maintenance.assess,
    maintenance.auto_compact,
    maintenance.checkpoint_due,
    maintenance.clean_up_log,
    maintenance.compact_log,
    maintenance.create_checkpoint,
    maintenance.create_index,
    maintenance.create_scan_cache,
    maintenance.drop_index,
    maintenance.find_tables,
    maintenance.fleet_health,
    maintenance.health,
    maintenance.health_json,
    maintenance.list_indexes,
    maintenance.refresh_index,
    maintenance.refresh_indexes,
    # Both run the operations above.
    maintenance.maintain,
    maintenance.maintain_fleet,
}


def _expected(
    operation: str, /, metrics: Mapping[str, int] | None = None, **parameters: Any
) -> Json:
    """Operation, parameters and metrics of a commit; lists and objects are JSON texts."""
    texts = {
        name: json.dumps(value, separators=(",", ":")) if isinstance(value, list | dict) else value
        for name, value in parameters.items()
    }
    return {"operation": operation, "parameters": texts, "metrics": metrics or {}}


def _created(operation: str, *cluster_by: str) -> Json:
    return _expected(
        operation,
        partitionBy=[],
        clusterBy=list(cluster_by),
        description=None,
        isManaged="false",
        properties={},
    )


def _set(name: str, value: str) -> Json:
    return _expected("SET TBLPROPERTIES", properties={name: value})


def _field(
    name: str, data_type: str, metadata: Mapping[str, Any] | None = None, *, nullable: bool = True
) -> Json:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": metadata or {}}


def _changed(field: Json) -> Json:
    return _expected("CHANGE COLUMN", column=field)


def _added(field: Json) -> Json:
    return _expected("ADD COLUMNS", columns=[{"column": field}])


def _written(
    mode: str, rows: int, removed: int = 0, by: tuple[str, ...] = ("p",), **more: Any
) -> Json:
    """A write of one file for each row."""
    files = rows if by else 1
    metrics = {"numFiles": files, "numOutputRows": rows}
    if removed:
        metrics["numRemovedFiles"] = removed
    return _expected("WRITE", metrics, mode=mode, partitionBy=list(by), **more)


def _deleted(*, files: int, vectors: int) -> Json:
    metrics = {
        "numRemovedFiles": files,
        "numAddedFiles": 0,
        "numAddedChangeFiles": 0,
        "numCopiedRows": 0,
        "numDeletedRows": 1,
        "numDeletionVectorsAdded": vectors,
        "numDeletionVectorsRemoved": 0,
        "numDeletionVectorsUpdated": 0,
    }
    return _expected("DELETE", metrics, predicate=["`id` = 1"])


def _optimized(*zorder_by: str) -> Json:
    metrics = {
        "numFiles": 2,
        "numOutputRows": 4,
        "numRemovedFiles": 4,
        "numAddedFiles": 2,
        "numDeletionVectorsRemoved": 0,
    }
    return _expected(
        "OPTIMIZE",
        metrics,
        predicate=[],
        zOrderBy=list(zorder_by),
        clusterBy=[],
        auto=False,
        targetSize=128 << 20,
    )


COMMIT_INFO: Mapping[str, Json] = {
    "create table": _created("CREATE TABLE"),
    "create table clustered": _created("CREATE TABLE", "id"),
    "create or replace table": _created("CREATE OR REPLACE TABLE"),
    "rename table": _expected("UPDATE TABLE METADATA", metadataUpdate={"name": "orders"}),
    "comment on table": _set("comment", "What was sold."),
    "set properties": _set("owner", "me"),
    "unset properties": _expected("UNSET TBLPROPERTIES", properties=["owner"], ifExists=True),
    "switch in-commit timestamps on": _set("delta.enableInCommitTimestamps", "true"),
    "switch row tracking on": _set("delta.enableRowTracking", "true"),
    "upgrade to column mapping": _set("delta.columnMapping.mode", "name"),
    "add columns": _added(_field("s.z", "integer")),
    "add mapped columns": _added(
        _field(
            "z",
            "integer",
            {"delta.columnMapping.id": 7, "delta.columnMapping.physicalName": "col-*"},
        )
    ),
    "rename column": _expected("RENAME COLUMN", oldColumnPath="p", newColumnPath="part"),
    "drop columns": _expected("DROP COLUMNS", columns=["v", "s.x"]),
    "reorder columns": _expected(
        "REPLACE COLUMNS",
        columns=[
            _field("v", "double"),
            _field("id", "long"),
            _field("p", "string"),
            _field("s", "struct"),
        ],
    ),
    "comment on column": _changed(_field("s.x", "long", {"comment": "one"})),
    "set default": _changed(_field("v", "double", {"CURRENT_DEFAULT": "0.0"})),
    "widen a type": _changed(_field("id", "decimal(22,0)")),
    "cluster by": _expected("CLUSTER BY", oldClusteringColumns="", newClusteringColumns="id"),
    "add constraint": _expected("ADD CONSTRAINT", name="positive", expr="id > 0"),
    "drop constraint": _expected("DROP CONSTRAINT", name="positive", expr="id > 0", existed="true"),
    "set not null": _changed(_field("id", "long", nullable=False)),
    "drop not null": _changed(_field("id", "long")),
    "add feature": _set("delta.feature.domainMetadata", "supported"),
    "drop feature": _expected(
        "DROP FEATURE", featureName="inCommitTimestamp", truncateHistory=False
    ),
    "drop V2 checkpoints with their history": _expected(
        "DROP FEATURE", featureName="v2Checkpoint", truncateHistory=True
    ),
    "drop deletion vectors with their history": _expected(
        "DROP FEATURE", featureName="deletionVectors", truncateHistory=True
    ),
    "upgrade protocol": _expected(
        "UPGRADE PROTOCOL", newProtocol={"minReaderVersion": 2, "minWriterVersion": 5}
    ),
    "backfill statistics": _expected(
        "COMPUTE STATS", {"numFilesScanned": 4, "numDescribedFiles": 4}, predicate=[]
    ),
    "write, mode append": _written("Append", 2),
    "write, mode append and merge of the schema": _written("Append", 2, canMergeSchema=True),
    "write, mode overwrite": _written("Overwrite", 2, removed=4),
    "write, mode overwrite of the schema": _written(
        "Overwrite", 1, removed=4, by=(), canOverwriteSchema=True
    ),
    "write, mode overwrite of the data's partitions": _written(
        "Overwrite", 1, removed=2, isDynamicPartitionOverwrite=True
    ),
    "write, mode overwrite of the rows that match": _written(
        "Overwrite", 1, removed=1, predicate="`id` = 1"
    ),
    "write, mode error": _written("ErrorIfExists", 2, by=()),
    "write, mode ignore": _written("Ignore", 2, by=()),
    "delete": _deleted(files=1, vectors=0),
    "delete by a vector": _deleted(files=0, vectors=1),
    "update": _expected(
        "UPDATE",
        {
            "numRemovedFiles": 1,
            "numAddedFiles": 1,
            "numAddedChangeFiles": 0,
            "numUpdatedRows": 1,
            "numCopiedRows": 0,
        },
        predicate=["id = 1"],
    ),
    "merge": _expected(
        "MERGE",
        {
            "numSourceRows": 4,
            "numTargetRowsInserted": 2,
            "numTargetRowsUpdated": 1,
            "numTargetRowsDeleted": 2,
            "numTargetRowsMatchedUpdated": 1,
            "numTargetRowsMatchedDeleted": 1,
            "numTargetRowsNotMatchedBySourceUpdated": 0,
            "numTargetRowsNotMatchedBySourceDeleted": 1,
            "numTargetRowsCopied": 0,
            "numOutputRows": 3,
            "numTargetFilesAdded": 3,
            "numTargetFilesRemoved": 3,
            "numTargetChangeFilesAdded": 0,
            "numTargetDeletionVectorsAdded": 0,
            "numTargetDeletionVectorsRemoved": 0,
            "numTargetDeletionVectorsUpdated": 0,
        },
        predicate=["target.id = source.id"],
        matchedPredicates=[
            {"actionType": "update", "predicate": "source.id > 1"},
            {"actionType": "delete"},
        ],
        notMatchedPredicates=[{"actionType": "insert"}],
        notMatchedBySourcePredicates=[{"actionType": "delete", "predicate": "target.id = 4"}],
    ),
    "convert": _expected(
        "CONVERT",
        {"numConvertedFiles": 1},
        numFiles=1,
        partitionedBy=[],
        collectStats=True,
        sourceFormat="parquet",
    ),
    "shallow clone": _expected(
        "CLONE",
        {"sourceNumOfFiles": 4, "numRemovedFiles": 0, "numCopiedFiles": 0},
        source="/table",
        sourceVersion=1,
    ),
    "optimize": _optimized(),
    "optimize, Z-order": _optimized("id"),
    "purge": _expected(
        "REORG",
        {
            "numFiles": 1,
            "numOutputRows": 1,
            "numRemovedFiles": 1,
            "numAddedFiles": 1,
            "numDeletionVectorsRemoved": 1,
        },
        predicate=[],
        applyPurge=True,
    ),
    "restore": _expected(
        "RESTORE",
        {"numOfFilesAfterRestore": 2, "numRemovedFiles": 2, "numRestoredFiles": 0},
        version=0,
        timestamp=None,
    ),
    "revert": _expected("REVERT", {"numRemovedFiles": 2, "numRestoredFiles": 0}, version=1),
    "repair": _expected(
        "FSCK",
        {
            "numFilesScanned": 4,
            "numMissingFiles": 1,
            "numMissingDVs": 0,
            "numRemovedFiles": 1,
            "numDescribedFiles": 0,
        },
    ),
    "vacuum": _expected(
        "VACUUM END", {"numDeletedFiles": 1, "numVacuumedDirectories": 3}, status="COMPLETED"
    ),
}
REARRANGE = ("backfill statistics", "optimize", "optimize, Z-order", "purge", "vacuum")
"""Operations that never conflict with an append, at any isolation level."""
OWN_TXNS = {
    "backfill statistics": "delta_ops:backfill-statistics:",
    "optimize": "delta_ops:optimize:",
    "optimize, Z-order": "delta_ops:optimize:",
    "purge": "delta_ops:optimize:",
    "repair": "delta_ops:repair:",
    "restore": "delta_ops:restore:",
    "revert": "delta_ops:revert:",
}
"""Prefixes of the application ids of maintenance; the txn version is the version read."""
BLIND = (
    "convert",
    "vacuum",
    "write, mode append",
    "write, mode append and merge of the schema",
    "write, mode error",
    "write, mode ignore",
    # All of DDL, except operations that read files or rows.
    *(
        name
        for name, operation in COMMANDS.items()
        if operation.function.__name__ in ddl.__all__
        and (not operation.reads_files or operation.function is ddl.drop_feature)
    ),
)
"""Operations that depend on no file of the table."""
COUNTS_OF_FILES = {
    "add": ("numFiles", "numAddedFiles", "numTargetFilesAdded"),
    "remove": ("numRemovedFiles", "numTargetFilesRemoved"),
}
SIZES_OF_FILES = {
    "add": ("numOutputBytes", "numAddedBytes", "numTargetBytesAdded"),
    "remove": ("numRemovedBytes", "numTargetBytesRemoved", "removedFilesSize"),
}


def table_of(root: Path, name: str) -> DeltaLog:
    """A table for the operation, without a checkpoint."""
    return DeltaLog(prepared(root / "table", OPERATIONS[name], interval="100"))


def last_actions(log: DeltaLog) -> list[Json]:
    path = max((Path(log.uri) / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def written_log(log: DeltaLog, name: str) -> DeltaLog:
    """The log that the operation commits to."""
    return DeltaLog(_clone_of(log)) if name == "shallow clone" else log


def test_no_operation_is_left_out() -> None:
    public = {
        function
        for package in (da, ddl, maintenance)
        for function in (getattr(package, name) for name in package.__all__)
        if inspect.isfunction(function) and not function.__name__.startswith("plan_")
    }
    assert public == {each.function for each in OPERATIONS.values()} | COMMIT_NOTHING
    assert OPERATIONS.keys() == COMMIT_INFO.keys()


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_commit_says_what_it_did(tmp_path: Path, name: str) -> None:
    log = table_of(tmp_path, name)
    OPERATIONS[name].run(log)
    log = written_log(log, name)
    actions = last_actions(log)
    (info,) = [each["commitInfo"] for each in actions if "commitInfo" in each]
    parameters = {
        key: _DRAWN.sub("*", value).replace(str(tmp_path), "") if isinstance(value, str) else value
        for key, value in info["operationParameters"].items()
    }
    metrics = {
        key: int(value)
        for key, value in info["operationMetrics"].items()
        if not _DEPENDS_ON_BYTES.search(key)
    }
    recorded = {"operation": info["operation"], "parameters": parameters, "metrics": metrics}
    assert recorded == COMMIT_INFO[name]
    assert info.get("readVersion", -1) == log.snapshot().version - 1
    assert info["isBlindAppend"] is (name in BLIND)
    assert info["isolationLevel"] == ("SnapshotIsolation" if name in REARRANGE else "Serializable")
    assert info["engineInfo"] == engine_info()
    assert info.get("userMetadata") == (None if name in COMMANDS else _WHY)
    check_metrics(info["operationMetrics"], actions, name)
    files = [each.get("add") or each.get("remove") for each in actions]
    assert {file["dataChange"] for file in files if file} <= {name not in REARRANGE}
    if name in OWN_TXNS:
        (txn,) = [each["txn"] for each in actions if "txn" in each]
        assert txn["appId"].startswith(OWN_TXNS[name])
        assert txn["version"] == info["readVersion"]


def check_metrics(metrics: Json, actions: list[Json], name: str) -> None:
    """Assert that a commit's metrics match its actions."""
    adds = {each["add"]["path"]: each["add"]["size"] for each in actions if "add" in each}
    removes = {
        each["remove"]["path"]: each["remove"]["size"] for each in actions if "remove" in each
    }
    if name == "delete by a vector":  # the same file with a vector counts as neither
        assert adds == removes
        adds = removes = {}
    for kind, sizes in (("add", adds.values()), ("remove", removes.values())):
        for metric in COUNTS_OF_FILES[kind]:
            assert int(metrics.get(metric, len(sizes))) == len(sizes), metric
        for metric in SIZES_OF_FILES[kind]:
            assert int(metrics.get(metric, sum(sizes))) == sum(sizes), metric


@pytest.mark.parametrize("name", TAKE_TXN)
def test_a_second_run_with_the_same_txn_does_nothing(tmp_path: Path, name: str) -> None:
    log = table_of(tmp_path, name)
    command = OPERATIONS[name]
    first = command.run(log)
    log = written_log(log, name)
    if command.function in (da.delete, da.merge, da.update):
        da.write(log, rows_from(1))  # the operation would change these rows
    else:
        commit_txn(log, ("another", 1))
    before = contents(tmp_path)
    again = command.run(DeltaLog(tmp_path / "table"))
    assert (first.already_committed, again.already_committed) == (False, True)
    assert (again.version, again.ignored) == (first.version, False)
    assert contents(tmp_path) == before


def commit_txn(log: DeltaLog, txn: tuple[str, int]) -> None:
    transaction = begin(log)
    transaction.set_transaction(txn)
    transaction.commit(operation="WRITE", hooks=[])


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - set(TAKE_TXN)))
def test_a_second_run_without_a_txn_of_the_caller_does_nothing(tmp_path: Path, name: str) -> None:
    log = table_of(tmp_path, name)
    OPERATIONS[name].run(log)
    before = contents(tmp_path)
    OPERATIONS[name].run(DeltaLog(tmp_path / "table"))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", LOSE_ROWS)
def test_an_append_only_table_refuses_what_removes_rows(tmp_path: Path, name: str) -> None:
    log = table_of(tmp_path, name)
    ddl.set_properties(log, {"delta.appendOnly": "true"})
    before = contents(tmp_path)
    with pytest.raises(InvalidRequestError, match="append-only"):
        OPERATIONS[name].run(log)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    [
        "add constraint",
        "backfill statistics",
        "cluster by",
        "drop columns",
        "drop deletion vectors with their history",
        "optimize",
        "optimize, Z-order",
        "purge",
        "set properties",
        "switch row tracking on",
        "vacuum",
        "write, mode append",
        "write, mode append and merge of the schema",
    ],
)
def test_an_append_only_table_takes_what_removes_no_row(tmp_path: Path, name: str) -> None:
    log = table_of(tmp_path, name)
    ddl.set_properties(log, {"delta.appendOnly": "true"})
    age_log(log, 40)  # features with traces in the log can be dropped
    num_rows = da.count_rows(log)
    OPERATIONS[name].run(log)
    assert da.count_rows(DeltaLog(log.uri)) >= num_rows


@pytest.mark.parametrize(
    ("name", "operation", "requested"),
    [
        ("repair", repair, {"remove_missing": True}),
        ("restore", restore, {"version": 0}),
        ("revert", revert, {"version": 1}),
    ],
    ids=["repair", "restore", "revert"],
)
def test_an_append_only_table_refuses_a_dry_run_alike(
    tmp_path: Path, name: str, operation: Callable[..., Any], requested: Json
) -> None:
    log = table_of(tmp_path, name)
    ddl.set_properties(log, {"delta.appendOnly": "true"})
    with pytest.raises(InvalidRequestError, match="append-only"):
        operation(log, **requested, dry_run=True)


def test_a_table_that_was_append_only_is_not_restored_to_fewer_rows(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, rows_from(1), configuration={"delta.appendOnly": "true"})
    da.write(log, rows_from(3))
    ddl.set_properties(log, {"delta.appendOnly": None})
    for dry_run in (True, False):
        with pytest.raises(InvalidRequestError, match="append-only"):
            restore(log, version=0, dry_run=dry_run)
