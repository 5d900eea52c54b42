"""Scans: the rows they find, their order, and the memory they use."""

from __future__ import annotations

import gc
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrow.read.data_file import read_data_file
from delta_ops.arrow.read.file_scan import FileScan, StoredFile
from delta_ops.errors import DataFileError, InvalidRequestError
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import (
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    StructField,
    StructType,
)
from tests.arrow.foreign_table import create, data_file, inline_vector

ID = StructType((StructField("id", LONG),))


def ids(num_rows: int, first: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + num_rows), pa.int64())})


def test_a_predicate_on_a_time_without_a_zone_uses_the_requested_zone(tmp_path: Path) -> None:
    schema = StructType((StructField("id", LONG), StructField("t", TIMESTAMP)))
    add = data_file(tmp_path, "x", ids(1), partition_values={"t": "2024-01-01 00:00:00"})
    log = create(tmp_path, schema, [add], partition_by=("t",))
    in_tokyo = datetime(2024, 1, 1, tzinfo=UTC) - timedelta(hours=9)
    for zone, moment in (("Asia/Tokyo", in_tokyo), ("UTC", in_tokyo + timedelta(hours=9))):
        is_then = col("t") == moment
        assert da.to_table(log, predicate=is_then, partition_time_zone=zone).num_rows == 1
        assert da.count_rows(log, is_then, partition_time_zone=zone) == 1
        files = log.snapshot().files(["partition_values"], is_then, partition_time_zone=zone)
        assert files["partition_values"].to_pylist() == [{"t": moment}]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_statistics_of_a_partition_column_skip_no_row(tmp_path: Path, mode: str) -> None:
    mapped = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "stored"}
    schema = StructType((*ID.fields, StructField("p", LONG, metadata=mapped)))
    name = "p" if mode == "none" else "stored"
    rows = ids(30).append_column(name, pa.array([5] * 30, pa.int64()))
    options = {"row_group_size": 10}
    add = data_file(tmp_path, "x", rows, partition_values={name: "7"}, options=options)
    log = create(tmp_path, schema, [add], {"delta.columnMapping.mode": mode}, ("p",))
    assert da.to_table(log, predicate=col("p") == 7)["p"].to_pylist() == [7] * 30
    assert da.count_rows(log, col("p") == 5) == 0


@pytest.mark.parametrize(
    "columns",
    [["a", "a"], ["a", "s", "A"], ["s", "s"], ["s.x", "S.X"], ["s.x", "s.y", "s.x"]],
    ids=", ".join,
)
def test_a_column_that_is_selected_twice_is_refused(tmp_path: Path, columns: list[str]) -> None:
    da.write(tmp_path, pa.table({"a": [1], "s": [{"x": 1, "y": 2}]}))
    with pytest.raises(InvalidRequestError, match="is selected twice; name it once"):
        da.to_table(DeltaLog(tmp_path), columns)


def test_rows_stay_in_order_through_a_predicate(tmp_path: Path) -> None:
    # More rows than Arrow filters in one batch.
    adds = [data_file(tmp_path, f"{i}", ids(150_000, i * 150_000)) for i in range(3)]
    log = create(tmp_path, ID, adds)
    paths = log.snapshot().files(["path"])["path"].to_pylist()
    expected = [ids(149_999, int(path) * 150_000 + 1) for path in paths]
    found = da.to_table(log, predicate=~col("id").isin([int(path) * 150_000 for path in paths]))
    assert found.combine_chunks() == pa.concat_tables(expected).combine_chunks()


NAN = float("nan")
VALUES = pa.table(
    {
        "number": pa.array([NAN, -0.0, 1.5, None, float("inf"), -2.0] * 50),
        "amount": pa.array([Decimal(f"{i}.00") for i in range(-150, 150)], pa.decimal128(20, 2)),
        "text": pa.array(["a", "ä", None, "B", "", "z" * 40] * 50),
        "row": pa.array(range(300), pa.int64()),
    }
)


@pytest.mark.parametrize(
    "predicate",
    [
        pytest.param(col("number") == NAN, id="NaN equals NaN"),
        pytest.param(col("number") > 1.5, id="NaN is greater than every number"),
        pytest.param(col("number") == 0.0, id="zero has one value"),
        pytest.param(col("amount") >= "149.00", id="decimals"),
        pytest.param(col("text") > "z", id="a text longer than its bound"),
        pytest.param(col("text").is_null() | (col("row") == 7), id="nulls"),
        pytest.param((col("row") >= 95) & (col("row") < 105), id="on both sides of a group"),
    ],
)
def test_skipped_groups_and_deleted_rows_do_not_shift_each_other(
    tmp_path: Path, predicate: Predicate
) -> None:
    """Once in groups of ten rows, with skipped groups, and once in a single group."""
    schema = StructType(
        (
            StructField("number", DOUBLE),
            StructField("amount", DecimalType(20, 2)),
            StructField("text", STRING),
            StructField("row", LONG),
        )
    )
    deleted = random.Random(1).sample(range(300), 100)
    found = []
    for size in (10, 300):
        root = tmp_path / str(size)
        add = data_file(root, "x", VALUES, options={"row_group_size": size})
        whole = da.to_table(create(root, schema, [add]), predicate=predicate)
        vector = inline_vector(deleted)
        add = data_file(
            root / "y", "x", VALUES, deletion_vector=vector, options={"row_group_size": size}
        )
        live = da.to_table(create(root / "y", schema, [add]), predicate=predicate)
        rows = whole["row"].to_pylist()
        assert live["row"].to_pylist() == [row for row in rows if row not in deleted]
        found.append(rows)
    assert found[0] == found[1]
    assert found[0]


