"""Many files at once are judged as one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.protocol.predicate import (
    Comparison,
    IsNull,
    Not,
    Predicate,
    might_match,
    resolve,
)
from delta_ops.protocol.predicate_batches import PartitionColumn, Verdict, might_match_each
from delta_ops.protocol.stats import parse_stats
from tests.protocol.test_predicate_properties import (
    PARTITION_COLUMNS,
    SCHEMA,
    TYPES,
    File,
    every_leaf,
    files,
    predicates,
    row_with,
)
from tests.protocol.typed_values import FEW

Judged = tuple[File, str | None]
SLOW = {("flag",), ("bin",), ("dec",), ("exact",), ("big",)}
"""Columns of types that are judged one by one."""


def at_once(predicate: Predicate, judged: Sequence[Judged]) -> Verdict:
    partitions = {
        name: PartitionColumn(
            codes=pa.array(range(len(judged))),
            values=[file.partition_values[name] for file, _ in judged],
        )
        for name in PARTITION_COLUMNS
    }
    return might_match_each(predicate, partitions, pa.array([t for _, t in judged], pa.string()))


def one_by_one(predicate: Predicate, judged: Sequence[Judged]) -> list[bool]:
    return [
        might_match(
            predicate,
            partition_values=file.partition_values,
            stats=parse_stats(text),
            schema=SCHEMA,
        )
        for file, text in judged
    ]


def check(predicate: Predicate, judged: Sequence[Judged]) -> bool:
    verdict = at_once(predicate, judged)
    kept, expected = verdict.keep.to_pylist(), one_by_one(predicate, judged)
    if verdict.is_final:
        assert kept == expected
    assert all(k or not e for k, e in zip(kept, expected, strict=True))
    return verdict.is_final


@pytest.mark.parametrize("path", TYPES, ids=".".join)
def test_simple_predicates_are_judged_alike(path: tuple[str, ...]) -> None:
    judged: list[Judged] = [(File([row_with(path, None)]), None)]
    for low in (None, *FEW[TYPES[path]]):
        for high in (None, *FEW[TYPES[path]]):
            file = File([row_with(path, low), row_with(path, high)])
            judged += [(file, file.our_json(3, 2)), (file, file.loosest_json(3))]
    leaves = [resolve(leaf, SCHEMA) for leaf in every_leaf(path)]
    finals = [check(predicate, judged) for leaf in leaves for predicate in (leaf, Not(leaf))]
    assert any(finals)
    assert path in SLOW or sum(finals) >= 0.7 * len(finals)


texts = st.tuples(files, st.sampled_from(["ours", "loosest", "none", "odd", "lines"]))


def judged_of(file: File, kind: str) -> Judged:
    match kind:
        case "ours":
            return file, file.our_json(3, 2)
        case "loosest":
            return file, file.loosest_json(2)
        case "odd":
            return file, '{"numRecords":"1","minValues":{"n":"x","day":5}}'
        case "lines":
            return file, file.our_json(3, 2).replace(",", ",\n", 1)
    return file, None


@settings(max_examples=300, deadline=None)
@given(predicates(), st.lists(texts, max_size=5))
def test_predicates_are_judged_alike(predicate: Predicate, drawn: list[tuple[File, str]]) -> None:
    check(resolve(predicate, SCHEMA), [judged_of(*each) for each in drawn])


def test_parts_that_are_judged_in_different_ways_go_together() -> None:
    file = File([row_with(("st", "x"), None)])
    for both in (
        IsNull(("flag",)) & Comparison(("flag",), "==", False),
        IsNull(("st",)) & IsNull(("st", "x")),
        IsNull(("st", "x")) | IsNull(("st",)),
        ~IsNull(("st",)) & Comparison(("st", "x"), "==", 1),
    ):
        check(resolve(both, SCHEMA), [(file, file.our_json(3, 2)), (file, file.loosest_json(3))])


@pytest.mark.parametrize(
    ("column", "bound", "literal"),
    [
        pytest.param("day", "yesterday", "2026-01-31", id="a date that is none"),
        pytest.param("ts", "2026-01-31T00:00:00", "2026-01-31", id="an instant without a zone"),
        pytest.param("ntz", "2026-01-31T00:00:00Z", "2026-01-31", id="a local time with a zone"),
    ],
)
def test_a_bound_that_is_none_of_its_type_leaves_out_no_file(
    column: str, bound: str, literal: str
) -> None:
    bounds = f'{{"{column}":"{bound}"}}'
    text = f'{{"numRecords":1,"minValues":{bounds},"maxValues":{bounds},"nullCount":{{}}}}'
    file = File([row_with((column,), None)])
    predicate = resolve(Comparison((column,), ">", literal), SCHEMA)
    assert not check(predicate, [(file, text), (file, file.our_json(3, 2))])
    assert at_once(predicate, [(file, text)]).keep.to_pylist() == [True]
