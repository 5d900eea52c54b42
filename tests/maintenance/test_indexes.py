"""Inverted indexes: what they find, what they cover, and damage that makes them useless."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.ddl import (
    NewColumn,
    add_columns,
    change_type,
    create_table,
    drop_columns,
    drop_table,
    rename_column,
    set_properties,
)
from delta_ops.errors import InvalidRequestError, StorageError, TableNotFoundError
from delta_ops.log.version.indexes.run_file import OpenRun
from delta_ops.maintenance import (
    clean_up_log,
    create_index,
    drop_index,
    find_tables,
    list_indexes,
    optimize,
    refresh_index,
    restore,
    vacuum,
)
from delta_ops.protocol.predicate import Predicate, to_arrow
from delta_ops.protocol.schema import STRING, StructField, StructType
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from delta_ops.storage import open_storage
from delta_ops.versioning import create_tag
from tests.support.counting_storage import CountingStorage

FILES = 12
NOW: Any = {"retention": timedelta(0), "enforce_retention": False}


def rows_of(number: int) -> pa.Table:
    """Rows with an own `id`, and bounds that all files share."""
    ids = [0, *range(number * 10 + 1, number * 10 + 10), 1000]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"name {each}" for each in ids],
            "place": [{"city": f"city {each % 7}", "zip": each} for each in ids],
        }
    )


def write(root: Path, numbers: Sequence[int] = range(FILES), **options: Any) -> None:
    for number in numbers:
        da.write(root, rows_of(number), **options)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("indexed")
    write(root)
    create_index(root, "by_id", "id")
    return root


@pytest.fixture
def table(written: Path, tmp_path: Path) -> Path:
    """A table with twelve files and an index on `id`."""
    shutil.copytree(written, tmp_path / "t")
    return tmp_path / "t"


def left_files(root: Path, predicate: Predicate, **options: Any) -> int:
    return len(da.explain_scan(root, predicate, **options))


def used(root: Path, predicate: Predicate, **options: Any) -> list[str]:
    plan = da.explain_scan(root, predicate, **options)
    return [each.name for each in plan.steps if each.name.startswith("index")]


@pytest.mark.parametrize(
    ("predicate", "num_files"),
    [
        pytest.param(col("id") == 55, 1, id="a value"),
        pytest.param(col("id") == 500, 0, id="no value"),
        pytest.param(col("id").isin([15, 55, 57]), 2, id="values"),
        pytest.param((col("id") >= 20) & (col("id") < 40), 2, id="a range"),
        pytest.param((col("id") == 15) | (col("id") == 25), 2, id="alternatives"),
        pytest.param((col("id") == 15) & (col("name") == "name 15"), 1, id="with another column"),
        pytest.param(~~(col("id") == 15), 12, id="below a negation no index is used"),
        pytest.param((col("id") == 15) | (col("place.zip") == 25), 12, id="an open alternative"),
        pytest.param(col("id") != 15, 12, id="all but a value"),
    ],
)
def test_a_scan_opens_only_files_with_a_value(
    written: Path, predicate: Predicate, num_files: int
) -> None:
    plan = da.explain_scan(written, predicate)
    assert len(plan) == num_files
    assert (plan.steps[-1].name == "index by_id") is (num_files < 12)
    found = da.to_table(written, predicate=predicate).sort_by("id")
    everything = da.to_table(written)
    assert found.equals(everything.filter(_expression(predicate, everything)).sort_by("id"))


def _expression(predicate: Predicate, rows: pa.Table) -> Any:
    return to_arrow(predicate, schema_from_arrow(rows.schema))


def test_an_explanation_names_the_index_and_its_column(written: Path) -> None:
    step = da.explain_scan(written, col("id") == 55).steps[-1]
    assert (step.name, step.columns, step.num_files) == ("index by_id", ("id",), 1)
    assert "index by_id of id" in str(da.explain_scan(written, col("id") == 55))


@pytest.mark.full
def test_nulls_and_fields_of_structs_are_found(tmp_path: Path) -> None:
    write(tmp_path)
    da.write(tmp_path, pa.table({"id": pa.nulls(1, pa.int64()), "place": [None]}))
    create_index(tmp_path, "ids", "id")
    result = create_index(tmp_path, "zips", "place.zip")
    assert (result.column, result.indexed_files) == ("place.zip", FILES + 1)
    lacks_statistics = DeltaLog(tmp_path).snapshot()
    assert len(lacks_statistics.files(["path"], col("place.zip") == 77)) == FILES
    plan = da.explain_scan(tmp_path, col("place.zip") == 77)
    assert [each.num_files for each in plan.steps] == [13, 12, 1]
    assert da.to_table(tmp_path, predicate=col("place.zip") == 77)["id"].to_pylist() == [77]


@pytest.mark.full
def test_the_most_selective_index_comes_first(tmp_path: Path) -> None:
    for number in range(FILES):
        da.write(
            tmp_path,
            pa.table({"a": [0, number % 3 + 1, 99], "b": [0, number % 4 + 1, 99]}),
        )
    create_index(tmp_path, "a", "a")
    create_index(tmp_path, "b", "b")
    assert left_files(tmp_path, col("a") == 2) == 4
    assert left_files(tmp_path, (col("a") == 2) & (col("b") == 3)) == 3
    assert used(tmp_path, (col("a") == 2) & (col("b") == 3)) == ["index b"]  # it is enough
    assert left_files(tmp_path, (col("a") == 2) | (col("b") == 3)) == 6
    (name,) = used(tmp_path, (col("a") == 2) | (col("b") == 3))
    assert name == "indexes a, b"


@pytest.mark.full
def test_the_index_is_a_delta_table_that_other_engines_read(table: Path) -> None:
    index = table / "_delta_ops" / "indexes" / "by_id"
    rows = DeltaTable(index).to_pyarrow_table().to_pylist()
    covered = {each["file"]: each["path"] for each in rows if each["path"] is not None}
    assert sorted(covered.values()) == sorted(
        DeltaLog(table).snapshot().files()["path"].to_pylist()
    )
    (found,) = {covered[each["file"]] for each in rows if each["value"] == 55}
    assert [found] == [each.path for each in da.explain_scan(table, col("id") == 55)]
    assert DeltaTable(table).to_pyarrow_table().num_rows == FILES * 11


def test_files_of_other_writers_are_read_until_a_refresh_covers_them(table: Path) -> None:
    for number in (20, 5):
        write_deltalake(table, rows_of(number), mode="append")
    assert left_files(table, col("id") == 55) == 3
    assert da.to_table(table, predicate=col("id") == 55).num_rows == 2
    (info,) = list_indexes(table)
    assert (info.num_files, info.covered_files, info.num_runs) == (14, 12, 1)
    assert info.coverage == 12 / 14
    result = refresh_index(table, "by_id")
    assert (result.planned_files, result.indexed_files, result.left_files) == (2, 2, 0)
    assert left_files(table, col("id") == 55) == 2
    assert da.to_table(table, predicate=col("id") == 55).num_rows == 2


def test_a_second_refresh_does_nothing(table: Path) -> None:
    before = sorted(each for each in table.rglob("*"))
    result = refresh_index(table, "by_id")
    assert (result.planned_files, result.indexed_files, result.added_entries) == (0, 0, 0)
    assert sorted(each for each in table.rglob("*")) == before


@pytest.mark.full
def test_a_dry_run_plans_and_writes_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    result = create_index(tmp_path, "by_id", "id", dry_run=True)
    assert (result.dry_run, result.planned_files, result.indexed_files) == (True, FILES, 0)
    assert result.planned_bytes == DeltaLog(tmp_path).snapshot().size_bytes
    assert sorted(tmp_path.rglob("*")) == before


def test_a_refresh_reads_files_within_the_byte_budget(tmp_path: Path) -> None:
    write(tmp_path)
    sizes = sorted(DeltaLog(tmp_path).snapshot().files(["size"])["size"].to_pylist())
    budget = sum(sizes) // 2
    done = 0
    result = create_index(tmp_path, "by_id", "id", max_bytes=budget)
    while result.left_files:
        assert 0 < result.planned_bytes <= budget
        done += result.indexed_files
        assert list_indexes(tmp_path)[0].covered_files == done
        assert da.to_table(tmp_path, predicate=col("id") == 55)["id"].to_pylist() == [55]
        result = refresh_index(tmp_path, "by_id", max_bytes=budget)
    assert done + result.indexed_files == FILES
    assert refresh_index(tmp_path, "by_id", max_bytes=1).planned_files == 0
    da.write(tmp_path, rows_of(50))
    assert refresh_index(tmp_path, "by_id", max_bytes=1).indexed_files == 1  # at least one


@pytest.mark.full
def test_deleted_rows_stay_in_the_index_for_older_versions(tmp_path: Path) -> None:
    write(tmp_path, configuration={"delta.enableDeletionVectors": "true"})
    version = DeltaLog(tmp_path).snapshot().version
    da.delete(tmp_path, col("id") == 55)
    create_index(tmp_path, "by_id", "id")
    assert da.to_table(tmp_path, predicate=col("id") == 55).num_rows == 0
    then = da.to_table(tmp_path, predicate=col("id") == 55, version=version)
    assert then["id"].to_pylist() == [55]
    assert left_files(tmp_path, col("id") == 55, version=version) == 1


def test_time_travel_uses_the_index(table: Path) -> None:
    optimize(table)
    assert left_files(table, col("id") == 55) == 1
    assert used(table, col("id") == 55) == []  # one file is left of all
    assert left_files(table, col("id") == 55, version=FILES - 1) == 1
    restore(table, version=FILES - 1)
    assert left_files(table, col("id") == 55) == 1
    assert list_indexes(table)[0].coverage == 1


@pytest.mark.full
def test_entries_go_when_no_version_needs_their_files(table: Path) -> None:
    (before,) = list_indexes(table)
    optimize(table)
    kept = refresh_index(table, "by_id")
    assert (kept.removed_runs, kept.merged_runs) == (0, 0)  # old versions are promised
    da.write(table, rows_of(3))
    soon = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    set_properties(table, soon)
    result = refresh_index(table, "by_id")
    assert result.removed_runs == 1
    (after,) = list_indexes(table)
    assert after.num_entries == before.num_entries - 2 * FILES + 2 + 11
    assert da.to_table(table, predicate=col("id") == 55)["id"].to_pylist() == [55]


@pytest.mark.full
def test_entries_of_some_files_go_by_a_rewrite_of_the_run(tmp_path: Path) -> None:
    soon = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    write(tmp_path, configuration=soon)
    create_index(tmp_path, "by_id", "id")
    da.delete(tmp_path, (col("id") > 0) & (col("id") < 50))  # rewrites five files
    result = refresh_index(tmp_path, "by_id")
    assert (result.merged_runs, result.indexed_files) == (1, 1)
    (info,) = list_indexes(tmp_path)
    assert (info.coverage, info.num_runs) == (1, 2)
    assert info.num_entries == (FILES - 5) * 11 + 2
    assert left_files(tmp_path, col("id") == 77) == 1


@pytest.mark.full
def test_files_of_a_tag_keep_their_entries(tmp_path: Path) -> None:
    soon = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    write(tmp_path, configuration=soon)
    create_index(tmp_path, "by_id", "id")
    create_tag(tmp_path, "kept")
    optimize(tmp_path)
    assert refresh_index(tmp_path, "by_id").removed_runs == 0
    assert left_files(tmp_path, col("id") == 55, ref="tag:kept") == 1


@pytest.mark.full
def test_many_small_runs_become_one(tmp_path: Path) -> None:
    write(tmp_path, range(2))
    create_index(tmp_path, "by_id", "id")
    merged = 0
    for number in range(2, 14):
        write(tmp_path, [number])
        merged += refresh_index(tmp_path, "by_id").merged_runs
    (info,) = list_indexes(tmp_path)
    assert merged >= 8
    assert info.num_runs < 8
    assert (info.coverage, info.num_entries) == (1, 14 * 11)
    for value in (15, 55, 137):
        assert left_files(tmp_path, col("id") == value) == 1


def test_a_renamed_column_keeps_its_index(tmp_path: Path) -> None:
    write(tmp_path, configuration={"delta.columnMapping.mode": "name"})
    create_index(tmp_path, "by_id", "id")
    rename_column(tmp_path, "id", "number")
    assert left_files(tmp_path, col("number") == 55) == 1
    assert list_indexes(tmp_path)[0].column == "number"
    drop_columns(tmp_path, ["number"])
    (lost,) = list_indexes(tmp_path)
    assert (lost.column, lost.covered_files) == (None, 0)
    name = lost.problems[-1].split(" is on ")[0]
    assert name == "Index by_id"
    assert lost.problems[-1].endswith("which the table has lost; drop the index.")


@pytest.mark.full
def test_a_new_column_of_an_old_name_has_no_index(tmp_path: Path) -> None:
    write(tmp_path, configuration={"delta.columnMapping.mode": "name"})
    create_index(tmp_path, "by_id", "id")
    drop_columns(tmp_path, ["id"])
    add_columns(tmp_path, [NewColumn(name="id", data_type="bigint")])
    da.write(tmp_path, rows_of(5))
    assert used(tmp_path, col("id") == 55) == []
    assert da.to_table(tmp_path, predicate=col("id") == 55).num_rows == 1


@pytest.mark.full
def test_a_column_of_another_type_has_no_index_until_a_refresh(tmp_path: Path) -> None:
    write(tmp_path)
    create_index(tmp_path, "by_id", "id")
    for number in range(FILES):
        rows = rows_of(number)
        texts = rows.set_column(0, "id", pc.cast(rows["id"], pa.string()))
        if number:
            da.write(tmp_path, texts)
        else:
            da.write(tmp_path, texts, mode="overwrite", overwrite_schema=True)
    assert used(tmp_path, col("id") == "55") == []
    assert left_files(tmp_path, col("id") == 55, version=FILES - 1) == 1
    result = refresh_index(tmp_path, "by_id")
    assert result.removed_runs == 1
    assert left_files(tmp_path, col("id") == "15") == 1
    assert da.to_table(tmp_path, predicate=col("id") == "15")["id"].to_pylist() == ["15"]


@pytest.mark.full
def test_a_wider_integer_keeps_its_index(tmp_path: Path) -> None:
    properties = {"delta.enableTypeWidening": "true"}
    for number in range(FILES):
        rows = rows_of(number).select(["id"])
        da.write(tmp_path, rows.cast(pa.schema([("id", pa.int32())])), configuration=properties)
    create_index(tmp_path, "by_id", "id")
    change_type(tmp_path, "id", "bigint")
    da.write(tmp_path, pa.table({"id": [2**40, 55]}))
    assert left_files(tmp_path, col("id") == 55) == 2
    assert da.to_table(tmp_path, predicate=col("id") == 55).num_rows == 2
    refresh_index(tmp_path, "by_id")
    assert left_files(tmp_path, col("id") == 2**40) == 1


@pytest.mark.full
def test_partition_columns_can_have_an_index(tmp_path: Path) -> None:
    for number in range(FILES):
        rows = rows_of(number).append_column("p", pa.array([f"{number // 10}"] * 11))
        da.write(tmp_path, rows, partition_by=["p"])
    result = create_index(tmp_path, "p", "p")
    assert (result.indexed_files, result.added_entries) == (FILES, FILES)
    create_index(tmp_path, "by_id", "id")
    either = (col("p") == "0") & (col("id") == 55) | (col("p") == "1") & (col("id") == 115)
    assert left_files(tmp_path, either) == 3
    assert sorted(da.to_table(tmp_path, predicate=either)["id"].to_pylist()) == [55, 115]


def test_indexes_are_read_only_where_they_can_help(table: Path) -> None:
    paths: list[str] = []
    storage = CountingStorage(
        open_storage(table), lambda _, method, path, moment: paths.append(path)
    )
    snapshot = DeltaLog(table, storage=storage).snapshot()
    paths.clear()
    assert len(da.explain_scan(snapshot, col("id") > 5000)) == 0
    assert len(da.explain_scan(snapshot)) == FILES
    assert len(da.explain_scan(snapshot, ~(col("id") == 55))) == FILES
    assert [each for each in paths if "indexes" in each] == []
    assert len(da.explain_scan(snapshot, col("place.zip") == 55)) == FILES
    assert {each for each in paths if each.startswith("_delta_ops/indexes/by_id/")} == set()
    assert len(da.explain_scan(snapshot, col("id") == 55)) == 1
    assert {each for each in paths if each.startswith("_delta_ops/indexes/by_id/")} != set()


def test_a_vacuum_and_a_log_clean_up_leave_the_index(table: Path) -> None:
    for path in table.rglob("*"):
        os.utime(path, (0, 0))
    vacuum(table, **NOW)
    DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    clean_up_log(table)
    assert left_files(table, col("id") == 55) == 1
    assert find_tables(table.parent, nested=True).tables == (str(table),)


def test_a_dropped_table_takes_its_indexes_along(table: Path) -> None:
    drop_table(table, "t")
    assert not table.exists() or not any(each.is_file() for each in table.rglob("*"))
    write(table, range(FILES))
    assert (list_indexes(table), left_files(table, col("id") == 55)) == ([], 12)


@pytest.mark.full
def test_an_index_of_an_earlier_table_is_not_used(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")
    write(table)
    assert left_files(table, col("id") == 55) == 12
    assert list_indexes(table) == []
    with pytest.raises(InvalidRequestError, match="belongs to a table that was here before"):
        create_index(table, "by_id", "id")
    drop_index(table, "by_id")
    create_index(table, "by_id", "id")
    assert left_files(table, col("id") == 55) == 1


def test_a_dropped_index_is_gone(table: Path) -> None:
    planned = drop_index(table, "by_id", dry_run=True)
    assert left_files(table, col("id") == 55) == 1
    assert drop_index(table, "by_id") == planned > 2
    assert list_indexes(table) == []
    assert not any(each.is_file() for each in (table / "_delta_ops" / "indexes").rglob("*"))
    with pytest.raises(InvalidRequestError, match="has no index by_id; it has no indexes"):
        drop_index(table, "by_id")


def test_a_drop_that_cannot_delete_a_file_says_so(table: Path) -> None:
    class Failing(CountingStorage):
        def delete_many(self, paths: Iterable[str]) -> list[str]:
            return [each for each in paths if each.endswith(".parquet")]

    storage = Failing(open_storage(table), lambda *_: None)
    with pytest.raises(StorageError, match=r"run-.*parquet could not be deleted: .* drop the"):
        drop_index(DeltaLog(table, storage=storage), "by_id")
    drop_index(table, "by_id")
    assert list_indexes(table) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            lambda root: create_index(root, "x", "nowhere"),
            "nowhere",
            id="no such column",
        ),
        pytest.param(
            lambda root: create_index(root, "x", "place"),
            "place is of type struct.*, whose values have no order, .*; index one of its fields",
            id="no order",
        ),
        pytest.param(
            lambda root: create_index(root, "by_id", "name"),
            "has an index by_id on id already; choose another name, or drop that index",
            id="an index on another column",
        ),
        pytest.param(
            lambda root: create_index(root, "a/b", "id"), "'a/b' cannot name an index", id="a name"
        ),
        pytest.param(
            lambda root: refresh_index(root, "none"),
            "has no index none; its indexes are by_id",
            id="no index to refresh",
        ),
        pytest.param(
            lambda root: drop_index(root, "none"),
            "has no index none; its indexes are by_id",
            id="no index to drop",
        ),
    ],
)
def test_bad_input_is_refused(written: Path, call: Callable[[Path], object], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        call(written)
    assert "\n" not in str(caught.value)


def test_a_char_column_is_refused(tmp_path: Path) -> None:
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
    create_table(tmp_path, StructType((StructField("code", STRING, metadata=metadata),)))
    with pytest.raises(InvalidRequestError, match="code is of type CHAR"):
        create_index(tmp_path, "x", "code")


def test_a_column_with_a_collation_is_refused(tmp_path: Path) -> None:
    metadata = {"__COLLATIONS": {"name": "ICU.UNICODE_CI"}}
    create_table(tmp_path, StructType((StructField("name", STRING, metadata=metadata),)))
    with pytest.raises(InvalidRequestError, match=r"UNICODE_CI.* cannot have an index; index"):
        create_index(tmp_path, "x", "name")


def test_there_must_be_a_table(tmp_path: Path) -> None:
    for call in (list_indexes, lambda root: create_index(root, "x", "id")):
        with pytest.raises(TableNotFoundError):
            call(tmp_path)


def test_creating_an_index_again_refreshes_it(table: Path) -> None:
    write(table, [20])
    assert create_index(table, "by_id", "id").indexed_files == 1
    assert left_files(table, col("id") == 205) == 1


def damage_log(index: Path) -> None:
    (index / "_delta_log" / "00000000000000000000.json").write_text("{]")
    (index / "_delta_log" / "00000000000000000000.crc").unlink()


def damage_run(index: Path) -> None:
    (run,) = index.glob("*.parquet")
    data = bytearray(run.read_bytes())
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    data[-8 - footer_bytes - 3] ^= 1  # the last entries
    run.write_bytes(data)


def remove_run(index: Path) -> None:
    (run,) = index.glob("*.parquet")
    run.unlink()


def truncate_run(index: Path) -> None:
    (run,) = index.glob("*.parquet")
    run.write_bytes(run.read_bytes()[:-100])


def damage_definition(index: Path) -> None:
    index.with_suffix(".json").write_text('{"formatVersion":1')


def change_definition(index: Path) -> None:
    place = index.with_suffix(".json")
    values = json.loads(place.read_text())
    place.write_text(json.dumps({**values, "column": ["place", "zip"]}))


def lose_log(index: Path) -> None:
    shutil.rmtree(index / "_delta_log")


@pytest.mark.some_cases(3)
@pytest.mark.parametrize(
    "damage",
    [
        damage_log,
        damage_run,
        remove_run,
        truncate_run,
        damage_definition,
        change_definition,
        lose_log,
    ],
)
def test_a_damaged_index_is_reported_and_never_believed(
    table: Path, damage: Callable[[Path], None]
) -> None:
    damage(table / "_delta_ops" / "indexes" / "by_id")
    sought = (col("id") == 55, col("place.zip") == 55)
    plans = [da.explain_scan(table, each) for each in sought]
    assert [len(plan) for plan in plans] == [12, 12]
    for each in sought:
        assert da.to_table(table, predicate=each)["id"].to_pylist() == [55]
    problems = {each for plan in plans for each in plan.problems}
    assert len(problems) == (damage is not lose_log)
    for problem in problems:
        assert "by_id" in problem
        assert problem in str(plans[0]) + str(plans[1])


def test_a_fault_of_the_code_is_not_taken_for_damage(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_run: OpenRun, _groups: object) -> None:
        raise TypeError("a fault of the code")

    monkeypatch.setattr(OpenRun, "read_entries", fail)
    with pytest.raises(TypeError, match="a fault of the code"):
        da.to_table(table, predicate=col("id") == 55)


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("damage", [damage_run, remove_run, truncate_run])
def test_a_refresh_replaces_a_damaged_run(table: Path, damage: Callable[[Path], None]) -> None:
    damage(table / "_delta_ops" / "indexes" / "by_id")
    (info,) = list_indexes(table)
    assert len(info.problems) == (damage is not damage_run)
    if damage is damage_run:  # the damaged entries are not read without need
        assert refresh_index(table, "by_id").removed_runs == 0
    result = refresh_index(table, "by_id", verify=damage is damage_run)
    assert (result.indexed_files, result.removed_runs) == (FILES, 1)
    assert list_indexes(table)[0].problems == ()
    assert left_files(table, col("id") == 55) == 1


@pytest.mark.full
def test_a_data_file_that_cannot_be_read_stays_uncovered(tmp_path: Path) -> None:
    write(tmp_path)
    lost = DeltaLog(tmp_path).snapshot().files(["path"])["path"][0].as_py()
    (tmp_path / lost).unlink()
    result = create_index(tmp_path, "by_id", "id")
    assert (result.indexed_files, len(result.problems)) == (FILES - 1, 1)
    assert lost in result.problems[0]
    assert list_indexes(tmp_path)[0].covered_files == FILES - 1


def test_a_store_that_fails_while_indexes_are_listed_fails_no_scan(table: Path) -> None:
    def fail(_: int, method: str, path: str, moment: str) -> None:
        if "indexes" in path and moment == "before":
            raise StorageError(path, "read", "the store is away")

    snapshot = DeltaLog(table, storage=CountingStorage(open_storage(table), fail)).snapshot()
    plan = da.explain_scan(snapshot, col("id") == 55)
    assert len(plan) == 12
    assert "the store is away" in plan.problems[0]
    assert da.to_table(snapshot, predicate=col("id") == 55)["id"].to_pylist() == [55]
