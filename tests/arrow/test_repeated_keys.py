"""Merges with repeated keys in the source, in the table, or in both."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError

NUMBERS = st.sampled_from([None, 0, 1, 2])
TEXTS = st.sampled_from([None, "", "a", "b"])
FLOATS = st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5])
KEYS = {
    "a number": (st.tuples(NUMBERS), [pa.int64()]),
    "a text": (st.tuples(TEXTS), [pa.string()]),
    "a floating-point number": (st.tuples(FLOATS), [pa.float64()]),
    "a number and a text": (st.tuples(NUMBERS, TEXTS), [pa.int64(), pa.string()]),
    "a float and a number": (st.tuples(FLOATS, NUMBERS), [pa.float64(), pa.int64()]),
}
ARGUMENTS: dict[str, list[dict[str, str]]] = {"delete": [], "update": [{"v": "-1"}]}


def table_of(keys: list[tuple[Any, ...]], types: list[pa.DataType]) -> pa.Table:
    columns = [pa.array([key[i] for key in keys], each) for i, each in enumerate(types)]
    names = [*(f"k{i}" for i in range(len(types))), "v"]
    return pa.table([*columns, pa.arange(0, len(keys))], names=names)


def comparable(key: tuple[Any, ...]) -> tuple[str, ...] | None:
    """The key as SQL compares it; None for a key without matches."""
    if None in key:
        return None
    return tuple(str(each + 0.0 if isinstance(each, float) else each) for each in key)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("kind", "vectors", "num_examples"),
    [
        ("a number", "true", 15),
        ("a text", "false", 15),
        ("a floating-point number", "true", 15),
        ("a number and a text", "false", 15),
        ("a float and a number", "true", 15),
        pytest.param("a number", "false", 40, marks=pytest.mark.full),
        pytest.param("a text", "true", 40, marks=pytest.mark.full),
        pytest.param("a floating-point number", "false", 40, marks=pytest.mark.full),
        pytest.param("a number and a text", "true", 40, marks=pytest.mark.full),
        pytest.param("a float and a number", "false", 40, marks=pytest.mark.full),
    ],
)
def test_rows_match_the_same_changes_in_plain_python(
    kind: str, vectors: str, num_examples: int
) -> None:
    keys, types = KEYS[kind]
    condition = " AND ".join(f"target.k{i} = source.k{i}" for i in range(len(types)))

    @settings(max_examples=num_examples)
    @given(
        of_table=st.lists(keys, min_size=1, max_size=6),
        of_source=st.lists(keys, max_size=6),
        action=st.sampled_from(["delete", "update", None]),
        inserts=st.booleans(),
    )
    def merge(of_table: Any, of_source: Any, action: str | None, inserts: bool) -> None:
        if action is None and not inserts:
            return
        with tempfile.TemporaryDirectory() as folder:
            properties = {"delta.enableDeletionVectors": vectors}
            da.write(folder, table_of(of_table, types), configuration=properties)
            call = da.merge(folder, table_of(of_source, types), condition)
            if action is not None:
                call = getattr(call, f"when_matched_{action}")(*ARGUMENTS[action])
            if inserts:
                call = call.when_not_matched_insert_all()
            there = [comparable(each) for each in of_table]
            source_keys = [comparable(each) for each in of_source]
            met = {each for each in source_keys if each is not None and each in there}
            if action == "update" and any(source_keys.count(each) > 1 for each in met):
                with pytest.raises(InvalidRequestError, match=r"matches \d source rows"):
                    call.execute()
                return
            call.execute()
            left = []
            for place, (key, known) in enumerate(zip(of_table, there, strict=True)):
                if known not in met or action is None:
                    left.append((key, place))
                elif action == "update":
                    left.append((key, -1))
            if inserts:
                pairs = enumerate(zip(of_source, source_keys, strict=True))
                left += [(key, place) for place, (key, known) in pairs if known not in met]
            found = [tuple(row.values()) for row in da.to_table(folder).to_pylist()]
            assert sorted(map(str, found)) == sorted(str((*key, v)) for key, v in left)

    merge()


def test_conditions_decide_about_many_pairs(tmp_path: Path) -> None:
    """Four million, which is more than one pass handles."""
    table = pa.table({"k": [0] * 2_000, "v": range(2_000), "w": ["old"] * 2_000})
    source = pa.table({"k": [0] * 2_000, "v": range(1_000, 3_000), "w": ["new"] * 2_000})
    da.write(tmp_path, table)
    merge = da.merge(tmp_path, source, "target.k = source.k AND target.v = source.v")
    merge = merge.when_matched_update_all().when_not_matched_insert_all()
    merge.when_not_matched_by_source_delete().execute()
    assert da.to_table(tmp_path).sort_by("v").equals(source)
    later = da.merge(tmp_path, source, "target.k = source.k AND target.v <> source.v")
    with pytest.raises(InvalidRequestError, match="matches 1999 source rows"):
        later.when_matched_update_all().execute()


CHILD = """
import resource, sys
import pyarrow as pa
import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError

folder, key = sys.argv[1], {"number": 0, "text": "unknown", "nan": float("nan")}[sys.argv[2]]
rows = pa.table({"k": [key] * 10_000, "v": range(10_000)})
da.write(folder, rows)
if sys.platform == "linux":
    with open("/proc/self/statm") as statm:
        limit = int(statm.read().split()[0]) * resource.getpagesize() + (400 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
def merge(rows, condition="target.k = source.k"):
    return da.merge(folder, rows, condition)
assert merge(rows).when_not_matched_insert_all().execute().version is None
try:
    merge(rows).when_matched_update_all().execute()
    raise AssertionError("it was not refused")
except InvalidRequestError as error:
    assert "matches 10000 source rows" in str(error), error
below = merge(rows.slice(0, 4_000), "target.k = source.k AND target.v < source.v")
below.when_matched_delete().execute()
assert da.to_table(folder).num_rows == 6_001
merge(rows).when_matched_delete().execute()
assert da.to_table(folder).num_rows == 0
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "key",
    [
        "text",
        pytest.param("number", marks=pytest.mark.full),
        pytest.param("nan", marks=pytest.mark.full),
    ],
)
def test_memory_does_not_grow_with_the_pairs_of_rows(tmp_path: Path, key: str) -> None:
    """The row numbers of 40 million pairs take 600 MB, of 100 million pairs 1.5 GB."""
    call = [sys.executable, "-c", CHILD, str(tmp_path / "table"), key]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
