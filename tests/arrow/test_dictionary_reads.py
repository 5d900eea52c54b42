"""Strings read dictionary-encoded equal the original strings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrow.read.dictionary_pages import repeated_texts
from delta_ops.errors import DataFileError
from delta_ops.maintenance import optimize
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from tests.arrow.foreign_table import create, data_file, inline_vector

ROWS = 20_000


def chosen(path: Path) -> list[str]:
    metadata = pq.read_metadata(path)
    leaves = range(len(metadata.schema))
    found = repeated_texts(metadata, leaves, range(metadata.num_row_groups))
    return [metadata.schema.column(i).path for i in found]


def table_of(root: Path, rows: pa.Table, **changes: Any) -> DeltaLog:
    return create(
        root, schema_from_arrow(rows.schema), [data_file(root, "a.parquet", rows, **changes)]
    )


def test_strings_that_repeat_are_chosen_and_no_others(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "few": [f"value {i % 100}" for i in range(ROWS)],
            "bytes": pa.array([b"x" * (i % 7) for i in range(ROWS)], pa.binary()),
            "unique": [f"value {i}" for i in range(ROWS)],
            "number": [i % 3 for i in range(ROWS)],
            "inner": [{"few": "a"}] * ROWS,
            "list": [["a", "b"]] * ROWS,
            "a.b": ["dotted"] * ROWS,
        }
    )
    log = table_of(tmp_path, rows)
    assert chosen(tmp_path / "a.parquet") == ["few", "bytes", "a.b"]
    assert da.to_table(log).equals(rows)


def test_dictionaries_of_other_writers_are_read_as_strings(tmp_path: Path) -> None:
    """Such dictionaries may repeat a value, so Arrow's codes are not unique."""
    rows = pa.table({"few": [f"value {i % 10}" for i in range(ROWS)]})
    log = table_of(tmp_path, rows)
    place = tmp_path / "a.parquet"
    place.write_bytes(place.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-by-others"))
    assert pq.read_metadata(place).created_by.startswith("parquet-by-others")
    assert not chosen(place)
    assert da.to_table(log).equals(rows)


def test_each_file_is_read_as_its_own_footer_says(tmp_path: Path) -> None:
    """A file is first opened like the file before."""
    few, unique = (
        [f"{text} {i % n}" for i in range(ROWS)] for text, n in (("few", 10), ("", ROWS))
    )
    parts = {
        "1": pa.table({"a": few, "b": unique, "n": range(ROWS)}),
        "2": pa.table({"b": few, "n": range(ROWS), "a": unique}),
        "3": pa.table({"a": unique, "b": unique, "n": range(ROWS)}),
        "4": pa.table({"a": few, "b": few, "n": range(ROWS)}),
        "5": pa.table({"a": few[:5], "b": few[:5], "n": range(5)}),
        "6": pa.table({"a": few, "b": few, "n": range(ROWS)}),
    }
    adds = [data_file(tmp_path, f"{name}.parquet", rows) for name, rows in parts.items()]
    log = create(tmp_path, schema_from_arrow(parts["1"].schema), adds)
    place = tmp_path / "4.parquet"
    place.write_bytes(place.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-by-others"))
    expected = pa.concat_tables([rows.select(["a", "b", "n"]) for rows in parts.values()])
    assert da.to_table(log).equals(expected)
    assert optimize(log, target_size=1 << 30).files_added == 1
    assert da.to_table(log).equals(expected)


def test_small_row_groups_are_read_together(tmp_path: Path) -> None:
    rows = pa.table({"few": [f"value {i % 10}" for i in range(ROWS)]})
    log = table_of(tmp_path, rows, options={"row_group_size": 1000})
    assert not chosen(tmp_path / "a.parquet")
    assert [len(batch) for batch in da.to_batches(log)] == [ROWS]


def test_a_dictionary_that_the_writer_abandoned(tmp_path: Path) -> None:
    few, many = ["few"] * 300_000, [f"another {i}" for i in range(2000)]
    rows = pa.table({"text": [None, *few, *many]})
    log = table_of(tmp_path, rows, options={"dictionary_pagesize_limit": 1000})
    assert chosen(tmp_path / "a.parquet") == ["text"]
    assert da.to_table(log).equals(rows)
    assert da.to_table(log, predicate=col("text") == "another 1999").num_rows == 1


@given(
    values=st.lists(st.none() | st.sampled_from(["", "a", "ß", "\U0001f600" * 9]), min_size=1),
    deleted=st.sets(st.integers(0, 49_999), max_size=50),
    group_rows=st.sampled_from([20_000, 30_000, 50_000]),
)
@settings(max_examples=25)
def test_rows_are_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[str | None],
    deleted: set[int],
    group_rows: int,
) -> None:
    root = tmp_path_factory.mktemp("t")
    texts = (values * (50_000 // len(values) + 1))[:50_000]
    rows = pa.table(
        {"id": pa.array(range(50_000), pa.int64()), "text": pa.array(texts, pa.string())}
    )
    vector = inline_vector(deleted) if deleted else None
    log = table_of(root, rows, deletion_vector=vector, options={"row_group_size": group_rows})
    kept = rows.filter(pa.array([i not in deleted for i in range(50_000)]))
    assert da.to_table(log).equals(kept)
    wanted = da.to_table(log, ["id"], predicate=col("text") == "ß")
    pairs = zip(*kept.to_pydict().values(), strict=True)
    assert wanted["id"].to_pylist() == [number for number, text in pairs if text == "ß"]


@pytest.mark.full
def test_strings_that_swell_come_in_small_batches(tmp_path: Path) -> None:
    """Two values of 60 KB, 1 GB in all rows."""
    large = ["a" * 60_000, "b" * 60_000]
    numbers = pa.array([i % 2 for i in range(1 << 14)], pa.int32())
    rows = pa.table({"text": pa.DictionaryArray.from_arrays(numbers, large)})
    plain = pa.schema([("text", pa.string())])
    file = data_file(tmp_path, "a.parquet", rows, options={"store_schema": False})
    log = create(tmp_path, schema_from_arrow(plain), [file])
    lengths = [len(batch) for batch in da.to_batches(log)]
    assert sum(lengths) == 1 << 14
    assert max(lengths) * 60_000 <= 32 << 20


def test_a_damaged_footer_is_an_error_and_no_end_of_the_process(tmp_path: Path) -> None:
    """Arrow aborts the process when it reads a column of an inconsistent footer."""
    rows = pa.table({"few": [f"value {i % 50}" for i in range(ROWS)], "number": list(range(ROWS))})
    adds = [data_file(tmp_path, name, rows) for name in ("a.parquet", "b.parquet")]
    log = create(tmp_path, schema_from_arrow(rows.schema), adds)
    place = tmp_path / "b.parquet"  # opened like the first file
    sound = place.read_bytes()
    footer = int.from_bytes(sound[-8:-4], "little")
    chance, failed = random.Random(0), 0
    for _ in range(300):
        damaged = bytearray(sound)
        damaged[-9 - chance.randrange(footer)] = chance.randrange(256)
        place.write_bytes(damaged)
        try:
            da.to_table(log)
        except DataFileError:
            failed += 1
    assert failed > 100
