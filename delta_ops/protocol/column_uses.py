"""Column uses: parts of a table that depend on a column and prevent dropping or renaming it. Pure.

Source: PROTOCOL.md, "CHECK Constraints", "Column Invariants", "Generated Columns" and "Clustered
Table"; `metaData` names the partition columns.

A condition that our SQL parser cannot read is assumed to use every column that it names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import DomainMetadata
from delta_ops.protocol.columns.clustering import CLUSTERING
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.predicate import parse_predicate, resolve
from delta_ops.protocol.predicate.nodes import leaves_of
from delta_ops.protocol.row_rules import CONSTRAINTS, GENERATION_EXPRESSION, Invariant
from delta_ops.protocol.schema import (
    FLOAT,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructType,
    find_field,
    walk,
)
from delta_ops.protocol.table_definition import TableDefinition

_WORD = re.compile(r"`((?:[^`]|``)+)`|(\w+)")


def uses_in_expressions(definition: TableDefinition, path: ColumnPath) -> Iterator[str]:
    """Constraints, invariants and generated columns that use a column.

    Args:
        path: Spelled as in the schema.
    """
    schema = definition.schema
    for name, expression in definition.metadata.configuration.items():
        if name.lower().startswith(CONSTRAINTS) and _is_used(expression, path, schema):
            yield f"the constraint {name[len(CONSTRAINTS) :]} ({expression})"
    for rule in definition.row_rules:
        if isinstance(rule, Invariant) and _is_used(rule.expression or "", path, schema):
            yield f"{rule} ({rule.expression})"
    structs: list[tuple[ColumnPath, DataType]] = [((), schema), *walk(schema)]
    for parent, struct in structs:
        for field in struct.fields if isinstance(struct, StructType) else ():
            generation = field.metadata.get(GENERATION_EXPRESSION)
            is_itself = (*parent, field.name) == path
            if not isinstance(generation, str) or is_itself:
                continue
            if _is_used(generation, path, schema):
                yield f"the generated column {field.name} ({generation})"


def is_float_partition(definition: TableDefinition, path: ColumnPath) -> bool:
    """Whether a column is a FLOAT partition column, whose values are texts such as 0.1.

    As DOUBLE, such a text is a different number, while a value in a file stays the same.
    """
    is_partition = len(path) == 1 and path[0] in definition.partition_columns
    return is_partition and find_field(definition.schema, path[0]).data_type == FLOAT


def uses_in_clustering(
    definition: TableDefinition, path: ColumnPath, domains: Iterable[DomainMetadata]
) -> Iterator[str]:
    """Yield the clustering if it uses the column or one of its fields."""
    physical = _physical_path(definition, path)
    for domain in domains:
        if domain.domain != CLUSTERING or domain.removed:
            continue
        found = json.loads(domain.configuration).get("clusteringColumns", ())
        if any(tuple(each)[: len(physical)] == physical for each in found):
            yield "the clustering of the table"


def _physical_path(definition: TableDefinition, path: ColumnPath) -> ColumnPath:
    if not definition.is_mapped:
        return path
    names: list[str] = []
    data_type: DataType = definition.schema
    for part in path:
        match data_type:
            case StructType():
                field = find_field(data_type, part)
                data_type = field.data_type
                names.append(physical_name(field))
                continue
            case ArrayType(element_type=member) | MapType(key_type=member) if part in (
                "element",
                "key",
            ):
                data_type = member
            case MapType(value_type=member):
                data_type = member
        names.append(part)
    return tuple(names)


def _is_used(expression: str, path: ColumnPath, schema: StructType) -> bool:
    wanted = tuple(part.lower() for part in path)
    try:
        leaves = leaves_of(resolve(parse_predicate(expression), schema))
    except InvalidRequestError:
        words = {(quoted or word).lower() for quoted, word in _WORD.findall(expression)}
        return wanted[-1] in words
    read = (tuple(part.lower() for part in leaf.column) for leaf in leaves)
    return any(_is_within(each, wanted) or _is_within(wanted, each) for each in read)


def _is_within(path: ColumnPath, other: ColumnPath) -> bool:
    return path[: len(other)] == other
