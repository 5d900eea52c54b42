"""Tables with features that the Arrow engine writes: delta-spark continues them, and we continue
its tables, in several turns. Equal operations have equal entries in the log."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col, ddl
from delta_ops.arrow.read.scan import read_kept
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize
from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    StructField,
    StructType,
)
from tests.peers.delta_spark import DeltaSpark, DeltaSparkError
from tests.support.tables import rows

MODE = "delta.columnMapping.mode"
_PHYSICAL = re.compile(r"col-[0-9a-f]{8}-[0-9a-f-]{27}")


def data(*ids: int, part: str = "a", **columns: Any) -> pa.Table:
    nested = [{"x": i, "inner": [{"z": i}]} for i in ids]
    table = {"my id": pa.array(ids, pa.int64()), "part": [part] * len(ids), "s": nested}
    return pa.table({**table, **columns})


def actions(root: Path, version: int, kind: str) -> list[dict[str, Any]]:
    lines = (root / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [body[kind] for line in lines if kind in (body := json.loads(line))]


def names_of(root: Path) -> dict[str, str]:
    """The dotted path of each column, by physical name."""

    def walk(fields: list[dict[str, Any]], path: str) -> Any:
        for each in fields:
            yield each["metadata"]["delta.columnMapping.physicalName"], path + each["name"]
            inner = each["type"]
            while isinstance(inner, dict) and inner["type"] == "array":
                inner = inner["elementType"]
            if isinstance(inner, dict) and inner["type"] == "struct":
                yield from walk(inner["fields"], f"{path}{each['name']}.")

    schema = json.loads(DeltaLog(root).snapshot().metadata.schema_string)
    return dict(walk(schema["fields"], ""))


def changes_of(root: Path, version: int) -> dict[str, Any]:
    """A commit's entries about columns, with logical names in place of physical names."""
    names = names_of(root)

    def rename(value: Any) -> Any:
        return json.loads(_PHYSICAL.sub(lambda found: names[found[0]], json.dumps(value)))

    metadata = [
        {
            "schema": json.loads(rename(each["schemaString"])),
            "partitionColumns": each["partitionColumns"],
            "configuration": each["configuration"],
        }
        for each in actions(root, version, "metaData")
    ]
    files = [
        {
            "partitionValues": rename(each["partitionValues"]),
            "stats": _without_counts_of_lists(rename(json.loads(each["stats"]))),
        }
        for each in actions(root, version, "add")
    ]
    return {"metaData": metadata, "add": sorted(files, key=str)}


def _without_counts_of_lists(stats: dict[str, Any]) -> dict[str, Any]:
    """Footers do not count null lists, so our statistics omit that count."""
    counts = {name: value for name, value in stats["nullCount"].items() if name != "s"}
    return {**stats, "nullCount": counts, "tightBounds": True}


def protocol_of(root: Path) -> tuple[int, int, set[str], set[str]]:
    found = DeltaLog(root).snapshot().protocol
    features = {*(found.writer_features or ())}
    return (
        found.min_reader_version,
        found.min_writer_version,
        {*(found.reader_features or ())},
        features,
    )


def same_rows(delta_spark: DeltaSpark, root: Path) -> list[dict[str, Any]]:
    """The rows, which must be the same for both readers."""
    assert delta_spark.validate(root)
    found = rows(da.to_table(root))
    assert rows(delta_spark.read(root)) == found
    return found


