"""Resolution: assign types to an expression's nodes from a table's columns.

Each implicit cast of Spark becomes a `Cast`, so that an engine gets operands of matching types in
each call. Unsupported parts are rejected by name before any row is read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.expression.coercion import (
    FLOATS,
    INTEGERS,
    common_type,
    decimal_of,
    is_numeric,
    result_type,
)
from delta_ops.protocol.expression.nodes import Call, Case, Cast, Column, Literal, Node, Struct
from delta_ops.protocol.expression.time_functions import is_known_pattern
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ColumnPath,
    DataType,
    DecimalType,
    StructField,
    StructType,
    collation,
    find_field,
)
from delta_ops.protocol.schema.char_types import char_length
from delta_ops.protocol.schema.column_names import find_head, refuse_quoted_name
from delta_ops.protocol.values.literals import QuotedText, SqlText, literal_of_type

_ORDERED = (STRING, BINARY, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ)
_TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
_DATE_UNITS = {
    "YEAR": "year",
    "YYYY": "year",
    "YY": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "MM": "month",
    "MON": "month",
    "WEEK": "week",
}
"""Units of `trunc`, by Spark's names."""
_TIME_UNITS = {
    **_DATE_UNITS,
    "DAY": "day",
    "DD": "day",
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
}
"""Units of `date_trunc`."""
_ON_DECIMALS: Mapping[str, Callable[..., Decimal]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "negate": operator.neg,
    "abs": abs,
}
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", "<=>"})


class Found(NamedTuple):
    """The column or field that a name refers to."""

    path: ColumnPath
    """Spelled as in the schema."""
    data_type: DataType
    is_plain: bool
    """False for texts that do not compare by their bytes."""
    char_length: int | None = None
    """Length of a CHAR column, whose values readers see padded; None for other types."""


Find = Callable[[ColumnPath], Found]
"""Finds a column or field by its path, ignoring case."""


def finder_of(schema: StructType) -> Find:
    """A function that finds columns of a table."""
    return lambda path: locate(path, schema)


def locate(path: ColumnPath, schema: StructType) -> Found:
    """Find a column of a schema, or a field of a struct column.

    Raises:
        UnknownColumnError: There is no such column.
    """
    column = find_head(schema, path)
    spelled: ColumnPath = (column.name,)
    found = column
    for name in path[1:]:
        if not isinstance(found.data_type, StructType):
            raise UnknownColumnError(
                f"Column {'.'.join(spelled)} is of type {found.data_type.name} and has no field "
                f"{name}."
            )
        found = find_field(found.data_type, name)
        spelled = (*spelled, found.name)
    length = char_length(spelled, column)
    is_plain = collation(found) is None and length is None
    return Found(spelled, found.data_type, is_plain, length)


def resolve_expression(node: Node, find: Find) -> Node:
    """Assign a type to every node; a column alone, or in a struct, may have any type.

    Raises:
        InvalidRequestError: A column does not exist, or Spark would need an unsupported type.
    """
    if isinstance(node, Column):
        found = find(node.path)
        column = Column(found.path, found.data_type)
        if found.char_length is None:
            return column
        return Call("pad", (column, Literal(found.char_length, INTEGER)), found.data_type)
    if isinstance(node, Struct):
        members = tuple((name, resolve_expression(each, find)) for name, each in node.fields)
        fields = tuple(StructField(name, type_of(each)) for name, each in members)
        return Struct(members, StructType(fields))
    return _resolve(node, find)


def resolve_condition(node: Node, find: Find) -> Node:
    """Resolve a condition.

    Raises:
        InvalidRequestError: As `resolve_expression`, or the result is not a boolean.
    """
    return _condition(_resolve(node, find))


def type_of(node: Node) -> DataType:
    """The type of a resolved node."""
    assert node.data_type is not None, f"{node} is not resolved"
    return node.data_type


def _resolve(node: Node, find: Find) -> Node:
    match node:
        case Column(path):
            found = find(path)
            if not found.is_plain:
                raise _refusal(
                    f"column {'.'.join(path)} is a CHAR or has a collation, which is not supported"
                )
            return Column(found.path, found.data_type)
        case Literal(value):
            if isinstance(value, QuotedText):
                refuse_quoted_name(value, find)
            return node
        case Cast(operand, data_type):
            return _cast(_resolve(operand, find), data_type)
        case Case(branches, otherwise):
            return _case(
                [(_condition(_resolve(c, find)), _resolve(v, find)) for c, v in branches],
                _resolve(otherwise, find),
            )
        case Call(name, operands):
            return _call(name, [_resolve(each, find) for each in operands])
        case Struct():
            return resolve_expression(node, find)