def test_batches_of_many_columns_have_few_rows_and_batches_of_one_column_many(
    tmp_path: Path,
) -> None:
    names = [f"c{number}" for number in range(300)]
    rows = pa.table({name: pa.nulls(40_000, pa.int64()) for name in names})
    schema = StructType(tuple(StructField(name, LONG) for name in names))
    log = create(tmp_path, schema, [data_file(tmp_path, "x", rows)])
    assert max(batch.nbytes for batch in da.to_batches(log)) < 32 << 20
    assert [len(batch) for batch in da.to_batches(log, ["c7"])] == [40_000]


def test_few_rows_of_very_many_columns_are_one_batch(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(1000)]
    rows = pa.table({name: pa.nulls(4000, pa.int64()) for name in names})
    schema = StructType(tuple(StructField(name, LONG) for name in names))
    log = create(tmp_path, schema, [data_file(tmp_path, "x", rows)])
    assert [len(batch) for batch in da.to_batches(log)] == [4000]


def test_an_abandoned_scan_reads_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = create(tmp_path, ID, [data_file(tmp_path, f"{i}", ids(10)) for i in range(100)])
    begun: list[str] = []

    def read(scan: FileScan, stored: StoredFile, *, use_threads: bool) -> Iterator[pa.RecordBatch]:
        begun.append(stored.path)
        return read_data_file(scan, stored, use_threads=use_threads)

    monkeypatch.setattr("delta_ops.arrow.read.reading.read_data_file", read)
    batches = da.to_batches(log)
    next(batches)
    del batches
    gc.collect()
    # Reads that start from here on follow the leftover reads.
    assert da.to_table(log).num_rows == 1000
    assert len(begun) < 50 + 100


@pytest.mark.parametrize("kept", [0, 3, 8, 200, -9, -1])
def test_a_file_that_is_cut_off_is_named_with_table_and_version(tmp_path: Path, kept: int) -> None:
    log = create(tmp_path, ID, [data_file(tmp_path, "x", ids(1000))])
    place = tmp_path / "x"
    place.write_bytes(place.read_bytes()[:kept])
    with pytest.raises(DataFileError, match="version 0: data file x cannot be read") as error:
        da.to_table(log)
    assert error.value.table == log.storage.uri


@pytest.mark.parametrize("kept", [0, 8, -9])
def test_so_is_one_in_a_store(tmp_path: Path, kept: int) -> None:
    create(tmp_path, ID, [data_file(tmp_path, "x", ids(1000))])
    store, root = fsspec.filesystem("memory"), f"/{uuid.uuid4().hex}"
    store.put(str(tmp_path), root, recursive=True)
    log = DeltaLog(f"memory:/{root}")
    assert da.to_table(log).num_rows == 1000
    store.pipe_file(f"{root}/x", store.cat_file(f"{root}/x")[:kept])
    with pytest.raises(
        DataFileError, match=r"version 0: data file x has \d+ bytes, but the log records \d+"
    ):
        da.to_table(log)
    store.rm(root, recursive=True)


def test_a_file_with_flipped_bits_is_named(tmp_path: Path) -> None:
    log = create(tmp_path, ID, [data_file(tmp_path, "x", ids(1000))])
    place, chance = tmp_path / "x", random.Random(5)
    whole = place.read_bytes()
    reported = []
    for _ in range(100):
        content = bytearray(whole)
        for _ in range(4):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        place.write_bytes(content)
        try:
            da.to_table(log).validate(full=True)
        except DataFileError as error:
            reported.append(str(error))
    assert len(reported) > 50
    assert all("version 0: data file x cannot be read" in text for text in reported)


@pytest.mark.parametrize("partition_by", [None, ["p"]])
def test_rows_without_columns_are_as_many(tmp_path: Path, partition_by: list[str] | None) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2, 3], "p": [1, 1, 2]}), partition_by=partition_by)
    found = da.to_table(tmp_path, columns=[])
    assert (found.num_rows, found.num_columns) == (3, 0)
    assert da.to_table(tmp_path, columns=[], predicate=col("p") == 1).num_rows == 2
    assert sum(map(len, da.to_batches(tmp_path, columns=[], predicate=col("id") > 1))) == 2