@pytest.mark.full
@pytest.mark.parametrize("mode", ["name", pytest.param("id", marks=pytest.mark.long)])
def test_mapped_tables_say_the_same(tmp_path: Path, delta_spark: DeltaSpark, mode: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    da.write(ours, data(1, 2), partition_by=["part"], configuration={MODE: mode})
    delta_spark.write(theirs, data(1, 2), partition_by=["part"], **{MODE: mode})
    wider = data(3, new=pa.array([7], pa.int64()))
    da.write(ours, wider, merge_schema=True)
    delta_spark.write(theirs, wider, mergeSchema="true")
    other = pa.table({"part": ["b"], "my id": pa.array([5], pa.int64()), "late;": ["x"]})
    da.write(ours, other, "overwrite", overwrite_schema=True)
    delta_spark.write(theirs, other, "overwrite", partition_by=["part"], overwriteSchema="true")
    assert protocol_of(ours) == protocol_of(theirs)
    assert same_rows(delta_spark, ours) == same_rows(delta_spark, theirs) == rows(other)
    assert changes_of(ours, 2) == changes_of(theirs, 2)


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "maker"), [("name", "ours"), pytest.param("id", "theirs", marks=pytest.mark.long)]
)
def test_a_mapped_table_is_written_in_turn(
    tmp_path: Path, delta_spark: DeltaSpark, mode: str, maker: str
) -> None:
    table = tmp_path / "t"
    if maker == "ours":
        da.write(table, data(1, 2), partition_by=["part"], configuration={MODE: mode})
    else:
        delta_spark.write(table, data(1, 2), partition_by=["part"], **{MODE: mode})
    delta_spark.write(table, data(3, part="b"))
    da.write(table, data(4, part="b", new=pa.array([7], pa.int64())), merge_schema=True)
    delta_spark.write(table, data(5, late=pa.array([8], pa.int64())), mergeSchema="true")
    delta_spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN `my id` TO `the id`")
    delta_spark.sql(f"ALTER TABLE delta.`{table}` DROP COLUMN new")
    renamed = data(2, 6).rename_columns(["the id", "part", "s"])
    da.write(table, renamed.slice(1), merge_schema=True)
    da.write(table, renamed.slice(0, 1), "overwrite", replace_where=col("the id") == 2)
    found = same_rows(delta_spark, table)
    assert sorted(each["the id"] for each in found) == [1, 2, 3, 4, 5, 6]
    assert {each["the id"]: each["late"] for each in found}[5] == 8
    assert optimize(DeltaLog(table)).files_removed
    assert same_rows(delta_spark, table) == found
    delta_spark.sql(f"DELETE FROM delta.`{table}` WHERE `the id` = 1")
    da.write(table, renamed.slice(0, 1), "overwrite", partition_overwrite_mode="dynamic")
    assert sorted(each["the id"] for each in same_rows(delta_spark, table)) == [2, 3, 4]
    ids = [each["metadata"]["delta.columnMapping.id"] for each in schema_of(table)]
    assert len(set(ids)) == len(ids)


def schema_of(root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DeltaLog(root).snapshot().metadata.schema_string)[
        "fields"
    ]
    return found


@pytest.mark.full
def test_a_table_that_becomes_mapped_says_the_same(tmp_path: Path, delta_spark: DeltaSpark) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    plain = data(1, 2).rename_columns(["id", "part", "s"])
    for root in (ours, theirs):
        da.write(root, plain, partition_by=["part"])
    transaction = begin(DeltaLog(ours))
    transaction.set_properties({MODE: "name"})
    transaction.commit(operation="SET TBLPROPERTIES")
    delta_spark.sql(f"ALTER TABLE delta.`{theirs}` SET TBLPROPERTIES ('{MODE}' = 'name')")
    assert changes_of(ours, 1) == changes_of(theirs, 1)
    assert protocol_of(ours) == protocol_of(theirs)
    da.write(theirs, plain)
    delta_spark.write(ours, plain)
    assert same_rows(delta_spark, ours) == same_rows(delta_spark, theirs)


@pytest.mark.full
def test_identity_columns_are_counted_in_turn(tmp_path: Path, delta_spark: DeltaSpark) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    metadata = {
        "delta.identity.start": 10,
        "delta.identity.step": 5,
        "delta.identity.allowExplicitInsert": False,
    }
    create(ours, StructField("id", LONG, metadata=metadata), StructField("v", STRING))
    delta_spark.sql(
        f"CREATE TABLE delta.`{theirs}` (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 "
        "INCREMENT BY 5), v STRING) USING delta"
    )
    assert schema_of(ours) == schema_of(theirs)
    assert protocol_of(ours) == protocol_of(theirs)
    for root in (ours, theirs):
        for n in (2, 1):
            da.write(root, pa.table({"v": ["o"] * n}))
            delta_spark.write(root, pa.table({"v": ["t"] * n}))
        found = [row["id"] for row in same_rows(delta_spark, root)]
        assert len(set(found)) == 6
        assert all(each >= 10 and each % 5 == 0 for each in found)
        da.write(root, pa.table({"v": ["o"]}))
        last = max(row["id"] for row in same_rows(delta_spark, root))
        (field,) = (each for each in schema_of(root) if each["name"] == "id")
        assert field["metadata"]["delta.identity.highWaterMark"] == last