def _call(name: str, operands: Sequence[Node]) -> Node:
    types = [type_of(each) for each in operands]
    if name in ("and", "or", "not"):
        return Call(name, tuple(map(_condition, operands)), BOOLEAN)
    if name in _COMPARISONS:
        return Call(name, _sides(name, *operands), BOOLEAN)
    match name:
        case "is null":
            return Call(name, tuple(operands), BOOLEAN)
        case "+" | "-" | "*":
            return _arithmetic(name, *operands)
        case "/":
            operands = _convert_decimals(operands)
            types = [type_of(each) for each in operands]
            _require(name, types, lambda t: t in INTEGERS or t in FLOATS or t == VOID)
            return Call(name, tuple(_coerce(each, DOUBLE) for each in operands), DOUBLE)
        case "%" | "div":
            _require(name, types, lambda t: t in INTEGERS or t == VOID)
            wide = LONG if name == "div" else common_type(types) or LONG
            wide = INTEGER if wide == VOID else wide
            return Call(name, tuple(_coerce(each, wide) for each in operands), wide)
        case "negate" | "abs":
            _require(name, types, is_numeric)
            return _fold(Call(name, tuple(operands), types[0]))
    return _function(name, operands, types)


def _function(name: str, operands: Sequence[Node], types: Sequence[DataType]) -> Node:
    match name:
        case "coalesce":
            operands = _convert_decimals(operands)
            together = _together(name, [type_of(each) for each in operands])
            return Call(name, tuple(_coerce(each, together) for each in operands), together)
        case "concat":
            _require(name, types, lambda t: _has_text(t) or t == VOID)
            return Call(name, tuple(_coerce(each, STRING) for each in operands), STRING)
        case "upper" | "lower" | "trim" | "length":
            _require(name, types, lambda t: t in (STRING, VOID))
            result = INTEGER if name == "length" else STRING
            return Call(name, (_coerce(operands[0], STRING),), result)
        case "substring":
            return _substring(operands, types)
        case "date":
            _require(name, types, lambda t: t in _TIMES)
            return operands[0] if types[0] == DATE else Call(name, tuple(operands), DATE)
        case "year" | "month" | "day":
            return Call(name, (_call("date", operands),), INTEGER)
        case "hour" | "minute" | "second":
            _require(name, types, lambda t: t in (TIMESTAMP, TIMESTAMP_NTZ))
            return Call(name, tuple(operands), INTEGER)
        case "date_trunc" | "trunc":
            return _truncation(name, *operands)
        case "date_format":
            return _formatting(*operands)
        case "current_timestamp" | "current_date":
            raise _refusal(
                f"{name}() is not allowed here, because the value must depend on the row alone"
            )
        case "date_add":
            day, days = _call("date", operands[:1]), operands[1]
            _require(name, types[1:], lambda t: t in INTEGERS[:3])
            return Call(name, (day, _coerce(days, INTEGER)), DATE)
        case "datediff":
            return Call(name, tuple(_call("date", [each]) for each in operands), INTEGER)
    raise AssertionError(name)


def _truncation(name: str, times: Node, unit: Node) -> Node:
    is_date = name == "trunc"
    _require(name, [type_of(times)], lambda t: t == (DATE if is_date else TIMESTAMP))
    assert isinstance(unit, Literal)
    known = _DATE_UNITS if is_date else _TIME_UNITS
    found = known.get(str(unit.value).upper())
    if found is None:
        raise _refusal(f"the unit {unit.value!r} of {name} is not supported")
    return Call(name, (times, Literal(found, STRING)), type_of(times))


def _formatting(times: Node, pattern: Node) -> Node:
    _require("date_format", [type_of(times)], lambda t: t in _TIMES)
    assert isinstance(pattern, Literal)
    if not is_known_pattern(pattern.value):
        raise _refusal(f"the pattern {pattern.value!r} of date_format is not supported")
    return Call("date_format", (times, pattern), STRING)


def _convert_decimals(nodes: Sequence[Node]) -> Sequence[Node]:
    """Convert decimal literals to DOUBLE if another operand is FLOAT or DOUBLE.

    Source: Spark's `DecimalPrecisionTypeCoercion`. Java and Python both round to the nearest
    double.
    """
    if not any(type_of(each) in FLOATS for each in nodes):
        return nodes
    return [
        Literal(None if each.value is None else float(each.value), DOUBLE)
        if isinstance(each, Literal) and isinstance(each.data_type, DecimalType)
        else each
        for each in nodes
    ]


def _fold(call: Call) -> Node:
    """Compute an operation on decimal literals, such as `1 - 0.1`, as one literal."""
    values = [each.value for each in call.operands if isinstance(each, Literal)]
    is_known = len(values) == len(call.operands) and None not in values
    if not is_known or not isinstance(call.data_type, DecimalType):
        return call
    with localcontext(prec=2 * MAX_DECIMAL_PRECISION):
        return Literal(_ON_DECIMALS[call.name](*map(Decimal, values)), call.data_type)


