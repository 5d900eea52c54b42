"""The change data feed: changed rows of each commit, and errors where they are unknown."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import DataFileError, InvalidRequestError, VersionNotFoundError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.maintenance import repair as mend
from delta_ops.protocol.actions import Action, AddCdcFile, AddFile, RemoveFile
from delta_ops.protocol.schema import INTEGER, LONG, STRING, StructField, StructType
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import commit, create, data_file, inline_vector
from tests.support.tables import SHARED, needs_shared

FEED = {"delta.enableChangeDataFeed": "true"}
SCHEMA = StructType((StructField("id", LONG), StructField("p", STRING)))
TABLES = SHARED / "data" / "tables"


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def file(root: Path, name: str, *values: int, **changes: Any) -> AddFile:
    return data_file(root, name, ids(*values), **{"partition_values": {"p": "a"}, **changes})


def remove(add: AddFile) -> RemoveFile:
    return tombstone(add, 0, data_change=True)


def cdc(root: Path, name: str, rows: list[tuple[int, str]], p: str | None = "a") -> AddCdcFile:
    table = pa.table({"id": [i for i, _ in rows], "_change_type": [kind for _, kind in rows]})
    add = data_file(root, f"_change_data/{name}", table)
    return AddCdcFile(path=add.path, size=add.size, partition_values={"p": p})


def table_of(root: Path, *commits: list[Action], configuration: dict[str, str] = FEED) -> DeltaLog:
    log = create(root, SCHEMA, [], configuration, ("p",))
    for version, actions in enumerate(commits, start=1):
        commit(log, version, actions)
    return log


def changes(log: DeltaLog, *args: Any, **options: Any) -> list[tuple[Any, ...]]:
    columns = ["id", "p", "_change_type", "_commit_version"]
    found = da.read_changes(log, *args, columns=columns, **options).read_all()
    return [tuple(row.values()) for row in found.to_pylist()]


def test_files_added_and_removed_are_rows_inserted_and_deleted(tmp_path: Path) -> None:
    first, second = file(tmp_path, "x", 1, 2), file(tmp_path, "y", 3)
    log = table_of(tmp_path, [first], [remove(first), second])
    assert changes(log, 0) == [
        (1, "a", "insert", 1),
        (2, "a", "insert", 1),
        (1, "a", "delete", 2),
        (2, "a", "delete", 2),
        (3, "a", "insert", 2),
    ]
    assert changes(log, 1, 1) == [(1, "a", "insert", 1), (2, "a", "insert", 1)]


def test_change_data_files_are_all_that_is_read_of_their_commit(tmp_path: Path) -> None:
    first, second = file(tmp_path, "x", 1), file(tmp_path, "y", 2)
    change = cdc(tmp_path, "c", [(1, "update_preimage"), (2, "update_postimage")])
    log = table_of(tmp_path, [first], [remove(first), second, change])
    assert changes(log, 2) == [(1, "a", "update_preimage", 2), (2, "a", "update_postimage", 2)]


def test_rearranged_rows_are_no_change(tmp_path: Path) -> None:
    first = file(tmp_path, "x", 1)
    moved = replace(file(tmp_path, "y", 1), data_change=False)
    log = table_of(tmp_path, [first], [tombstone(first, 0, data_change=False), moved])
    assert changes(log, 2) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, {1}, [(11, "delete")], id="the first vector"),
        pytest.param({1}, {1, 2}, [(12, "delete")], id="more rows deleted"),
        pytest.param({1, 2}, {2}, [(11, "insert")], id="a row restored"),
        pytest.param({0}, None, [(10, "insert")], id="the vector gone"),
        pytest.param({0}, {2}, [(12, "delete"), (10, "insert")], id="another row deleted"),
        pytest.param({0}, {0}, [], id="the same"),
    ],
)
def test_two_vectors_of_a_file_differ_in_what_changed(
    tmp_path: Path,
    before: set[int] | None,
    after: set[int] | None,
    expected: list[tuple[int, str]],
) -> None:
    whole = file(tmp_path, "x", 10, 11, 12)
    one, other = (
        replace(whole, deletion_vector=None if rows is None else inline_vector(rows))
        for rows in (before, after)
    )
    log = table_of(tmp_path, [one], [remove(one), other])
    found = [(i, kind) for i, _, kind, _ in changes(log, 2)]
    assert found == expected


def test_only_live_rows_are_inserted_or_deleted(tmp_path: Path) -> None:
    add = file(tmp_path, "x", 1, 2, 3, deletion_vector=inline_vector({0}))
    log = table_of(tmp_path, [add], [remove(add)])
    assert [row[::2] for row in changes(log, 0)] == [
        (2, "insert"),
        (3, "insert"),
        (2, "delete"),
        (3, "delete"),
    ]


def test_a_remove_without_partition_values_has_those_of_its_add(tmp_path: Path) -> None:
    add = file(tmp_path, "x", 1)
    silent = replace(remove(add), partition_values=None, size=None, extended_file_metadata=None)
    log = table_of(tmp_path, [add], [silent])
    assert changes(log, 2) == [(1, "a", "delete", 2)]


def test_rows_and_columns_can_be_chosen(tmp_path: Path) -> None:
    first = file(tmp_path, "x", 1, 2)
    log = table_of(tmp_path, [first], [remove(first)])
    assert changes(log, 0, predicate=(col("_change_type") == "delete") & (col("id") > 1)) == [
        (2, "a", "delete", 2)
    ]
    found = da.read_changes(log, 2)
    assert found.schema.names == ["id", "p", "_change_type", "_commit_version", "_commit_timestamp"]


def test_times_choose_commits_and_are_returned(tmp_path: Path) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1)], [file(tmp_path, "y", 2)])
    for version in range(3):
        place = tmp_path / "_delta_log" / f"{version:020}.json"
        os.utime(place, (1_700_000_000 + version, 1_700_000_000 + version))
    at = [datetime.fromtimestamp(1_700_000_000 + version, UTC) for version in range(3)]
    found = da.read_changes(log, start_timestamp=at[1], end_timestamp=at[1]).read_all()
    assert found["_commit_timestamp"].to_pylist() == [at[1]]
    between = at[1].replace(microsecond=1000)
    assert [row[3] for row in changes(log, start_timestamp=between)] == [2]
    with pytest.raises(VersionNotFoundError, match="after its latest version 2"):
        changes(log, start_timestamp=at[2].replace(microsecond=1000))


def test_a_column_that_came_later_is_null_before(tmp_path: Path) -> None:
    later = StructType((*SCHEMA.fields, StructField("n", INTEGER)))
    log = table_of(tmp_path, [file(tmp_path, "x", 1)])
    other = create(tmp_path / "other", later, [], FEED, ("p",)).snapshot().metadata
    commit(log, 2, [other, file(tmp_path, "y", 2)])
    assert da.read_changes(log, 0).read_all()["n"].to_pylist() == [None, None]


def with_later_fields(root: Path) -> DeltaLog:
    """Version 1 has rows; version 2 adds a column and fields of a struct and of a list."""
    s, v = StructField("a", LONG), StructField("v", LONG)
    before = StructType((StructField("s", StructType((s,))),))
    after = StructType(
        (
            StructField("s", StructType((s, StructField("b", StructType((v,)))))),
            StructField("n", INTEGER),
        )
    )
    log = create(root, before, [], FEED)
    rows = pa.table({"s": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())]))})
    commit(log, 1, [data_file(root, "x", rows)])
    commit(log, 2, [create(root / "other", after, [], FEED).snapshot().metadata])
    return log


def test_fields_that_came_later_are_null_in_the_schema_of_the_latest_version(
    tmp_path: Path,
) -> None:
    found = da.read_changes(with_later_fields(tmp_path), 1, 1, schema="latest").read_all()
    assert found.select(["s", "n"]).to_pylist() == [
        {"s": {"a": 1, "b": None}, "n": None},
        {"s": None, "n": None},
    ]


def test_a_range_has_the_columns_of_its_last_version(tmp_path: Path) -> None:
    log = with_later_fields(tmp_path)
    own = da.read_changes(log, 1, 1).read_all()
    assert own.select([0]).to_pylist() == [{"s": {"a": 1}}, {"s": None}]
    assert "n" not in own.column_names
    through = da.read_changes(log, 1, 2).read_all()
    assert through["s"].to_pylist() == [{"a": 1, "b": None}, None]


def test_a_schema_that_there_is_not_is_refused(tmp_path: Path) -> None:
    log = table_of(tmp_path)
    with pytest.raises(InvalidRequestError, match='give "end" or "latest"'):
        da.read_changes(log, 0, schema="first")  # type: ignore[arg-type]


def test_a_type_that_became_another_is_refused(tmp_path: Path) -> None:
    changed = StructType((StructField("id", STRING), StructField("p", STRING)))
    log = table_of(tmp_path, [file(tmp_path, "x", 1)])
    other = create(tmp_path / "other", changed, [], FEED, ("p",)).snapshot().metadata
    commit(log, 2, [other])
    with pytest.raises(InvalidRequestError, match="column id was long and became string"):
        changes(log, 0)
    assert changes(log, 0, 1) == [(1, "a", "insert", 1)]


def test_a_file_that_the_commit_removes_which_changed_a_type_says_where_to_read_it(
    tmp_path: Path,
) -> None:
    changed = StructType((StructField("id", STRING), StructField("p", STRING)))
    add = file(tmp_path, "x", 1)
    log = table_of(tmp_path, [add])
    other = create(tmp_path / "other", changed, [], FEED, ("p",)).snapshot().metadata
    commit(log, 2, [other, remove(add)])
    with pytest.raises(DataFileError, match=r"is int64 in the file, but string .* has its type"):
        changes(log, 2)


def test_the_older_name_of_the_property_switches_the_feed_on(tmp_path: Path) -> None:
    da.write(tmp_path, ids(1), configuration={"delta.enableChangeDataCapture": "true"})
    da.delete(tmp_path, col("id") == 1)
    found = da.read_changes(tmp_path, 0, columns=["id", "_change_type"]).read_all().to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, "insert"), (1, "delete")]


def test_versions_without_the_feed_are_refused(tmp_path: Path) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1)], configuration={})
    on = replace(log.snapshot().metadata, configuration=FEED)
    commit(log, 2, [on])
    commit(log, 3, [file(tmp_path, "y", 2)])
    with pytest.raises(InvalidRequestError, match="version 1 cannot be read, because"):
        changes(log, 1)
    assert changes(log, 2) == [(2, "a", "insert", 3)]


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        pytest.param({}, InvalidRequestError, id="no beginning"),
        pytest.param(
            {"start_version": 0, "start_timestamp": "2024-01-01"}, InvalidRequestError, id="two"
        ),
        pytest.param({"start_version": 2, "end_version": 1}, InvalidRequestError, id="backwards"),
        pytest.param({"start_version": 9}, VersionNotFoundError, id="after the last"),
        pytest.param({"start_version": 0, "columns": ["x"]}, InvalidRequestError, id="no column"),
    ],
)
def test_a_range_that_is_none_is_refused(
    tmp_path: Path, argument: dict[str, Any], error: type[Exception]
) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1)], [file(tmp_path, "y", 1)])
    with pytest.raises(error):
        da.read_changes(log, **argument)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1)])
    (tmp_path / "x").unlink()
    with pytest.raises(DataFileError, match="version 1: data file x is missing"):
        changes(log, 1)


def test_the_feed_goes_through_a_repair_of_lost_files(tmp_path: Path) -> None:
    lost, kept = file(tmp_path, "x", 1), file(tmp_path, "y", 2)
    log = table_of(tmp_path, [lost], [kept])
    (tmp_path / "x").unlink()
    commit(log, 3, [remove(lost)], operation="FSCK")
    commit(log, 4, [remove(kept)])
    assert changes(log, 2) == [(2, "a", "insert", 2), (2, "a", "delete", 4)]


@pytest.mark.parametrize("repair", ["ours", "deltalake"])
def test_the_feed_goes_through_a_repair_by(tmp_path: Path, repair: str) -> None:
    write_deltalake(str(tmp_path), ids(1), configuration=FEED)
    write_deltalake(str(tmp_path), ids(2), mode="append")
    lost = DeltaLog(tmp_path).snapshot(0).files(["path"])["path"].to_pylist()
    (tmp_path / lost[0]).unlink()
    if repair == "ours":
        mend(DeltaLog(tmp_path), remove_missing=True)
    else:
        DeltaTable(str(tmp_path)).repair()
    found = da.read_changes(DeltaLog(tmp_path), 1, columns=["id", "_commit_version"]).read_all()
    assert found.to_pylist() == [{"id": 2, "_commit_version": 1}]
    assert DeltaLog(tmp_path).snapshot().version == 2


def test_a_commit_that_was_cleaned_up_is_named(tmp_path: Path) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1)], [file(tmp_path, "y", 1)])
    write_checkpoint(log.snapshot(), now_ms=0)
    for version in (0, 1):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(VersionNotFoundError):
        changes(log, 1)


@needs_shared
@pytest.mark.parametrize(
    "name",
    ["kernel/cdf-table", "kernel/cdf-table-with-cdc-and-dvs", "delta_rs/cdc_ict_table"],
)
def test_changes_of_tables_by_other_writers_match_another_reader(name: str) -> None:
    ours = da.read_changes(DeltaLog(TABLES / name), 0).read_all()
    theirs = pa.table(DeltaTable(str(TABLES / name)).load_cdf(0))
    # Without an in-commit timestamp, the feed uses the time of the writer's clock.
    columns = [each for each in ours.column_names if each != "_commit_timestamp"]
    assert sorted(map(repr, ours.select(columns).to_pylist())) == sorted(
        map(repr, theirs.select(columns).to_pylist())
    )


@needs_shared
def test_changes_are_read_through_mapped_columns() -> None:
    log = DeltaLog(TABLES / "kernel/cdf-column-mapping-name-mode-3-7")
    found = da.read_changes(log, 1, columns=["id", "value", "_change_type", "_commit_version"])
    assert [tuple(row.values()) for row in found.read_all().to_pylist()] == [
        (2, 200.0, "update_preimage", 2),
        (2, 250.0, "update_postimage", 2),
        (4, 400.0, "insert", 3),
        (1, 100.0, "delete", 4),
    ]
