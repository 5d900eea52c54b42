"""Strings that stay dictionary-encoded during a rewrite, compared with plain strings."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col, parse_expression
from delta_ops.arrow import nesting
from delta_ops.arrow.dictionary_columns import (
    decode,
    drop_unused_strings,
    is_encoded,
    replace_encoded,
)
from delta_ops.arrow.read import file_rows
from delta_ops.arrow.write import data_file as data_file_write
from delta_ops.ddl import add_constraint, set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from tests.arrow.encoding import encode_all
from tests.support.examples import check_examples, few_or_many
from tests.support.tables import rows

TEXTS = st.sampled_from([None, "", "a", "bb", "\u00e9", "ccc"])
CODES = st.integers(0, 3) | st.none()


@pytest.fixture
def all_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strings of every file with a dictionary stay encoded, even of a small file."""
    encode_all(monkeypatch)


@pytest.mark.full
@settings(max_examples=200)
@given(
    dictionary=st.lists(TEXTS, min_size=4, max_size=6),
    chunks=st.lists(st.lists(CODES), min_size=1),
)
def test_a_tidy_dictionary_has_each_string_of_the_rows_once(
    dictionary: list[str | None], chunks: list[list[int | None]]
) -> None:
    """The dictionary may hold repeated strings, null, and strings without a row."""
    before = pa.array(dictionary, pa.string())
    codes = [pa.array(each, pa.int32()) for each in chunks]
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(each, before) for each in codes])
    tidy = drop_unused_strings(pa.table({"t": column}))["t"]
    texts = [None if i is None else dictionary[i] for each in chunks for i in each]
    assert tidy.to_pylist() == texts
    for chunk in tidy.chunks:
        assert sorted(chunk.dictionary.to_pylist()) == sorted(
            each for each in {*texts} if each is not None
        )


@settings(max_examples=200)
@given(texts=st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), max_size=20))
def test_strings_are_replaced_in_dictionary_columns_as_in_plain_columns(
    texts: list[tuple[str | None, str | None, bool]],
) -> None:
    column = pa.array([old for old, _, _ in texts], pa.string()).dictionary_encode()
    mask = pa.array([is_new for _, _, is_new in texts], pa.bool_())
    values = pa.array([new for _, new, is_new in texts if is_new], pa.string())
    replaced = replace_encoded(column, mask, values)
    assert is_encoded(replaced.type)
    assert decode(replaced).to_pylist() == [new if is_new else old for old, new, is_new in texts]


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("t", pa.string()),
        ("b", pa.binary()),
        ("x", pa.float64()),
        ("p", pa.string()),
    ]
)
Change = Callable[[Path], Any]


def upsert(path: Path) -> Any:
    source = pa.table(
        {
            "id": [1, 4, 900],
            "t": ["new", None, "inserted"],
            "b": [b"n", b"", None],
            "x": [0.5, 1.5, 2.5],
            "p": ["a", "b", "a"],
        },
        SCHEMA,
    )
    merge = da.merge(path, source, "target.id = source.id")
    merge = merge.when_matched_update({name: f"source.{name}" for name in ("t", "b", "x")})
    return merge.when_not_matched_insert_all().execute()


def merge_by_text(path: Path) -> Any:
    """The target's text decides, and is assigned to other columns."""
    source = pa.table({"key": ["a", "ccc"], "more": ["+", None]})
    merge = da.merge(path, source, "target.t = source.key")
    merge = merge.when_matched_update({"t": "concat(source.more, target.t)"}, "target.id > 2")
    return merge.when_matched_delete("target.id = 1").execute()


def merge_of_all(path: Path) -> Any:
    """Update every row from its own old values."""
    merge = da.merge(path, pa.table({"id": [1]}), "target.id = source.id")
    merge = merge.when_matched_update({"t": "upper(target.t)"})
    return merge.when_not_matched_by_source_update({"t": "concat(target.t, target.p)"}).execute()


