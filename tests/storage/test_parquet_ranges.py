"""Columns of a Parquet file read by ranges equal Arrow's read of the whole file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.storage import FileInfo, Storage, open_storage
from delta_ops.storage.parquet_ranges import (
    Footer,
    leaves_among,
    open_window,
    plan_windows,
    read_footer,
    read_window,
)
from tests.support.counting_storage import CountingStorage

PATH = "a.parquet"
COLUMNS = ["s.x", "s.y", "s", "list", "text", "number", "never"]


def table(num_rows: int) -> pa.Table:
    """Columns of several kinds; random bytes stop the file from shrinking."""
    random = Random(0)
    noise = [random.randbytes(40) for _ in range(num_rows)]
    return pa.table(
        {
            "s": pa.array(
                [None if i % 5 == 0 else {"x": i, "y": str(i)} for i in range(num_rows)],
                pa.struct({"x": pa.int64(), "y": pa.string()}),
            ),
            "noise": pa.array(noise),
            "list": pa.array([[i] * (i % 4) for i in range(num_rows)], pa.list_(pa.int32())),
            "text": pa.array([f"text {i % 7}" for i in range(num_rows)]),
            "number": pa.array(range(num_rows), pa.int64()),
            "never": pa.nulls(num_rows, pa.string()),
        }
    )


def put(content: bytes) -> Storage:
    storage = open_storage("memory://parquet-ranges/t")
    storage.replace(PATH, content)
    return storage


@cache
def parquet(num_rows: int, row_group_size: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table(num_rows), sink, row_group_size=row_group_size)
    return sink.getvalue()


def leaves_of(footer: Footer, *columns: str) -> list[int]:
    return leaves_among(footer.metadata, columns)


def read(
    storage: Storage, footer: Footer, columns: Sequence[str], groups: Sequence[int], max_bytes: int
) -> tuple[pa.Table, int]:
    """The columns of the row groups, and the number of windows."""
    tables = []
    leaves = leaves_of(footer, *columns)
    for window in plan_windows(footer, leaves, groups, max_bytes):
        file = open_window(footer, read_window(storage, storage.stat(PATH), footer, window))
        tables.append(file.read_row_groups(list(window.row_groups), columns=list(columns)))
    return pa.concat_tables(tables), len(tables)


@settings(max_examples=60, deadline=None)
@given(
    columns=st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True),
    chosen=st.sets(st.integers(0, 9), min_size=1),
    max_bytes=st.sampled_from([1, 10_000, 100_000, 1 << 30]),
    num_rows=st.sampled_from([10, 20_000]),
)
def test_windows_hold_what_the_whole_file_holds(
    columns: list[str], chosen: set[int], max_bytes: int, num_rows: int
) -> None:
    content = parquet(num_rows, num_rows // 10)
    groups = sorted(chosen)
    storage = put(content)
    footer = read_footer(storage, storage.stat(PATH))
    found, num_windows = read(storage, footer, columns, groups, max_bytes)
    whole = pq.ParquetFile(pa.BufferReader(content))
    assert found.equals(whole.read_row_groups(groups, columns=columns))
    assert num_windows == len(groups) if max_bytes == 1 else num_windows <= len(groups)


def test_distant_columns_are_requested_separately_and_near_columns_together() -> None:
    content = parquet(40_000, 40_000)
    storage = put(content)
    footer = read_footer(storage, storage.stat(PATH))
    (separate,) = plan_windows(footer, leaves_of(footer, "s.x", "number"), [0], 1 << 30)
    near = leaves_of(footer, "list", "text", "number")
    (together,) = plan_windows(footer, near, [0], 1 << 30)
    assert (len(separate.ranges), len(together.ranges)) == (2, 1)
    assert separate.num_bytes < len(content) / 2


@pytest.mark.full
def test_a_long_range_is_requested_in_parts() -> None:
    content = parquet(250_000, 250_000)
    storage = put(content)
    footer = read_footer(storage, storage.stat(PATH))
    ranges: list[tuple[int, int]] = []

    class Seen(CountingStorage):
        def read_ranges(self, path: str, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
            ranges.extend(wanted)
            return super().read_ranges(path, wanted)

    (window,) = plan_windows(footer, leaves_of(footer, "noise"), [0], 1)
    read_window(Seen(storage, lambda *_: None), storage.stat(PATH), footer, window)
    assert len(window.ranges) == 1
    assert len(ranges) > 1
    assert max(end - start for start, end in ranges) <= 8 << 20
    assert sum(end - start for start, end in ranges) == window.num_bytes


@pytest.mark.parametrize("size", [0, -1, 11])
def test_a_size_that_no_parquet_file_has_is_refused_unread(size: int) -> None:
    with pytest.raises(ValueError, match="too short"):
        read_footer(open_storage("memory://nothing/t"), FileInfo(PATH, size, 0))