def _arithmetic(name: str, left: Node, right: Node) -> Node:
    left, right = _convert_decimals([left, right])
    types = [type_of(left), type_of(right)]
    _require(name, types, lambda t: is_numeric(t) or t == VOID)
    if VOID in types:
        together = next((t for t in types if t != VOID), INTEGER)
        return Cast(Literal(None, VOID), together)
    if any(isinstance(t, DecimalType) for t in types) and not any(t in FLOATS for t in types):
        # Spark converts an integer literal to a decimal with exactly its digits.
        left, right = (_coerce(each, _exact_type(each)) for each in (left, right))
    result = result_type(name, type_of(left), type_of(right))
    if result is None:
        raise _refusal(f"{types[0].name} {name} {types[1].name} would be rounded by Spark")
    if not isinstance(result, DecimalType):
        left, right = _coerce(left, result), _coerce(right, result)
    return _fold(Call(name, (left, right), result))


def _exact_type(node: Node) -> DecimalType:
    if isinstance(node, Literal) and isinstance(node.value, int):
        return DecimalType(len(str(abs(node.value))), 0)
    return decimal_of(type_of(node))


def _sides(name: str, left: Node, right: Node) -> tuple[Node, Node]:
    """Convert both sides of a comparison to one type."""
    left, right = _coerce_text(left, right), _coerce_text(right, left)
    left, right = _convert_decimals([left, right])
    types = [type_of(left), type_of(right)]
    together = common_type(types)
    is_comparable = together is not None and (
        is_numeric(together) or together in _ORDERED or together == VOID
    )
    if together is None or not is_comparable:
        raise _refusal(f"{types[0].name} {name} {types[1].name} is not supported")
    return _coerce(left, together), _coerce(right, together)


def _coerce_text(node: Node, other: Node) -> Node:
    """Convert a literal text to the type of the other operand, as Spark does."""
    data_type = type_of(other)
    if not isinstance(node, Literal) or not isinstance(node.value, SqlText):
        return node
    if data_type in (STRING, VOID) or not (is_numeric(data_type) or data_type in _ORDERED):
        return node
    column = ".".join(other.path) if isinstance(other, Column) else None
    return Literal(literal_of_type(node.value, data_type, column=column), data_type)


def _case(branches: Sequence[tuple[Node, Node]], otherwise: Node) -> Node:
    values = _convert_decimals([*(value for _, value in branches), otherwise])
    together = _together("case", [type_of(each) for each in values])
    *chosen, default = (_coerce(each, together) for each in values)
    conditions = (condition for condition, _ in branches)
    return Case(tuple(zip(conditions, chosen, strict=True)), default, together)


def _together(name: str, types: Sequence[DataType]) -> DataType:
    together = common_type(types)
    if together is None:
        listed = ", ".join(dict.fromkeys(each.name for each in types))
        raise _refusal(f"{name} of {listed} has values of different types; cast them to one type")
    return together


def _substring(operands: Sequence[Node], types: Sequence[DataType]) -> Node:
    _require("substring", types[:1], lambda t: t == STRING)
    numbers = operands[1:]
    if not all(isinstance(each, Literal) and type_of(each) == INTEGER for each in numbers):
        raise _refusal("the positions of substring must be whole number literals")
    return Call("substring", tuple(operands), STRING)


def _condition(node: Node) -> Node:
    found = type_of(node)
    if found not in (BOOLEAN, VOID):
        raise InvalidRequestError(f"A condition is of type {found.name}; compare it with a value.")
    return _coerce(node, BOOLEAN)


def _cast(node: Node, data_type: DataType) -> Node:
    source = type_of(node)
    if source in (data_type, VOID):
        return _coerce(node, data_type)
    if not _can_cast(source, data_type):
        raise _refusal(f"the cast of {source.name} to {data_type.name} is not supported")
    return Cast(node, data_type, is_exact=True)


def _can_cast(source: DataType, wanted: DataType) -> bool:
    if source in INTEGERS:
        return is_numeric(wanted) or wanted == STRING
    if isinstance(source, DecimalType):
        is_decimal = isinstance(wanted, DecimalType) and wanted.scale >= source.scale
        return is_decimal or (wanted in INTEGERS and source.scale == 0)
    if source in FLOATS:
        return wanted in FLOATS
    if source == STRING:
        return wanted in INTEGERS or wanted == DATE
    if source == DATE:
        return wanted in (STRING, TIMESTAMP, TIMESTAMP_NTZ)
    if source in _TIMES:
        return wanted == DATE
    return source == BOOLEAN and wanted == STRING


def _has_text(data_type: DataType) -> bool:
    return data_type == STRING or _can_cast(data_type, STRING)


def _coerce(node: Node, data_type: DataType) -> Node:
    """Convert a value to a type by an implicit cast of Spark."""
    if type_of(node) == data_type:
        return node
    if isinstance(node, Literal) and isinstance(data_type, DecimalType):
        return Literal(Decimal(node.value) if node.value is not None else None, data_type)
    return Cast(node, data_type)


def _require(name: str, types: Sequence[DataType], fits: Callable[[DataType], bool]) -> None:
    for each in types:
        if not fits(each):
            raise _refusal(f"{name} of a value of type {each.name} is not supported")


def _refusal(reason: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"In an expression, {reason}; docs/expressions.md lists what is supported, and all else "
        "needs the Spark engine."
    )