CHANGES: Mapping[str, Change] = {
    "upsert": upsert,
    "merge by a text": merge_by_text,
    "merge of all rows": merge_of_all,
    "delete by number": lambda path: da.delete(path, "id % 3 = 1"),
    "delete by text": lambda path: da.delete(path, col("t") == "a"),
    "delete of nothing else": lambda path: da.delete(path, "t is not null"),
    "update by text": lambda path: da.update(path, {"x": parse_expression("x + 1")}, "t = 'a'"),
    "update of a text": lambda path: da.update(path, {"t": "concat(t, '!')"}, "id % 2 = 0"),
    "update of all texts": lambda path: da.update(path, {"t": "lower(t)", "b": None}),
    "update that moves rows": lambda path: da.update(path, {"p": "coalesce(t, 'b')"}, "id > 2"),
}
PLAIN = ("update of all texts", "update that moves rows")
"""Columns with new strings from expressions, and files of several partitions, are plain."""
PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "mapped by name": {"delta.columnMapping.mode": "name"},
    "with a change feed": {"delta.enableChangeDataFeed": "true"},
    "with row tracking": {"delta.enableRowTracking": "true"},
}
WITHOUT_FEED = [name for name in PROPERTIES if name != "with a change feed"]


def make(path: Path, properties: Mapping[str, str], source_rows: list[dict[str, Any]]) -> None:
    txn = begin(DeltaLog(path))
    txn.create_table(schema_from_arrow(SCHEMA), partition_by=["p"], configuration=dict(properties))
    txn.stage(da.stage_write(txn, pa.Table.from_pylist(source_rows, SCHEMA)))
    txn.commit(operation="WRITE")


def files_of(path: Path) -> list[tuple[Any, ...]]:
    """Partition and statistics of each file."""
    return sorted(
        (str(each.partition_values), each.stats) for each in DeltaLog(path).snapshot().add_files()
    )


def changes_of(path: Path) -> list[dict[str, Any]]:
    found = da.read_changes(path, 0).read_all()
    return rows(found.drop_columns(["_commit_timestamp"]))


@pytest.mark.some_cases(3)
@pytest.mark.parametrize(
    ("change", "properties"),
    [
        *((change, "with a change feed") for change in CHANGES),
        *product(("upsert", "delete by number", "update of a text"), WITHOUT_FEED),
    ],
)
def test_changes_leave_the_same_rows_and_statistics_as_with_plain_strings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_encoded: None, change: str, properties: str
) -> None:
    values = [None, "a", "a", "bb", "ccc", "", "d" * 40, "a"]
    source_rows = [
        {
            "id": i,
            "t": values[i % 8],
            "b": None if i % 5 == 0 else str(values[i % 7]).encode(),
            "x": float(i),
            "p": "ab"[i % 2],
        }
        for i in range(40)
    ]
    encoded, plain = tmp_path / "encoded", tmp_path / "plain"
    make(encoded, PROPERTIES[properties], source_rows)
    shutil.copytree(encoded, plain)
    encoded_columns = count_encoded(monkeypatch)
    CHANGES[change](encoded)
    assert bool(encoded_columns) is (change not in PLAIN)
    with monkeypatch.context() as patched:
        patched.setattr(file_rows, "repeated_texts", lambda *_: [])
        before = len(encoded_columns)
        CHANGES[change](plain)
        assert len(encoded_columns) == before
    assert rows(da.to_table(encoded)) == rows(da.to_table(plain))
    assert files_of(encoded) == files_of(plain)
    if properties == "with a change feed":
        assert changes_of(encoded) == changes_of(plain)


