"""Runs of an index: every value is found, and no damaged byte is believed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.errors import DeltaOpsError
from delta_ops.log.version.indexes.definitions import IndexDefinition, key_type
from delta_ops.log.version.indexes.run_file import OpenRun, RunFile, normalize, open_run
from delta_ops.log.version.indexes.run_writer import RunWriter
from delta_ops.log.version.indexes.wanted import (
    Range,
    choose_groups,
    estimate_shares,
    find_wanted,
    values_wanted_by,
)
from delta_ops.protocol.predicate import Comparison, In, IsNull
from delta_ops.protocol.predicate.nodes import Leaf
from delta_ops.protocol.schema import LONG, STRING, DataType
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.storage import Storage, open_storage
from delta_ops.storage.below import StorageBelow
from tests.protocol.test_predicate_properties import OPERATORS, TYPES, evaluate
from tests.protocol.typed_values import FEW

DEFINITION = IndexDefinition(name="x", id="an id", table_id="a table", column=("x",))
COVERED = pa.table({"path": ["a", "b", "c"], "size": [1, 2, 3], "modification_time": [10, 20, 30]})


def write_run(
    root: Path, values: Sequence[Sequence[Any]], data_type: DataType, name: str = "run"
) -> tuple[RunFile, Storage]:
    """A run with the values of each of the covered files."""
    stored = key_type(data_type)
    arrays = [normalize(pa.array(each, arrow_type_from_type(data_type)), stored) for each in values]
    numbers = np.repeat(np.arange(len(values), dtype=np.int32), [len(each) for each in values])
    writer = RunWriter(
        definition=DEFINITION,
        key_type=stored,
        covered=COVERED,
        values=pa.concat_arrays(arrays),
        files=pa.array(numbers),
    )
    storage = open_storage(root)
    file = storage.create_from_stream(name, writer.write)
    assert writer.tags is not None
    return RunFile.parse_add(name, file.size, 0, writer.tags), storage


def files_with(run: OpenRun, leaf: Any, data_type: DataType) -> set[int]:
    """The numbers of the files that hold a wanted value."""
    wanted = values_wanted_by(leaf, run.key_type)
    assert wanted is not None
    groups = np.flatnonzero(choose_groups(run.entries, wanted)).tolist()
    found: set[int] = set()
    for table in run.read_entries(groups):
        entries = table.combine_chunks()
        values = entries["value"].combine_chunks()
        found |= set(entries["file"].to_numpy()[find_wanted(values, run.key_type, wanted)].tolist())
    return found


def leaves_of(data_type: DataType) -> list[Leaf]:
    values = FEW[data_type]
    compared = [Comparison(("x",), op, v, data_type) for op in OPERATORS for v in values]
    lists = [In(("x",), (v, None), data_type) for v in values]
    pairs = [In(("x",), (v, values[-1]), data_type) for v in values]
    kept = [each for each in compared if each.operator != "!="]
    return [*kept, *lists, *pairs, In(("x",), (None,), data_type), IsNull(("x",), data_type)]


@pytest.mark.parametrize("data_type", dict.fromkeys(TYPES.values()), ids=lambda t: t.name)
def test_a_run_finds_the_files_of_each_value_of_each_type(
    tmp_path: Path, data_type: DataType
) -> None:
    values = FEW[data_type]
    of_files: list[list[Any]] = [[*values[::2], None], list(values[1::2]), list(values)]
    run, storage = write_run(tmp_path, of_files, data_type)
    opened = open_run(run, storage, DEFINITION, key_type(data_type))
    assert opened.read_coverage().equals(COVERED)
    for leaf in leaves_of(data_type):
        expected = {
            number
            for number, some in enumerate(of_files)
            if any(evaluate(leaf, {"x": value}) for value in some)
        }
        assert files_with(opened, leaf, data_type) == expected, leaf
        wanted = values_wanted_by(leaf, opened.key_type)
        if isinstance(wanted, Range):
            groups = opened.entries.filter(pa.array(choose_groups(opened.entries, wanted)))
            shares = estimate_shares(groups, wanted)
            assert len(shares) == len(groups)
            assert all(0 <= share <= 1 for share in shares), leaf


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(st.text(max_size=200), min_size=1, max_size=6), sought=st.text(max_size=200))
def test_long_texts_are_found_in_full(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], sought: str
) -> None:
    run, storage = write_run(tmp_path_factory.mktemp("run"), [texts, texts[:1], []], STRING)
    opened = open_run(run, storage, DEFINITION, STRING)
    for text in (sought, texts[0], texts[0] + "x" * 100):
        for operator in (each for each in OPERATORS if each != "!="):
            leaf = Comparison(("x",), operator, text, STRING)
            expected = {
                number
                for number, some in enumerate([texts, texts[:1]])
                if any(evaluate(leaf, {"x": each}) for each in some)
            }
            assert files_with(opened, leaf, STRING) == expected


def test_a_long_value_is_not_truncated(tmp_path: Path) -> None:
    long = "a" * 100_000
    run, storage = write_run(tmp_path, [[long + "b"], [long + "c"], [long]], STRING)
    opened = open_run(run, storage, DEFINITION, STRING)
    assert files_with(opened, Comparison(("x",), "==", long + "c", STRING), STRING) == {1}
    assert files_with(opened, Comparison(("x",), ">", long, STRING), STRING) == {0, 1}


def test_only_the_row_groups_that_can_hold_a_value_are_read(tmp_path: Path) -> None:
    values: list[list[Any]] = [list(range(300_000)), list(range(300_000, 600_000)), [None]]
    run, storage = write_run(tmp_path, values, LONG)
    opened = open_run(run, storage, DEFINITION, LONG)
    wanted = values_wanted_by(Comparison(("x",), "==", 450_000, LONG), LONG)
    assert wanted is not None
    groups = choose_groups(opened.entries, wanted)
    assert (len(groups), int(groups.sum())) == (11, 1)
    assert opened.bytes_of(groups) < run.file.size / 8
    assert files_with(opened, Comparison(("x",), "==", 450_000, LONG), LONG) == {1}
    assert files_with(opened, In(("x",), (1, 450_000), LONG), LONG) == {0, 1}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(11, id="some bytes"),
        pytest.param(1, id="every byte", marks=pytest.mark.full),
    ],
)
def test_a_damaged_byte_is_noticed_wherever_it_is(tmp_path: Path, step: int) -> None:
    run, storage = write_run(tmp_path, [[1, 2, None], [2, 3], [4]], LONG)
    leaf = Comparison(("x",), ">=", 3, LONG)
    place = tmp_path / "run"
    whole = place.read_bytes()
    noticed, positions = 0, range(4, len(whole), step)  # nothing depends on the first magic bytes
    for position in positions:
        damaged = bytearray(whole)
        damaged[position] ^= 0x41
        place.write_bytes(damaged)
        try:
            opened = open_run(run, storage, DEFINITION, LONG)
            coverage, files = opened.read_coverage(), files_with(opened, leaf, LONG)
            nulls = files_with(opened, IsNull(("x",), LONG), LONG)
        except (ValueError, OSError):
            noticed += 1
        else:
            assert (coverage, files, nulls) == (COVERED, {1, 2}, {0}), position
    assert noticed == len(positions)


@pytest.mark.parametrize("size", [0, 1, 8, 100])
def test_a_truncated_run_is_noticed(tmp_path: Path, size: int) -> None:
    run, storage = write_run(tmp_path, [[1], [2], [3]], LONG)
    (tmp_path / "run").write_bytes((tmp_path / "run").read_bytes()[:size])
    with pytest.raises((ValueError, DeltaOpsError)):
        open_run(run, storage, DEFINITION, LONG)


@pytest.mark.parametrize(
    "definition",
    [
        pytest.param(
            IndexDefinition(name="x", id="other", table_id="a table", column=("x",)),
            id="another index",
        ),
        pytest.param(
            IndexDefinition(name="x", id="an id", table_id="other", column=("x",)),
            id="another table",
        ),
        pytest.param(
            IndexDefinition(name="x", id="an id", table_id="a table", column=("y",)),
            id="another column",
        ),
    ],
)
def test_a_run_of_another_index_is_refused(tmp_path: Path, definition: IndexDefinition) -> None:
    run, storage = write_run(tmp_path, [[1], [2], [3]], LONG)
    with pytest.raises(ValueError, match="belongs to column x of type long"):
        open_run(run, storage, definition, LONG)
    with pytest.raises(ValueError, match="belongs to column x of type long"):
        open_run(run, storage, DEFINITION, STRING)


def test_a_storage_below_another_has_only_the_files_of_its_directory(tmp_path: Path) -> None:
    outer = open_storage(tmp_path)
    inner = StorageBelow(outer, "a/b")
    inner.create("c/file", b"12345")
    outer.create("a/other", b"")
    assert outer.read("a/b/c/file") == inner.read("c/file") == b"12345"
    assert [each.path for each in inner.list_tree("")] == ["c/file"]
    assert [each.path for each in inner.list_tree("", lambda paths: paths[:0])] == []
    assert [each.path for each in inner.list_from("c", "")] == ["c/file"]
    assert inner.list_directories("") == ["c"]
    assert (inner.is_directory("c"), inner.is_directory("b")) == (True, False)
    assert [each.path for each in inner.find(["c/file", "no"])] == ["c/file"]
    assert inner.stat("c/file").size == 5
    assert inner.read_ranges("c/file", [(1, 3)]) == [b"23"]
    assert inner.locate("c/file") == outer.locate("a/b/c/file")
    with pytest.raises(DeltaOpsError):
        inner.read("../../a/other")
    assert inner.delete_many(["c/file"]) == []
    inner.delete_empty(["c"], 2**60)
    assert inner.list_directories("") == []
    assert [each.path for each in outer.list_tree("")] == ["a/other"]
