"""Files of the Arrow engine, read back by it and by other readers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import CommitConflictError, InvalidRequestError, TableNotFoundError
from delta_ops.events import CommitAttempted, Committed
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.protocol.schema import LONG, StructField, StructType, schema_to_json
from delta_ops.transaction.requests import Mode
from tests.support.tables import metadata, rows, rows_by_deltalake, rows_by_polars, write_log

ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b", None]})

PARTITION_VALUES: dict[str, pa.Array] = {
    "text with / % = space, non-ASCII, null": pa.array(
        ["a/b", "50%", "x=y", "a b", "züri 東京", None, "__HIVE_DEFAULT_PARTITION__x"]
    ),
    "whole numbers": pa.array([1, -2, None], pa.int32()),
    "bytes": pa.array([b"\x01\x02", b"abc", None]),
    "dates": pa.array([date(1, 1, 1), date(9999, 12, 31), None]),
    "booleans": pa.array([True, False, None]),
    # deltalake's Arrow reader cannot read negative decimals back, from any writer.
    "decimals": pa.array([Decimal("1.20"), Decimal("0.05"), None], pa.decimal128(10, 2)),
    "doubles": pa.array([1.5, -0.25, None]),
    "timestamps": pa.array(
        [datetime(2026, 3, 8, 6, 30, 0, 123456, UTC), datetime(1969, 12, 31, tzinfo=UTC), None],
        pa.timestamp("us", "UTC"),
    ),
}


@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_partition_values_of_every_type_come_back(tmp_path: Path, kind: str) -> None:
    values = PARTITION_VALUES[kind]
    data = pa.table({"id": pa.array(range(len(values)), pa.int64()), "p": values})
    da.write(tmp_path, data, partition_by=["p"])
    assert rows(da.to_table(DeltaLog(tmp_path))) == rows(data)


@pytest.mark.parametrize("kind", [k for k in PARTITION_VALUES if k != "bytes"])
@pytest.mark.parametrize("read", [rows_by_deltalake, rows_by_polars])
def test_others_read_the_same_partition_values(
    tmp_path: Path, kind: str, read: Callable[[Path], list[dict[str, Any]]]
) -> None:
    values = PARTITION_VALUES[kind]
    data = pa.table({"id": pa.array(range(len(values)), pa.int64()), "p": values})
    da.write(tmp_path, data, partition_by=["p"])
    assert read(tmp_path) == rows(data)


def test_an_empty_text_is_a_null_partition_value(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1], "p": [""]}), partition_by=["p"])
    assert da.to_table(DeltaLog(tmp_path)).to_pylist() == [{"id": 1, "p": None}]


def test_an_overwrite_replaces_all_rows(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    da.write(tmp_path, ROWS.slice(2), mode="overwrite")
    assert rows_by_deltalake(tmp_path) == rows(ROWS.slice(2))


def test_an_overwrite_by_predicate_keeps_other_rows_of_the_same_file(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    new = pa.table({"id": [2, 2], "p": ["x", "y"]})
    da.write(tmp_path, new, mode="overwrite", replace_where=col("id") == 2)
    expected = pa.concat_tables([ROWS.filter(pa.array([True, False, True])), new])
    assert rows_by_deltalake(tmp_path) == rows(expected)
    assert rows(da.to_table(DeltaLog(tmp_path))) == rows(expected)


def test_a_row_with_a_null_predicate_survives_an_overwrite(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    da.write(tmp_path, ROWS.slice(0, 0), mode="overwrite", replace_where=col("p") != "zzz")
    assert rows_by_deltalake(tmp_path) == rows(ROWS.slice(2))


def test_rows_outside_of_what_is_replaced_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match="is not true, so they are outside"):
        da.write(tmp_path, ROWS, mode="overwrite", replace_where=col("p") == "a")
    assert [p for p in sorted(tmp_path.rglob("*")) if p.is_file()] == [
        p for p in before if p.is_file()
    ]


@pytest.mark.parametrize("empty", ["", b""])
@pytest.mark.parametrize("is_partition", [True, False])
def test_a_row_that_is_stored_outside_of_what_is_replaced_is_refused(
    tmp_path: Path, empty: str | bytes, is_partition: bool
) -> None:
    """The value is null as a partition value, and each rerun would append the row again."""
    data = pa.table({"id": [1], "p": [empty]})
    da.write(tmp_path, data, partition_by=["p"] if is_partition else None)
    if is_partition:
        with pytest.raises(InvalidRequestError, match="is not true, so they are outside"):
            da.write(tmp_path, data, mode="overwrite", replace_where=col("p") == empty)
        nulls = pa.table({"id": [2], "p": pa.array([None], data["p"].type)})
        da.write(tmp_path, nulls, mode="overwrite", replace_where=col("p").is_null())
    else:
        da.write(tmp_path, data, mode="overwrite", replace_where=col("p") == empty)
    assert len(da.to_table(DeltaLog(tmp_path))) == 1


def test_a_txn_survives_the_checkpoint(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, txn=("app", 1), configuration={"delta.checkpointInterval": "2"})
    for _ in range(4):
        da.write(tmp_path, ROWS)
    for commit in (tmp_path / "_delta_log").glob("*.json"):
        if int(commit.stem) < 4:
            commit.unlink()
    again = da.write(tmp_path, ROWS, txn=("app", 1))
    assert (again.version, again.already_committed) == (None, True)


def test_a_checkpoint_is_written_at_every_nth_version(tmp_path: Path) -> None:
    for _ in range(7):
        da.write(tmp_path, ROWS, configuration={"delta.checkpointInterval": "3"})
    names = sorted(p.name for p in (tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    assert names == [f"{v:020d}.checkpoint.parquet" for v in (3, 6)]
    assert len(rows_by_deltalake(tmp_path)) == 21


def test_staged_files_are_committed_with_a_separate_transaction(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    log = DeltaLog(tmp_path)
    staged = da.stage_write(log, ROWS)
    assert log.snapshot().version == 0
    txn = begin(log)
    txn.stage(staged)
    assert txn.commit(operation="WRITE").version == 1
    assert len(rows_by_deltalake(tmp_path)) == 6


def test_staging_needs_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        da.stage_write(tmp_path, ROWS)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(pa.table({"id": [1], "q": ["x"]}), "no column 'q'", id="an unknown column"),
        pytest.param(pa.table({"id": ["x"]}), "column 'id' is int64", id="a value that won't fit"),
        pytest.param([{"id": 1}], "is not Arrow data", id="no Arrow data"),
    ],
)
def test_data_that_do_not_fit_are_refused(tmp_path: Path, data: Any, problem: str) -> None:
    da.write(tmp_path, ROWS)
    with pytest.raises(InvalidRequestError, match=problem):
        da.write(tmp_path, data)
    assert len(list(tmp_path.glob("*.parquet"))) == 1


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("id", "id"), id="alike"),
        pytest.param(("id", "ID"), id="with another case"),
    ],
)
@pytest.mark.parametrize("is_nested", [False, True], ids=["columns", "fields"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_table_that_has_a_column_twice_is_not_written(
    tmp_path: Path, names: tuple[str, str], is_nested: bool, mode: Mode
) -> None:
    twice = StructType(tuple(StructField(name, LONG) for name in names))
    schema = StructType((StructField("s", twice), StructField("x", LONG))) if is_nested else twice
    write_log(tmp_path, [[metadata(schema_string=schema_to_json(schema))]])
    with pytest.raises(InvalidRequestError, match="differ only in case"):
        da.write(tmp_path, pa.table({schema.fields[-1].name: [1]}), mode)
    assert list(tmp_path.iterdir()) == [tmp_path / "_delta_log"]


@pytest.mark.parametrize("is_nested", [False, True], ids=["columns", "fields"])
def test_a_column_that_occurs_twice_in_the_data_is_named(tmp_path: Path, is_nested: bool) -> None:
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    rows = pa.table({"s": twice}) if is_nested else pa.Table.from_struct_array(twice)
    path = "s.x" if is_nested else "x"
    with pytest.raises(InvalidRequestError, match=f"Column {path} occurs twice"):
        da.write(tmp_path, rows)


def test_values_that_are_no_rows_are_rejected_by_an_error_that_names_the_table(
    tmp_path: Path,
) -> None:
    da.write(tmp_path, ROWS)
    with pytest.raises(InvalidRequestError, match=f"{tmp_path}: data of type list is not Arrow"):
        da.write(tmp_path, [])


@pytest.mark.parametrize(
    ("name", "value", "data_type"),
    [
        ("l", [], pa.list_(pa.null())),
        ("s", {"x": None, "more": 1}, pa.struct({"x": pa.null(), "more": pa.int64()})),
        ("m", [], pa.map_(pa.string(), pa.null())),
    ],
)
def test_nested_values_without_a_type_get_the_type_of_the_column_beside_new_columns(
    tmp_path: Path, name: str, value: Any, data_type: pa.DataType
) -> None:
    known = {
        "l": pa.array([[1]]),
        "s": pa.array([{"x": 1}]),
        "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    da.write(tmp_path, pa.table(known))
    rows = pa.table({name: pa.array([value], data_type), "new": [1]})
    da.write(tmp_path, rows, merge_schema=True)
    found = da.to_table(tmp_path, predicate="new = 1")
    assert found[name].to_pylist() == [value]


def test_columns_that_the_data_lack_are_null(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    da.write(tmp_path, pa.table({"ID": [9]}))
    assert {"id": 9, "p": None} in rows_by_deltalake(tmp_path)


def test_a_null_in_a_column_that_forbids_it_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    da.write(tmp_path, pa.table({"id": [1]}, schema=schema))
    with pytest.raises(InvalidRequestError, match="NOT NULL"):
        da.write(tmp_path, pa.table({"id": pa.array([None], pa.int64())}))
    assert len(rows_by_deltalake(tmp_path)) == 1


def test_appends_that_race_all_succeed(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    stale = [begin(DeltaLog(tmp_path)) for _ in range(5)]
    versions = [da.write(txn, ROWS).version for txn in stale]
    assert versions == [1, 2, 3, 4, 5]
    assert len(rows_by_deltalake(tmp_path)) == 18


def test_appends_that_race_to_create_the_table_all_succeed(tmp_path: Path) -> None:
    stale = [begin(DeltaLog(tmp_path)) for _ in range(3)]
    assert [da.write(txn, ROWS).version for txn in stale] == [0, 1, 2]
    assert len(rows_by_deltalake(tmp_path)) == 9


@pytest.mark.parametrize(
    ("first", "second", "conflicts"),
    [
        pytest.param(col("p") == "a", col("p") == "a", True, id="of the same partition"),
        pytest.param(col("p") == "a", col("p") == "b", False, id="of different partitions"),
        pytest.param(None, col("p") == "b", True, id="of the table and of a partition"),
        pytest.param(col("p") == "c", col("p") == "c", True, id="of a partition without files"),
    ],
)
def test_overwrites_conflict_where_they_overlap(
    tmp_path: Path, first: Any, second: Any, conflicts: bool
) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    stale = begin(DeltaLog(tmp_path))

    def matching(predicate: Any) -> pa.Table:
        table = pa.table({"id": [7, 7, 7], "p": ["a", "b", "c"]})
        if predicate is None:
            return table
        return table.filter(
            pa.array([value == predicate.value for value in table["p"].to_pylist()])
        )

    da.write(tmp_path, matching(first), mode="overwrite", replace_where=first)
    files = len(list(tmp_path.rglob("*.parquet")))
    if conflicts:
        with pytest.raises(CommitConflictError, match="version 1 was committed first"):
            da.write(stale, matching(second), mode="overwrite", replace_where=second)
        assert len(list(tmp_path.rglob("*.parquet"))) == files
    else:
        assert da.write(stale, matching(second), "overwrite", replace_where=second).version == 2


def test_an_append_into_what_an_overwrite_read_makes_the_overwrite_fail(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    stale = begin(DeltaLog(tmp_path))
    da.write(tmp_path, pa.table({"id": [8], "p": ["a"]}))
    with pytest.raises(CommitConflictError, match="added rows to what this operation has read"):
        da.write(stale, ROWS.slice(0, 1), mode="overwrite", replace_where=col("p") == "a")


def test_a_predicate_and_columns_are_read(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS, partition_by=["p"])
    found = da.to_table(DeltaLog(tmp_path), columns=["p"], predicate=col("id") >= 2)
    assert rows(found) == rows(pa.table({"p": ["b", None]}))


def test_files_that_cannot_match_are_not_opened(tmp_path: Path) -> None:
    for i in range(3):
        da.write(tmp_path, pa.table({"id": [i], "p": ["x"]}))
    log = DeltaLog(tmp_path)
    for add in log.snapshot().add_files():
        if '"minValues":{"id":2' not in (add.stats or ""):
            (tmp_path / add.path).unlink()
    assert da.to_table(log, predicate=col("id") > 1).to_pylist() == [{"id": 2, "p": "x"}]


def test_a_listener_that_fails_after_the_commit_does_not_cost_the_files(tmp_path: Path) -> None:
    def broken(event: object) -> None:
        if isinstance(event, Committed):
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        da.write(tmp_path, ROWS, on_event=broken)
    assert rows_by_deltalake(tmp_path) == rows(ROWS)


def test_a_listener_that_fails_before_the_commit_leaves_nothing(tmp_path: Path) -> None:
    def broken(event: object) -> None:
        if isinstance(event, CommitAttempted):
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        da.write(tmp_path, ROWS, on_event=broken)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_many_small_batches_make_one_row_group(tmp_path: Path) -> None:
    batches = [batch for _ in range(9) for batch in ROWS.to_batches()]
    da.write(tmp_path, pa.RecordBatchReader.from_batches(ROWS.schema, batches))
    (path,) = tmp_path.glob("*.parquet")
    assert pq.ParquetFile(path).num_row_groups == 1


def test_a_hint_that_a_dead_writer_left_behind_is_mended(tmp_path: Path) -> None:
    for _ in range(3):
        da.write(tmp_path, ROWS)
    log = DeltaLog(tmp_path)
    write_checkpoint(log.snapshot(), now_ms=0)
    hint = tmp_path / "_delta_log" / "_last_checkpoint"
    hint.unlink()
    assert write_checkpoint(log.snapshot(), now_ms=0) is None
    assert json.loads(hint.read_text())["version"] == 2


@pytest.mark.parametrize(
    ("values", "found"),
    [
        pytest.param([1.0, 5.0], 5.0, id="numbers have a maximum"),
        pytest.param([1.0, float("nan")], None, id="with NaN there is none"),
        pytest.param([float("inf"), float("nan")], None, id="nor with NaN beside infinity"),
        pytest.param([1e308, 1e308, -float("inf")], 1e308, id="a sum that is NaN says nothing"),
    ],
)
def test_the_maximum_of_a_float_column(
    tmp_path: Path, values: list[float], found: float | None
) -> None:
    da.write(tmp_path, pa.table({"d": values}))
    (stats,) = DeltaLog(tmp_path).snapshot().files(["stats"])["stats"].to_pylist()
    assert json.loads(stats)["maxValues"].get("d") == found


@pytest.mark.parametrize("partition_by", [None, ["p"]], ids=["whole", "partitioned"])
def test_the_maximum_of_a_float_in_a_struct(tmp_path: Path, partition_by: list[str] | None) -> None:
    fields = [{"x": 1.0, "s": {"a.b": 5.0}}, None, {"x": float("nan"), "s": None}]
    table = pa.table({"id": [1, 2, 3], "p": ["a"] * 3, "s": fields, "d": [0.5] * 3})
    da.write(tmp_path, table, partition_by=partition_by)
    (stats,) = DeltaLog(tmp_path).snapshot().files(["stats"])["stats"].to_pylist()
    greatest = json.loads(stats)["maxValues"]
    assert (greatest["s"], greatest["d"]) == ({"s": {"a.b": 5.0}}, 0.5)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "uncompressed", "lz4_raw"])
def test_every_codec_of_the_table_property_is_written(tmp_path: Path, codec: str) -> None:
    da.write(tmp_path, ROWS, configuration={"delta.parquet.compression.codec": codec})
    assert rows(da.to_table(DeltaLog(tmp_path))) == rows(ROWS)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"b": [20], "a": [10]}, r"columns \(b: int64, a: int64\)"),
        ({"a": [10], "c": [20]}, r"columns \(a: int64, c: int64\)"),
        ({"a": ["x"], "b": [20]}, r"columns \(a: string, b: int64\)"),
    ],
)
def test_a_batch_with_other_columns_than_its_stream_is_refused(
    tmp_path: Path, second: dict[str, list[Any]], message: str
) -> None:
    """Stream columns are matched by position, so such a batch would swap two columns."""
    batches = [pa.record_batch({"a": [1], "b": [2]}), pa.record_batch(second)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
    with pytest.raises(InvalidRequestError, match=message):
        da.write(tmp_path, reader)
    assert list(tmp_path.rglob("*.*")) == []
