"""Partition values of many files, in any map layout, and the files that a filter keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.log.version.pruning import match_files, values_of
from delta_ops.protocol.arrow_schemas import STRING_MAP
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructField, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.partition_values import serialize
from tests.protocol.test_predicate_files import Judged, judged_files
from tests.protocol.test_predicate_properties import (
    PARTITION_COLUMNS,
    SCHEMA,
    TYPES,
    evaluate,
    predicates,
)
from tests.support.tables import define

VALUES = st.none() | st.text(max_size=2)
UNIFORM = st.lists(st.sampled_from("pqr"), unique=True, min_size=1).flatmap(
    lambda names: st.lists(
        st.lists(VALUES, min_size=len(names), max_size=len(names)).map(
            lambda values: list(zip(names, values, strict=True))
        )
    )
)
ODD = st.lists(
    st.none() | st.dictionaries(st.sampled_from("pqr"), VALUES).map(lambda d: [*d.items()])
)


@given(UNIFORM | ODD, st.sampled_from("pqx"), st.integers(0, 3), st.integers(0, 3))
def test_values_are_found_as_one_by_one(
    rows: list[list[tuple[str, str | None]] | None], name: str, skipped: int, left_out: int
) -> None:
    maps = pa.array(rows, STRING_MAP).slice(skipped, max(len(rows) - skipped - left_out, 0))
    expected = [None if row is None else dict(row).get(name) for row in maps.to_pylist()]
    assert values_of(maps, name).to_pylist() == expected


NAMES = [field.name for field in SCHEMA.fields]
RENAMED = dict(zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True))
"""In files each column has another column's name."""


def mapped(schema: StructType) -> StructType:
    return StructType(tuple(_mapped(field) for field in schema.fields))


def _mapped(field: StructField) -> StructField:
    physical = RENAMED.get(field.name, f"col-{field.name}")
    inner = mapped(field.data_type) if isinstance(field.data_type, StructType) else field.data_type
    return replace(field, data_type=inner, metadata={"delta.columnMapping.physicalName": physical})


def by_physical_names(values: Any) -> Any:
    if not isinstance(values, dict):
        return values
    return {RENAMED.get(k, f"col-{k}"): by_physical_names(v) for k, v in values.items()}


def stats_of_mapped(text: str | None) -> str | None:
    try:
        parts = json.loads(text or "")
    except ValueError:
        return text
    return json.dumps(
        {k: by_physical_names(v) for k, v in parts.items()} if isinstance(parts, dict) else parts
    )


def adds_of(judged: Sequence[Judged], shape: TableDefinition) -> pa.Table:
    def named(values: Mapping[str, Any]) -> list[tuple[str, str | None]]:
        return [
            (RENAMED[name] if shape.is_mapped else name, serialize(value, TYPES[(name,)]))
            for name, value in values.items()
        ]

    stats = [stats_of_mapped(text) if shape.is_mapped else text for _, text in judged]
    return pa.table(
        {
            "number": pa.array(range(len(judged)), pa.int64()),
            "partitionValues": pa.array(
                [named(file.partition_values) for file, _ in judged], STRING_MAP
            ),
            "stats": pa.array(stats, pa.string()),
        }
    )


@settings(max_examples=80, deadline=None)
@given(predicates(), st.lists(judged_files(), max_size=4), st.booleans())
def test_no_file_that_holds_a_matching_row_is_left_out(
    predicate: Predicate, judged: list[Judged], is_mapped: bool
) -> None:
    mode = "name" if is_mapped else "none"
    schema = mapped(SCHEMA) if is_mapped else SCHEMA
    shape = define(schema, PARTITION_COLUMNS, **{"columnMapping.mode": mode})
    kept = match_files(adds_of(judged, shape), predicate, shape, "/t")["number"].to_pylist()
    for number, (file, _) in enumerate(judged):
        # The log has no empty text: as a partition value it is null.
        rows = [{**row, "p": row["p"] or None} for row in file.rows]
        matches = any(evaluate(predicate, row) for row in rows)
        assert number in kept or not matches