def create(root: Path, *fields: StructField, **configuration: str) -> None:
    transaction = begin(DeltaLog(root))
    transaction.create_table(StructType(fields), configuration=configuration)
    transaction.commit(operation="CREATE TABLE")


@pytest.mark.full
def test_defaults_are_filled_by_both(tmp_path: Path, delta_spark: DeltaSpark) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    columns: list[tuple[str, DataType, str]] = [("d", LONG, "7"), ("t", STRING, "'it'")]
    fields = (
        StructField(name, kind, metadata={"CURRENT_DEFAULT": text}) for name, kind, text in columns
    )
    create(ours, StructField("id", LONG), *fields)
    delta_spark.sql(
        f"CREATE TABLE delta.`{theirs}` (id BIGINT, d BIGINT DEFAULT 7, t STRING DEFAULT 'it') "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    assert protocol_of(ours) == protocol_of(theirs)
    for root in (ours, theirs):
        da.write(root, pa.table({"id": [1]}))
        delta_spark.sql(f"INSERT INTO delta.`{root}` (id) VALUES (2)")
        assert [(row["d"], row["t"]) for row in same_rows(delta_spark, root)] == [(7, "it")] * 2


@pytest.mark.full
def test_a_clustered_table_is_written_in_turn(tmp_path: Path, delta_spark: DeltaSpark) -> None:
    table = tmp_path / "t"
    delta_spark.sql(
        f"CREATE TABLE delta.`{table}` (id BIGINT, v STRING) USING delta CLUSTER BY (v)"
    )
    da.write(table, pa.table({"id": [1], "v": ["x"]}))
    delta_spark.write(table, pa.table({"id": [2], "v": ["y"]}))
    da.write(table, pa.table({"id": [3], "v": ["z"]}))
    delta_spark.sql(f"OPTIMIZE delta.`{table}`")
    da.write(table, pa.table({"id": [4], "v": ["z"]}))
    assert [row["id"] for row in same_rows(delta_spark, table)] == [1, 2, 3, 4]


@pytest.mark.full
@pytest.mark.parametrize("mode", [pytest.param("none", marks=pytest.mark.long), "name"])
def test_changes_of_columns_say_what_the_reference_says(
    tmp_path: Path, delta_spark: DeltaSpark, mode: str
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    properties = {
        MODE: mode,
        "delta.enableTypeWidening": "true",
        "delta.feature.allowColumnDefaults": "supported",
        "delta.feature.clustering": "supported",
    }
    first = pa.table({"id": pa.array([1], pa.int32()), "v": ["x"], "s": [{"n": 1}]})
    for root in (ours, theirs):
        da.write(root, first, configuration=properties)
    ddl.change_type(ours, "id", "bigint")
    ddl.set_default(ours, "v", "'new'")
    ddl.cluster_by(ours, ["v", "s.n"])
    for change in (
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN v SET DEFAULT 'new'",
        "CLUSTER BY (v, s.n)",
    ):
        delta_spark.sql(f"ALTER TABLE delta.`{theirs}` {change}")
    mine, other = DeltaLog(ours), DeltaLog(theirs)
    for version in (1, 2, 3):
        reported, known = (changes_without_ids(each, version) for each in (ours, theirs))
        assert reported == known
    assert mine.snapshot().protocol == other.snapshot().protocol
    domains = [
        json.loads(each.snapshot().domain_metadata()["delta.clustering"].configuration)
        for each in (mine, other)
    ]
    assert [len(each["clusteringColumns"]) for each in domains] == [2, 2]
    assert mode != "none" or domains[0] == domains[1]
    for root in (ours, theirs):
        da.write(root, pa.table({"id": [2**40], "s": [{"n": 1}]}))
        delta_spark.sql(f"INSERT INTO delta.`{root}` (id, s) VALUES (5, named_struct('n', 2L))")
        delta_spark.sql(f"OPTIMIZE delta.`{root}`")
        found = same_rows(delta_spark, root)
        assert sorted((row["id"], row["v"]) for row in found) == [
            (1, "x"),
            (5, "new"),
            (2**40, "new"),
        ]


def changes_without_ids(root: Path, version: int) -> tuple[Any, Any]:
    """Operation and parameters of a commit, without values that are random for each table."""
    entry = next(each for each in DeltaLog(root).history() if each.version == version)
    reported = json.dumps(entry.operation_parameters, sort_keys=True)
    return entry.operation, _PHYSICAL.sub("col", reported)


@pytest.mark.full
def test_partition_columns_are_in_the_files_of_both(
    tmp_path: Path, delta_spark: DeltaSpark
) -> None:
    table = tmp_path / "t"
    requested = {"delta.feature.materializePartitionColumns": "supported"}
    da.write(table, pa.table({"p": ["a"], "id": [1]}), partition_by=["p"], configuration=requested)
    delta_spark.write(table, pa.table({"p": ["b"], "id": [2]}))
    da.write(table, pa.table({"p": ["b"], "id": [3]}))
    assert [row["id"] for row in same_rows(delta_spark, table)] == [1, 2, 3]
    stored = [pq.read_schema(each).names for each in table.glob("p=*/*.parquet")]
    assert all(sorted(names) == ["id", "p"] for names in stored)


@pytest.mark.full
@pytest.mark.full
def test_a_widened_table_is_written_in_turn(tmp_path: Path, delta_spark: DeltaSpark) -> None:
    table = tmp_path / "t"
    delta_spark.sql(
        f"CREATE TABLE delta.`{table}` (id INT) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    da.write(table, pa.table({"id": pa.array([1], pa.int32())}))
    delta_spark.sql(f"ALTER TABLE delta.`{table}` ALTER COLUMN id TYPE BIGINT")
    da.write(table, pa.table({"id": [2**40]}))
    delta_spark.write(table, pa.table({"id": [2**41]}))
    assert [row["id"] for row in same_rows(delta_spark, table)] == [1, 2**40, 2**41]


@pytest.mark.full
@pytest.mark.parametrize("mode", [pytest.param("none", marks=pytest.mark.long), "name"])
def test_the_change_data_feed_is_the_same(
    tmp_path: Path, delta_spark: DeltaSpark, mode: str
) -> None:
    table = tmp_path / "t"
    configuration = {"delta.enableChangeDataFeed": "true", MODE: mode}
    first = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})
    da.write(table, first, partition_by=["p"], configuration=configuration)
    delta_spark.write(table, pa.table({"id": [4, 5], "p": ["a", "b"]}))
    new = pa.table({"id": [2, 8], "p": ["a", "c"]})
    replaced = (col("id") >= 2) & (col("id") != 3)
    da.write(table, new, "overwrite", replace_where=replaced)
    delta_spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 8")
    last = pa.table({"id": [9], "p": ["a"]})
    da.write(table, last, "overwrite", partition_overwrite_mode="dynamic")
    theirs = delta_spark.changes(table, startingVersion="0")
    ours: Any = da.read_changes(table, 0)
    ours = ours if isinstance(ours, pa.Table) else pa.table(ours)
    compared = ["id", "p", "_change_type", "_commit_version"]
    assert rows(ours.select(compared)) == rows(theirs.select(compared))
    assert [row["id"] for row in same_rows(delta_spark, table)] == [3, 9]


GENERATED = {
    "day": (DATE, "CAST(ts AS DATE)"),
    "month": (INTEGER, "MONTH(ts)"),
    "key": (STRING, "concat(upper(p), '-', id)"),
    "twice": (LONG, "id * 2"),
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "by"),
    [
        pytest.param("none", ("day",), id="partitioned"),
        pytest.param("name", (), id="mapped", marks=pytest.mark.long),
    ],
)
def test_generated_columns_are_written_in_turn(
    tmp_path: Path, delta_spark: DeltaSpark, mode: str, by: tuple[str, ...]
) -> None:
    table = tmp_path / "t"
    source_data = (StructField("id", LONG), StructField("ts", TIMESTAMP), StructField("p", STRING))
    made = (
        StructField(name, data_type, metadata={"delta.generationExpression": text})
        for name, (data_type, text) in GENERATED.items()
    )
    txn = begin(DeltaLog(table))
    txn.create_table(StructType((*source_data, *made)), partition_by=by, configuration={MODE: mode})
    txn.commit(operation="CREATE TABLE")
    times = [datetime(2026, 1, 31, 23, tzinfo=UTC), datetime(2026, 2, 1, 1, tzinfo=UTC)]
    ts = pa.array([*times, None], pa.timestamp("us", "UTC"))
    da.write(table, pa.table({"id": [1, 2, 3], "ts": ts, "p": ["a", None, "c"]}))
    delta_spark.write(table, pa.table({"id": [4, 5], "ts": ts[:2], "p": ["d", "e"]}))
    wrong = pa.table({"id": [6], "ts": ts[:1], "p": ["f"], "twice": [1]})
    with pytest.raises(DeltaSparkError, match="Generated Column"):
        delta_spark.write(table, wrong)
    delta_spark.sql(f"UPDATE delta.`{table}` SET id = 40 WHERE id = 4")
    da.update(table, {"id": "50L", "ts": times[0]}, col("id") == 5)
    update, insert = "SET p = source.p", "INSERT (id, p) VALUES (source.id, source.p)"
    by_sql = MERGED.format(table).replace("SET *", update).replace("INSERT *", insert)
    delta_spark.sql(by_sql)
    source = pa.table({"id": [2, 60], "p": ["z", "y"]})
    merged = da.merge(table, source, "target.id = source.id").when_matched_update_all()
    merged.when_not_matched_insert_all().execute()
    found = same_rows(delta_spark, table)
    assert sorted(row["id"] for row in found) == [1, 2, 3, 4, 9, 40, 50, 60]
    assert [row for row in found if row["twice"] != 2 * row["id"]] == []
    checked = " AND ".join(f"{name} <=> ({text})" for name, (_, text) in GENERATED.items())
    kept = delta_spark.sql(f"SELECT count(*) AS n FROM delta.`{table}` WHERE {checked}")
    assert kept == [{"n": len(found)}]


