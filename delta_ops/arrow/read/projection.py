"""Projection: the requested columns as a part of the table's schema.

A name is a column's name or, with dots, the path to a field of nested structs: `a.b` keeps only the
field `b` of the struct `a`. See `protocol.schema.column_names`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from delta_ops.arrow.nesting import Rules, plan_fields
from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.predicate import Predicate, resolve, to_arrow
from delta_ops.protocol.predicate import columns as predicate_columns
from delta_ops.protocol.schema import ColumnPath, StructField, StructType, find_field
from delta_ops.protocol.schema.column_names import path_of_name


def project(schema: StructType, names: Sequence[str] | None) -> StructType:
    """Return the named columns, in the order of their first mention; None means all.

    Raises:
        InvalidRequestError: A column does not exist, or is named twice.
    """
    if names is None:
        return schema
    if isinstance(names, str):
        raise InvalidRequestError(
            f"{option('columns')} must be a list of names; write {option('columns', [names])}"
        )
    found: dict[str, StructField] = {}
    parts: set[StructField] = set()
    for name in names:
        part = _part(schema, name)
        if part in parts:
            raise InvalidRequestError(f"Column {name} is selected twice; name it once.")
        parts.add(part)
        known = found.get(part.name)
        whole = find_field(schema, part.name)
        found[part.name] = part if known is None else _unite_fields(whole, known, part)
    return StructType(tuple(found.values()))


def select(schema: StructType, names: Sequence[str]) -> StructType:
    """Return the columns with these names; paths to nested fields are not supported."""
    return StructType(tuple(find_field(schema, name) for name in names))


def unite(schema: StructType, parts: Iterable[StructType]) -> StructType:
    """Return the union of some parts of a schema, in the schema's order."""
    found: dict[str, StructField] = {}
    for part in parts:
        for each in part.fields:
            known = found.get(each.name)
            whole = find_field(schema, each.name)
            found[each.name] = each if known is None else _unite_fields(whole, known, each)
    return StructType(tuple(found[each.name] for each in schema.fields if each.name in found))


def drop_columns(schema: StructType, columns: Iterable[StructField]) -> StructType:
    """Return the schema without some columns."""
    names = {each.name for each in columns}
    return StructType(tuple(each for each in schema.fields if each.name not in names))


def plan_selection(
    source: pa.Schema, wanted: pa.Schema
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Plan how to reduce batches to the wanted columns and struct fields."""
    if source == wanted:
        return lambda batch: batch
    if not wanted:
        return lambda batch: batch.select([])  # from_arrays would lose the row count
    select = plan_fields(list(source), list(wanted), "", _SAME)
    return lambda batch: pa.RecordBatch.from_arrays(
        select(batch.columns, len(batch)), schema=wanted
    )


def _part(schema: StructType, name: str) -> StructField:
    return _part_of_path(schema, path_of_name(name, schema), name)


def _part_of_path(schema: StructType, path: ColumnPath, name: str) -> StructField:
    field = find_field(schema, path[0])
    if len(path) == 1:
        return field
    inner, rest = field.data_type, path[1:]
    if not isinstance(inner, StructType):
        raise InvalidRequestError(
            f"There is no column {name}: {field.name} is {inner.name}, which has no fields."
        )
    whole = ".".join(rest)  # a field's name may itself contain dots
    known = inner.fields_by_lower_name
    is_whole = rest[0].lower() not in known and whole.lower() in known
    part = find_field(inner, whole) if is_whole else _part_of_path(inner, rest, name)
    return replace(field, data_type=StructType((part,)))


def _unite_fields(whole: StructField, one: StructField, other: StructField) -> StructField:
    if not isinstance(whole.data_type, StructType) or whole in (one, other):
        return whole
    assert isinstance(one.data_type, StructType)
    assert isinstance(other.data_type, StructType)
    return replace(whole, data_type=unite(whole.data_type, (one.data_type, other.data_type)))


_SAME = Rules(
    leaf=lambda _source, _target, _path: lambda array: array,
    validate_names=lambda _source, _wanted, _path: None,
)


def plan_condition(
    schema: StructType, wanted: StructType, predicate: Predicate | None
) -> tuple[StructType, Any]:
    """Return the columns to read, and the predicate as an Arrow expression.

    The columns are the wanted columns and the columns of the predicate.

    Raises:
        InvalidRequestError: The predicate does not fit the schema.
    """
    if predicate is None:
        return unite(schema, [wanted]), None
    resolved = resolve(predicate, schema)
    in_condition = select(schema, sorted(predicate_columns(resolved)))
    return unite(schema, [wanted, in_condition]), to_arrow(resolved, schema)
