"""Resolution: what the names and literals of a predicate stand for in a schema."""

from __future__ import annotations

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.literals import is_comparable, literal_of_type
from delta_ops.protocol.predicate.nodes import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Leaf,
    Not,
    Or,
    Predicate,
    leaves_of,
)
from delta_ops.protocol.schema import DataType, StructField, StructType, collation, find_field
from delta_ops.protocol.stats import ColumnPath


def resolve(predicate: Predicate, schema: StructType) -> Predicate:
    """The same predicate with names as the schema spells them and literals of the columns' types.

    Resolving again changes nothing.

    Raises:
        InvalidRequestError: There is no such column, it cannot be compared, or a literal does not
            fit its type; or what was given is no predicate.
    """
    match predicate:
        case Comparison(column, operator, value):
            path, data_type = _comparable(column, schema)
            return Comparison(path, operator, _literal(value, path, data_type), data_type)
        case In(column, values):
            path, data_type = _comparable(column, schema)
            literals = (None if v is None else _literal(v, path, data_type) for v in values)
            return In(path, tuple(literals), data_type)
        case IsNull(column):
            path, found = _locate(column, schema)
            return IsNull(path, found.data_type)
        case And(operands):
            return And(tuple(resolve(each, schema) for each in operands))
        case Or(operands):
            return Or(tuple(resolve(each, schema) for each in operands))
        case Not(operand):
            return Not(resolve(operand, schema))
        case Always():
            return predicate
    raise InvalidRequestError(
        f"{predicate!r} is no predicate: compare a column, as in col('id') == 5, or read a "
        "condition of SQL with parse_predicate."
    )


def columns(predicate: Predicate) -> frozenset[str]:
    """The top-level columns that the predicate needs, spelled as in it."""
    return frozenset(leaf.column[0] for leaf in leaves_of(predicate))


def resolved_type(leaf: Leaf) -> DataType:
    """The type of the column that a leaf of a resolved predicate looks at."""
    assert leaf.data_type is not None, f"{leaf} is not resolved"
    return leaf.data_type


def _comparable(column: ColumnPath, schema: StructType) -> tuple[ColumnPath, DataType]:
    path, found = _locate(column, schema)
    if not is_comparable(found.data_type):
        raise InvalidRequestError(
            f"Column {'.'.join(path)} of type {found.data_type.name} cannot be compared with a "
            "value; compare a field of it, or test it for null."
        )
    if (name := collation(found)) is not None:
        # By bytes rows would be missed that are equal by the collation; so would files.
        raise InvalidRequestError(
            f"Column {'.'.join(path)} has the collation {name}, by which we cannot compare: read "
            "without this predicate and filter the rows, or test the column for null."
        )
    return path, found.data_type


def _locate(column: ColumnPath, schema: StructType) -> tuple[ColumnPath, StructField]:
    found = find_field(schema, column[0])
    if len(column) == 1:
        return (found.name,), found
    if not isinstance(found.data_type, StructType):
        raise InvalidRequestError(
            f"Column {found.name} is of type {found.data_type.name} and has no field {column[1]}."
        )
    path, field = _locate(column[1:], found.data_type)
    return (found.name, *path), field


def _literal(value: object, path: ColumnPath, data_type: DataType) -> object:
    return literal_of_type(value, data_type, column=".".join(path))