def count_encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The dictionary columns that are written, in order."""
    found: list[str] = []

    def note(table: pa.Table) -> pa.Table:
        found.extend(each.name for each in table.schema if is_encoded(each.type))
        return drop_unused_strings(table)

    monkeypatch.setattr(data_file_write, "drop_unused_strings", note)
    return found


@few_or_many(12, 40)
def test_random_rows_are_changed_as_in_plain_python(num_examples: int) -> None:
    some_rows = st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 9)), min_size=1, max_size=30)
    check_examples(num_examples, check_changes, some_rows, st.integers(0, 9))


def check_changes(data: list[tuple[str | None, str | None, int]], bound: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        encode_all(patched)
        table = pa.table(
            {
                "t": pa.array([t for t, _, _ in data], pa.string()),
                "u": pa.array([u for _, u, _ in data], pa.string()),
                "n": pa.array([n for _, _, n in data], pa.int64()),
            }
        )
        da.write(folder, table)
        da.update(folder, {"t": parse_expression("concat(u, '.')")}, f"n < {bound}")
        da.delete(folder, f"n = {bound}")
        left = [
            (None if u is None else f"{u}.", u, n) if n < bound else (t, u, n)
            for t, u, n in data
            if n != bound
        ]
        assert [tuple(each.values()) for each in da.to_table(folder).to_pylist()] == left


def test_no_string_of_a_deleted_row_is_left_in_a_file(tmp_path: Path, all_encoded: None) -> None:
    """After a delete and a vacuum, a person's name is in no file."""
    rows_of_all = pa.table({"id": range(100), "name": [f"person {i % 10}" for i in range(100)]})
    da.write(tmp_path, rows_of_all)
    da.delete(tmp_path, "id % 10 = 3")
    da.update(tmp_path, {"name": parse_expression("'unknown'")}, "id % 10 = 4")
    source = pa.table({"id": range(5, 100, 10), "name": ["renamed"] * 10})
    merge = da.merge(tmp_path, source, "target.id = source.id")
    merge.when_matched_update_all().execute()
    (add,) = DeltaLog(tmp_path).snapshot().add_files()
    file = pq.read_table(tmp_path / add.path, read_dictionary=["name"])
    found = {text for each in file["name"].chunks for text in each.dictionary.to_pylist()}
    kept = {f"person {i}" for i in range(10) if i not in (3, 4, 5)}
    assert found == kept | {"unknown", "renamed"}
    content = (tmp_path / add.path).read_bytes()
    assert not any(f"person {i}".encode() in content for i in (3, 4, 5))


VECTORS = "delta.enableDeletionVectors"


def test_files_with_deleted_rows_in_some_batches_are_written_again(tmp_path: Path) -> None:
    numbers = range(200_000)
    texts = [f"text {i % 50}" for i in numbers]
    da.write(tmp_path, pa.table({"id": numbers, "s": texts}), configuration={VECTORS: "true"})
    da.delete(tmp_path, "id < 10")
    set_properties(tmp_path, {VECTORS: "false"})
    da.delete(tmp_path, "id = 150000")
    merge = da.merge(tmp_path, pa.table({"id": [70_000]}), "target.id = source.id")
    merge.when_matched_delete().execute()
    da.update(tmp_path, {"id": parse_expression("-1")}, "id = 199999")
    found = da.to_table(tmp_path)
    kept = [i for i in numbers if i >= 10 and i not in (70_000, 150_000)]
    assert found["id"].to_pylist() == [*kept[:-1], -1]
    assert found["s"].to_pylist() == [texts[i] for i in kept]


def test_rules_are_kept_by_dictionary_columns(tmp_path: Path, all_encoded: None) -> None:
    da.write(tmp_path, pa.table({"id": range(40), "t": ["ab", "abc"] * 20}))
    add_constraint(tmp_path, "short", "length(t) < 5", engine=da.check_rows)
    da.update(tmp_path, {"t": "concat(t, '!')"}, "id = 1")
    with pytest.raises(InvalidRequestError, match="t = 'abc!!'"):
        da.update(tmp_path, {"t": "concat(t, '!')"}, "id = 1")
    source = pa.table({"id": [2], "t": ["much too long"]})
    merge = da.merge(tmp_path, source, "target.id = source.id").when_matched_update_all()
    with pytest.raises(InvalidRequestError, match="much too long"):
        merge.execute()
    assert DeltaLog(tmp_path).snapshot().version == 2


