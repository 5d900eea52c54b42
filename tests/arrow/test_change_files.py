"""Tables with a change data feed, written by the Arrow engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.maintenance import optimize, vacuum
from tests.support.tables import rows

FEED = {"delta.enableChangeDataFeed": "true"}
Change = Callable[[Path], Any]


def data(*ids: int, part: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [part] * len(ids)})


def feed(root: Path, version: int) -> list[tuple[int, str, str]]:
    found = da.read_changes(root, version, version)
    found = pa.table(found) if not isinstance(found, pa.Table) else found
    return sorted((row["id"], row["p"], row["_change_type"]) for row in found.to_pylist())


def feed_by_deltalake(root: Path, version: int) -> list[tuple[int, str, str]]:
    reader = DeltaTable(str(root)).load_cdf(version, version)
    found = pa.table(reader).to_pylist()
    return sorted((row["id"], row["p"], row["_change_type"]) for row in found)


def change_files(root: Path) -> list[Path]:
    return list(root.glob("_change_data/**/*.parquet"))


def delete(place: Path) -> Any:
    return da.delete(place, col("id") >= 2)


def update(place: Path) -> Any:
    return da.update(place, {"p": "concat(p, 'x')"}, col("id") >= 3)


def merge(place: Path) -> Any:
    source = pa.table({"id": [1, 2, 4, 9], "p": ["m", "gone", "m", "new"]})
    return (
        da.merge(place, source, "target.id = source.id")
        .when_matched_delete("source.p = 'gone'")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("target.id = 3")
        .execute()
    )


RECORDED: dict[Change, list[tuple[int, str, str]]] = {
    delete: [(2, "a", "delete"), (3, "a", "delete"), (4, "b", "delete"), (5, "b", "delete")],
    update: [
        (3, "a", "update_preimage"),
        (3, "ax", "update_postimage"),
        (4, "b", "update_preimage"),
        (4, "bx", "update_postimage"),
        (5, "b", "update_preimage"),
        (5, "bx", "update_postimage"),
    ],
    merge: [
        (1, "a", "update_preimage"),
        (1, "m", "update_postimage"),
        (2, "a", "delete"),
        (3, "a", "delete"),
        (4, "b", "update_preimage"),
        (4, "m", "update_postimage"),
        (9, "new", "insert"),
    ],
}
"""The changes of `table`, each with the columns that the feed adds."""


@pytest.fixture(params=["name", pytest.param("id", marks=pytest.mark.full)])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    configuration = {**FEED, "delta.columnMapping.mode": request.param}
    da.write(tmp_path, data(1, 2, 3), partition_by=["p"], configuration=configuration)
    da.write(tmp_path, data(4, 5, part="b"))
    return tmp_path


def test_whole_files_that_come_and_go_need_no_change_files(table: Path) -> None:
    assert feed(table, 1) == [(4, "b", "insert"), (5, "b", "insert")]
    da.write(table, data(6, part="b"), "overwrite", partition_overwrite_mode="dynamic")
    assert feed(table, 2) == [(4, "b", "delete"), (5, "b", "delete"), (6, "b", "insert")]
    da.write(table, data(7), "overwrite")
    deleted = [(1, "a", "delete"), (2, "a", "delete"), (3, "a", "delete"), (6, "b", "delete")]
    assert feed(table, 3) == [*deleted, (7, "a", "insert")]
    assert change_files(table) == []


def test_rows_that_stay_are_no_change(table: Path) -> None:
    da.write(table, data(4, 9, part="c"), "overwrite", replace_where=col("id") >= 3)
    assert sorted(da.to_table(table)["id"].to_pylist()) == [1, 2, 4, 9]
    gone = [(3, "a", "delete"), (4, "b", "delete"), (5, "b", "delete")]
    assert feed(table, 2) == sorted([*gone, (4, "c", "insert"), (9, "c", "insert")])
    assert all(each.name.startswith("cdc-") for each in change_files(table))
    assert len(change_files(table)) == 3


@pytest.mark.some_cases(6)
@pytest.mark.parametrize(
    ("mode", "partition_by", "vectors"),
    [
        pytest.param("none", None, "false", id="plain"),
        pytest.param("none", ["p"], "true", id="partitioned, vectors"),
        pytest.param("name", ["p"], "false", id="mapped, partitioned"),
        pytest.param("name", None, "true", id="mapped, vectors"),
    ],
)
@pytest.mark.parametrize("change", list(RECORDED))
def test_row_changes_are_recorded(
    tmp_path: Path, change: Change, mode: str, partition_by: list[str] | None, vectors: str
) -> None:
    properties = {"delta.columnMapping.mode": mode, "delta.enableDeletionVectors": vectors}
    rows_before = data(1, 2, 3), data(4, 5, part="b")
    for each in rows_before:
        da.write(tmp_path, each, partition_by=partition_by, configuration={**FEED, **properties})
    result = change(tmp_path)
    assert feed(tmp_path, 2) == RECORDED[change]
    metrics = result.metrics
    number = metrics.get("numAddedChangeFiles", metrics.get("numTargetChangeFilesAdded"))
    assert number == len(change_files(tmp_path)) > 0
    if mode == "none" and vectors == "false":
        assert feed_by_deltalake(tmp_path, 2) == RECORDED[change]


@pytest.mark.parametrize("vectors", ["false", "true"], ids=["files", "vectors"])
def test_removed_whole_files_need_no_change_files(tmp_path: Path, vectors: str) -> None:
    properties = {**FEED, "delta.enableDeletionVectors": vectors}
    da.write(tmp_path, data(1, 2), configuration=properties)
    da.delete(tmp_path)
    source = data(7)
    da.merge(tmp_path, source, "target.id = source.id").when_not_matched_insert_all().execute()
    assert feed(tmp_path, 1) == [(1, "a", "delete"), (2, "a", "delete")]
    assert feed(tmp_path, 2) == [(7, "a", "insert")]
    assert change_files(tmp_path) == []


@pytest.mark.parametrize("vectors", ["false", "true"], ids=["files", "vectors"])
@pytest.mark.parametrize("change", list(RECORDED))
def test_changes_that_are_not_committed_leave_no_file(
    tmp_path: Path, change: Change, vectors: str
) -> None:
    properties = {**FEED, "delta.enableDeletionVectors": vectors}
    da.write(tmp_path, data(1, 2, 3), configuration=properties)
    da.write(tmp_path, data(4, 5, part="b"))
    begun = begin(DeltaLog(tmp_path))
    da.delete(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CommitConflictError):
        change(begun)  # type: ignore[arg-type]
    assert [each for each in sorted(tmp_path.rglob("*")) if each.is_file()] == [
        each for each in before if each.is_file()
    ]


def test_two_writers_of_other_rows_of_a_file_both_record_changes(tmp_path: Path) -> None:
    properties = {**FEED, "delta.enableDeletionVectors": "true"}
    da.write(tmp_path, data(1, 2, 3, 4), configuration=properties)
    begun = begin(DeltaLog(tmp_path))
    da.delete(tmp_path, col("id") == 1)
    da.update(begun, {"p": "'z'"}, col("id") == 4)
    assert feed(tmp_path, 1) == [(1, "a", "delete")]
    assert feed(tmp_path, 2) == [(4, "a", "update_preimage"), (4, "z", "update_postimage")]
    assert sorted(da.to_table(tmp_path)["id"].to_pylist()) == [2, 3, 4]


def test_new_columns_are_in_the_feed_of_the_rows_that_bring_them(table: Path) -> None:
    wider = data(3).append_column("new", pa.array([7]))
    da.write(table, wider, "overwrite", replace_where=col("id") == 3, merge_schema=True)
    found: Any = da.read_changes(table, 2, 2)
    found = found if isinstance(found, pa.Table) else pa.table(found)
    recorded = {row["_change_type"]: row["new"] for row in found.to_pylist()}
    assert recorded == {"delete": None, "insert": 7}


def test_another_reader_sees_the_same_feed(tmp_path: Path) -> None:
    da.write(tmp_path, data(1, 2, 3), partition_by=["p"], configuration=FEED)
    da.write(tmp_path, data(2, 8), "overwrite", replace_where=col("id") >= 2)
    assert feed_by_deltalake(tmp_path, 1) == feed(tmp_path, 1)
    assert feed(tmp_path, 1) == [
        (2, "a", "delete"),
        (2, "a", "insert"),
        (3, "a", "delete"),
        (8, "a", "insert"),
    ]


def test_a_replacement_that_changes_no_row_changes_no_file(tmp_path: Path) -> None:
    configuration = {"delta.enableChangeDataFeed": "true"}
    da.write(tmp_path, data(1, 2, 9), configuration=configuration)
    before = DeltaLog(tmp_path).snapshot()
    da.write(tmp_path, data(5).slice(0, 0), "overwrite", replace_where=col("id") == 5)
    after = DeltaLog(tmp_path).snapshot()
    assert after.version == 1
    assert [add.path for add in after.add_files()] == [add.path for add in before.add_files()]
    assert feed(tmp_path, 1) == []
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_all_row_changes_of_a_commit_are_recorded(tmp_path: Path) -> None:
    configuration = {"delta.enableChangeDataFeed": "true"}
    da.write(tmp_path, data(1, 2, 9), configuration=configuration)
    transaction = begin(DeltaLog(tmp_path))
    transaction.stage(da.stage_write(transaction, data(100)))
    da.write(transaction, data(2), "overwrite", replace_where=col("id") == 2)
    reported = [(number, change) for number, _, change in feed(tmp_path, 1)]
    assert sorted(reported) == [(2, "delete"), (2, "insert"), (100, "insert")]
    transaction = begin(DeltaLog(tmp_path))
    assert transaction.snapshot
    transaction.remove(list(transaction.snapshot.add_files())[:1])
    with pytest.raises(InvalidRequestError, match="separate commits"):
        da.write(transaction, data(9), "overwrite", replace_where=col("id") == 9)


def test_without_the_property_no_change_is_recorded(tmp_path: Path) -> None:
    da.write(tmp_path, data(1, 2))
    transaction = begin(DeltaLog(tmp_path))
    transaction.set_properties({"delta.feature.changeDataFeed": "supported"})
    transaction.commit(operation="SET TBLPROPERTIES")
    da.write(tmp_path, data(2), "overwrite", replace_where=col("id") == 2)
    assert change_files(tmp_path) == []


def test_compaction_changes_no_rows_and_vacuum_knows_the_files(table: Path) -> None:
    da.write(table, data(3), "overwrite", replace_where=col("id") == 3)
    optimize(DeltaLog(table))
    assert feed(table, 3) == []
    vacuum(DeltaLog(table))
    assert change_files(table)


def test_a_write_that_fails_leaves_no_file(table: Path) -> None:
    before = sorted(table.rglob("*.parquet"))
    late = begin(DeltaLog(table))
    da.write(table, data(3), "overwrite", replace_where=col("id") == 3)
    others = sorted(table.rglob("*.parquet"))
    with pytest.raises(Exception, match="was committed first"):
        da.write(late, data(3), "overwrite", replace_where=col("id") == 3)
    assert sorted(table.rglob("*.parquet")) == others != before


def test_the_columns_of_the_feed_have_their_names_for_themselves(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="change data feed"):
        da.write(tmp_path, pa.table({"_Change_Type": ["x"], "id": [1]}), configuration=FEED)


def test_change_files_have_the_columns_of_the_table_and_the_type(tmp_path: Path) -> None:
    da.write(tmp_path, data(1, 2), configuration=FEED)
    da.write(tmp_path, data(2), "overwrite", replace_where=col("id") == 2)
    found = [row for each in change_files(tmp_path) for row in rows(pq.read_table(each))]
    assert sorted(found, key=str) == [
        {"id": 2, "p": "a", "_change_type": "delete"},
        {"id": 2, "p": "a", "_change_type": "insert"},
    ]
