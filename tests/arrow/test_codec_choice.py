"""Number columns that hardly compress are not compressed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.write.file_form import (
    choose_dictionaries,
    find_incompressible,
    leaf_paths,
)
from tests.support.tables import rows, rows_by_deltalake

ROWS = 10_000


def numbers(*, with_nulls: bool = False) -> pa.Table:
    chance = random.Random(0)
    measured = [chance.random() for _ in range(ROWS)]
    return pa.table(
        {
            "id": range(ROWS),
            "measured.value": [
                None if with_nulls and i % 9 == 0 else x for i, x in enumerate(measured)
            ],
            "rounded": [round(x, 2) for x in measured],
            "key": pa.array([chance.getrandbits(31) for _ in range(ROWS)], pa.int32()),
            "t": [str(i) for i in range(ROWS)],
        }
    )


def chunks_of(path: Path) -> list[pq.ColumnChunkMetaData]:
    (add,) = DeltaLog(path).snapshot().add_files()
    group = pq.read_metadata(path / add.path).row_group(0)
    return [group.column(i) for i in range(group.num_columns)]


def codecs_of(path: Path) -> dict[str, str]:
    return {each.path_in_schema: each.compression for each in chunks_of(path)}


@pytest.mark.parametrize("with_nulls", [False, True])
def test_numbers_without_repeats_are_not_compressed(tmp_path: Path, with_nulls: bool) -> None:
    table = numbers(with_nulls=with_nulls)
    da.write(tmp_path, table)
    chosen = {"measured.value": "UNCOMPRESSED", "key": "UNCOMPRESSED"}
    assert codecs_of(tmp_path) == {**dict.fromkeys(table.column_names, "ZSTD"), **chosen}
    assert rows(da.to_table(tmp_path)) == rows(table) == rows_by_deltalake(tmp_path)
    da.delete(tmp_path, "id % 100 = 7")
    assert codecs_of(tmp_path) == {**dict.fromkeys(table.column_names, "ZSTD"), **chosen}


def test_each_file_is_checked(tmp_path: Path) -> None:
    """One partition has random numbers; the numbers of the others hardly differ."""
    num_rows = 100_000
    chance = random.Random(0)
    measured = pa.table(
        {
            "p": ["a"] * num_rows,
            "x": [chance.random() for _ in range(num_rows)],
            "n": [chance.getrandbits(60) for _ in range(num_rows)],
        }
    )
    alike = [
        pa.table({"p": [p] * num_rows, "x": [0.0] * num_rows, "n": range(num_rows)}) for p in "bcd"
    ]
    parts = [measured, *alike]
    da.write(tmp_path, pa.concat_tables(parts), partition_by=["p"])
    sizes = {
        each.partition_values["p"]: each.size for each in DeltaLog(tmp_path).snapshot().add_files()
    }
    assert sizes.pop("a") > 16 * num_rows
    assert all(size < 3 * num_rows for size in sizes.values())


def test_a_codec_that_the_table_names_is_that_of_all_columns(tmp_path: Path) -> None:
    da.write(tmp_path, numbers(), configuration={"delta.parquet.compression.codec": "zstd"})
    assert {*codecs_of(tmp_path).values()} == {"ZSTD"}


@pytest.mark.parametrize(
    "data_type", [pa.int32(), pa.int64(), pa.float64(), pa.timestamp("us"), pa.date32()], ids=str
)
def test_columns_of_every_type_are_judged(data_type: pa.DataType) -> None:
    chance = random.Random(0)
    width = data_type.bit_width
    content = chance.randbytes(ROWS * width // 8)
    drawn = pa.Array.from_buffers(data_type, ROWS, [None, pa.py_buffer(content)])
    is_kept = pa.array([i % 3 > 0 for i in range(ROWS)])
    of_zeros = pa.Array.from_buffers(data_type, ROWS, [None, pa.py_buffer(bytes(len(content)))])
    columns = {
        "drawn": drawn,
        "with nulls": pc.if_else(is_kept, drawn, pa.scalar(None, data_type)),
        "from the middle on": pa.concat_arrays([drawn.slice(ROWS // 2), of_zeros.slice(ROWS // 2)]),
        "alike": of_zeros,
        "nulls": pa.nulls(ROWS, data_type),
        "texts": pa.array(["a"] * ROWS),
    }
    found = find_incompressible(pa.table(columns), range(len(columns)), "zstd")
    assert found == [0, 1]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_each_leaf_of_a_nested_column_is_judged(tmp_path: Path, mode: str) -> None:
    chance = random.Random(0)
    measured = pa.array([chance.random() for _ in range(2 * ROWS)])
    few = pa.array([f"color {i % 5}" for i in range(2 * ROWS)])
    ends = pa.array(range(0, 2 * ROWS + 1, 2), pa.int32())
    table = pa.table(
        {
            "list": pa.ListArray.from_arrays(ends, measured),
            "struct": pa.StructArray.from_arrays(
                [measured[:ROWS], few[:ROWS], pa.array(range(ROWS))], ["x", "s", "id"]
            ),
            "map": pa.MapArray.from_arrays(ends, few, measured),
        }
    )
    da.write(tmp_path, table, configuration={"delta.columnMapping.mode": mode})
    found = [(each.compression, each.has_dictionary_page) for each in chunks_of(tmp_path)]
    drawn, repeated, unique = ("UNCOMPRESSED", False), ("ZSTD", True), ("ZSTD", False)
    assert found == [drawn, drawn, repeated, unique, repeated, drawn]
    assert da.to_table(tmp_path).equals(table)


def test_the_paths_of_leaves_are_those_of_the_footer() -> None:
    inner = pa.struct([("a", pa.map_(pa.string(), pa.list_(pa.int32()))), ("b.c", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.list_(inner))), ("s", inner)])
    content = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), content)
    stored = pq.read_metadata(pa.BufferReader(content.getvalue())).schema
    paths = [path for each in schema for path in leaf_paths(each.name, each.type)]
    assert paths == [stored.column(i).path for i in range(len(stored))]


@pytest.mark.parametrize(
    ("num_rows", "most_bytes"),
    [
        pytest.param(2_000, 2 * 256 * 8, id="few rows, whose compression takes little time"),
        pytest.param(ROWS, 2 * 2_048 * 8, id="many rows"),
    ],
)
def test_a_sample_of_a_column_is_compressed(
    num_rows: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressed: list[int] = []
    compress = pa.compress

    def counting(content: bytes, **options: Any) -> Any:
        compressed.append(len(content))
        return compress(content, **options)

    monkeypatch.setattr(pa, "compress", counting)
    measured = numbers().select(["measured.value", "rounded"]).slice(0, num_rows)
    assert find_incompressible(measured, range(2), "zstd") == [0]
    assert compressed == [most_bytes] * 2


def test_a_file_without_rows_is_judged() -> None:
    assert find_incompressible(numbers().slice(0, 0), range(5), "zstd") == []


def test_a_sample_does_not_copy_the_chunks_of_a_column() -> None:
    chunk = pa.array([random.random() for _ in range(100_000)])
    rows = pa.table({"random": pa.chunked_array([chunk] * 20)})
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        assert choose_dictionaries(rows) == []
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < rows.nbytes / 4


def test_a_sample_has_rows_of_all_chunks() -> None:
    distinct, repeated = pa.array(map(float, range(10_000))), pa.array([1.0] * 10_000)
    first = pa.table({"c": pa.chunked_array([distinct, repeated, repeated])})
    assert choose_dictionaries(first) == [0]
    assert choose_dictionaries(pa.table({"c": pa.chunked_array([distinct, distinct])})) == [0]
    rest = pa.array(map(float, range(10_000, 20_000)))
    assert choose_dictionaries(pa.table({"c": pa.chunked_array([distinct, rest])})) == []