@pytest.mark.parametrize("index", [pa.int8(), pa.uint32(), pa.int32()], ids=str)
@pytest.mark.parametrize("ordered", [False, True])
def test_categories_of_other_writers_are_plain_strings(
    tmp_path: Path, index: pa.DataType, ordered: bool
) -> None:
    """Their files request other dictionary types."""
    codes = pa.array([0, 1, 2, None, 0, 1] * 10, index)
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["lo", "mid", "hi"]), ordered=ordered)
    for name in ("a", "b"):
        pq.write_table(
            pa.table({"id": pa.array(range(60), pa.int64()), "t": texts}),
            tmp_path / f"{name}.parquet",
            row_group_size=20,
        )
    da.convert(tmp_path)
    da.delete(tmp_path, "t = 'lo'")
    da.update(tmp_path, {"t": "upper(t)"}, "id < 5")
    da.update(tmp_path, {"id": "id + 1"}, "id > 50")
    source = pa.table({"id": [1, 8], "t": ["new", None]})
    merge = da.merge(tmp_path, source, "target.id = source.id")
    merge.when_matched_update_all().execute()
    changed = {1: "new", 2: "HI", 8: None}
    ids = [i for i in range(60) if texts[i].as_py() != "lo"]
    left = [(i + (i > 50), changed.get(i, texts[i].as_py())) for i in ids] * 2
    found = [tuple(each.values()) for each in da.to_table(tmp_path).to_pylist()]
    assert sorted(found, key=str) == sorted(left, key=str)


@pytest.mark.full
def test_files_have_the_row_groups_that_they_have_with_plain_strings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also applies if the table's first file has distinct strings and no dictionary."""
    num_rows = 200_000
    few = pa.DictionaryArray.from_arrays(
        pa.array([i % 50 for i in range(num_rows)], pa.int32()),
        pa.array([f"{i:02}" * 500 for i in range(50)]),
    )
    differing = [f"{i * 2654435761 % 2**32:08x}" for i in range(20_000)]
    plain, encoded = tmp_path / "plain", tmp_path / "encoded"
    plain.mkdir()
    for name, texts in (("a", differing), ("b", few)):
        rows_of_file = pa.table({"id": pa.array(range(len(texts)), pa.int64()), "t": texts})
        pq.write_table(rows_of_file, plain / f"{name}.parquet", store_schema=False)
    da.convert(plain)
    shutil.copytree(plain, encoded)
    encoded_columns = count_encoded(monkeypatch)
    da.delete(encoded, "id % 1000 = 7")
    assert len(row_groups_of(encoded)) == len(encoded_columns) > 1  # 32 MB each after decoding
    assert {*encoded_columns} == {"t"}
    with monkeypatch.context() as patched:
        patched.setattr(file_rows, "repeated_texts", lambda *_: [])
        da.delete(plain, "id % 1000 = 7")
    assert row_groups_of(encoded) == row_groups_of(plain)


def row_groups_of(path: Path) -> list[int]:
    """How many rows all row groups have."""
    adds = DeltaLog(path).snapshot().add_files()
    footers = [pq.read_metadata(path / add.path) for add in adds]
    groups = [each.row_group(i) for each in footers for i in range(each.num_row_groups)]
    return sorted(group.num_rows for group in groups)


def test_more_strings_than_an_array_holds_are_taken_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_encoded: None
) -> None:
    da.write(tmp_path, pa.table({"id": range(100), "t": ["a", "b"] * 50}))
    monkeypatch.setattr(nesting, "fit_in_array", lambda values: len(values) <= 10)
    da.update(tmp_path, {"id": parse_expression("id + length(t)")}, "id % 7 = 0")
    found = da.to_table(tmp_path).to_pylist()
    assert found == [{"id": i + (i % 7 == 0), "t": "ab"[i % 2]} for i in range(100)]


def test_strings_stay_encoded_where_the_source_of_a_merge_has_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_encoded: None
) -> None:
    """A dictionary of many values would be one page of any size."""
    encoded_columns = count_encoded(monkeypatch)
    for number, (text, has_dictionary) in enumerate([("x", True), ("x" * 2**20, False)]):
        path = tmp_path / str(number)
        da.write(path, pa.table({"id": range(100), "t": ["a", "b"] * 50}))
        merge = da.merge(path, pa.table({"id": [3], "t": [text]}), "target.id = source.id")
        merge.when_matched_update_all().execute()
        assert bool(encoded_columns) is has_dictionary
        assert da.to_table(path, ["t"], col("id") == 3)["t"].to_pylist() == [text]
        encoded_columns.clear()