def tracked_by_us(table: Path) -> set[tuple[Any, ...]]:
    snapshot = DeltaLog(table).snapshot()
    names = row_columns(snapshot.definition, snapshot.uri)
    assert names is not None
    batches = read_kept(snapshot, snapshot.add_files(), ["id", *names])
    return {tuple(row.values()) for batch in batches for row in batch.to_pylist()}


def tracked_by_spark(delta_spark: DeltaSpark, table: Path) -> set[tuple[Any, ...]]:
    feed = delta_spark.sql(
        f"SELECT id, _metadata.row_id AS r, _metadata.row_commit_version AS v FROM delta.`{table}`"
    )
    return {(row["id"], row["r"], row["v"]) for row in feed}


@pytest.mark.full
@pytest.mark.parametrize(
    ("vectors", "mode"),
    [
        pytest.param("false", "none", id="files", marks=pytest.mark.long),
        pytest.param("true", "name", id="vectors, mapped"),
    ],
)
def test_rows_keep_their_ids_in_turn(
    tmp_path: Path, delta_spark: DeltaSpark, vectors: str, mode: str
) -> None:
    table = tmp_path / "t"
    properties = {
        "delta.enableRowTracking": "true",
        "delta.enableDeletionVectors": vectors,
        MODE: mode,
    }
    da.write(table, pa.table({"id": [1, 2, 3], "p": ["a", "b", "c"]}), configuration=properties)
    delta_spark.write(table, pa.table({"id": [4, 5, 6], "p": ["d", "e", "f"]}))
    da.write(table, pa.table({"id": [7], "p": ["g"]}))
    versions = (0, 0, 0, 1, 1, 1, 2)
    assert tracked_by_us(table) == {(i + 1, i, version) for i, version in enumerate(versions)}
    for change in (
        lambda: da.update(table, {"p": "'x'"}, col("id").isin([2, 5])),
        lambda: delta_spark.sql(f"UPDATE delta.`{table}` SET p = 'y' WHERE id IN (2, 6)"),
        lambda: da.delete(table, col("id") == 1),
        lambda: delta_spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 4"),
        lambda: merge(table),
        lambda: delta_spark.sql(MERGED.format(table)),
        lambda: optimize(DeltaLog(table)),
        lambda: da.update(table, {"p": "'z'"}, col("id") == 3),
        lambda: delta_spark.sql(f"OPTIMIZE delta.`{table}`"),
        lambda: da.write(table, pa.table({"id": [8], "p": ["h"]})),
    ):
        change()
        assert tracked_by_us(table) == tracked_by_spark(delta_spark, table)
    ids = {number: row_id for number, row_id, _ in tracked_by_us(table)}
    assert {number: ids[number] for number in (2, 3, 6, 7)} == {2: 1, 3: 2, 6: 5, 7: 6}
    same_rows(delta_spark, table)


MERGED = (
    "MERGE INTO delta.`{0}` AS target "
    "USING (SELECT * FROM VALUES (1L, 'c'), (4L, 'gone'), (9L, 'new') AS s(id, p)) AS source "
    "ON target.id = source.id WHEN MATCHED AND source.p = 'gone' THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
    "WHEN NOT MATCHED BY SOURCE AND target.id = 5 THEN DELETE"
)


def merge(table: Path) -> Any:
    source = pa.table({"id": [1, 4, 9], "p": ["c", "gone", "new"]})
    return (
        da.merge(table, source, "target.id = source.id")
        .when_matched_delete("source.p = 'gone'")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("target.id = 5")
        .execute()
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "vectors"), [("none", "true"), pytest.param("name", "false", marks=pytest.mark.long)]
)
def test_row_changes_are_recorded_as_the_reference_records_them(
    tmp_path: Path, delta_spark: DeltaSpark, mode: str, vectors: str
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    properties = {
        "delta.enableChangeDataFeed": "true",
        "delta.enableDeletionVectors": vectors,
        MODE: mode,
    }
    for table in (theirs, ours):
        first = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})
        da.write(table, first, partition_by=["p"], configuration=properties)
        da.write(table, pa.table({"id": [4, 5, 6], "p": ["b", "b", "b"]}))
    delta_spark.sql(f"DELETE FROM delta.`{theirs}` WHERE id = 2")
    da.delete(ours, col("id") == 2)
    delta_spark.sql(f"UPDATE delta.`{theirs}` SET p = 'z' WHERE id IN (3, 6)")
    da.update(ours, {"p": "'z'"}, col("id").isin([3, 6]))
    delta_spark.sql(MERGED.format(theirs))
    merge(ours)
    compared = ["id", "p", "_change_type", "_commit_version"]
    feed = delta_spark.changes(theirs, startingVersion="2").select(compared)
    assert rows(pa.table(da.read_changes(ours, 2)).select(compared)) == rows(feed)
    assert rows(delta_spark.changes(ours, startingVersion="2").select(compared)) == rows(feed)
    assert same_rows(delta_spark, ours) == rows(da.to_table(theirs))


@pytest.mark.full
def test_a_table_of_old_versions_stays_one(tmp_path: Path, delta_spark: DeltaSpark) -> None:
    table = tmp_path / "t"
    delta_spark.sql(
        f"CREATE TABLE delta.`{table}` (id BIGINT) USING delta TBLPROPERTIES "
        "('delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '6', "
        f"'{MODE}' = 'name')"
    )
    before = DeltaLog(table).snapshot().protocol
    assert isinstance(before, Protocol)
    da.write(table, pa.table({"id": [1]}))
    delta_spark.write(table, pa.table({"id": [2]}))
    assert DeltaLog(table).snapshot().protocol == before
    assert [row["id"] for row in same_rows(delta_spark, table)] == [1, 2]


def test_the_mode_of_a_table_becomes_id_by_neither(tmp_path: Path, delta_spark: DeltaSpark) -> None:
    table = tmp_path / "t"
    da.write(table, pa.table({"id": [1]}), configuration={MODE: "name"})
    with pytest.raises(DeltaSparkError, match="mode"):
        delta_spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('{MODE}' = 'id')")
    with pytest.raises(InvalidRequestError, match="cannot change from name to id"):
        begin(DeltaLog(table)).set_properties({MODE: "id"})
