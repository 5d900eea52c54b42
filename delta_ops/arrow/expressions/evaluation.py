"""Evaluate SQL expressions over Arrow columns.

Results are the same as in Spark in ANSI mode and UTC: three-valued logic; NaN equals NaN and is
greater than all numbers; an overflow or a division by zero is an error. Spark evaluates some parts,
such as the branches of CASE, only for some rows; so does this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.dictionary_columns import decode
from delta_ops.arrow.expressions.functions import (
    format_time,
    lower,
    pad,
    substring,
    time_of_day,
    trim,
    truncate,
    upper,
)
from delta_ops.arrow.nesting import decimal_to_decimal, integer_to_decimal
from delta_ops.error_texts import first_line
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.arrow_values import FALSE_SCALAR, TRUE_SCALAR, repeat, scalar
from delta_ops.protocol.expression.coercion import FLOATS, INTEGERS
from delta_ops.protocol.expression.nodes import Call, Case, Cast, Column, Literal, Node, Struct
from delta_ops.protocol.expression.resolution import type_of
from delta_ops.protocol.schema import DATE, STRING, VOID, ColumnPath, DataType, DecimalType
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type

_INTEGER_TEXT = r"^[ \t\r\n]*[+-]?[0-9]+[ \t\r\n]*$"
_DATE_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows to evaluate an expression on."""

    column: Callable[[ColumnPath], pa.Array]
    """Returns the values of a column or field, for all rows."""
    num_rows: int
    only: pa.Array | None = None
    """Ascending numbers of the selected rows; None means all."""

    def __len__(self) -> int:
        return self.num_rows if self.only is None else len(self.only)

    def values(self, path: ColumnPath) -> pa.Array:
        """Return the values of a column in the selected rows."""
        found = self.column(path)
        return decode(found if self.only is None else found.take(self.only))

    def narrow(self, mask: pa.BooleanArray) -> Rows:
        """Return the rows where the mask is true."""
        places = pc.indices_nonzero(pc.fill_null(mask, FALSE_SCALAR))
        return Rows(
            self.column, self.num_rows, places if self.only is None else self.only.take(places)
        )


def rows_of_batch(batch: pa.RecordBatch) -> Rows:
    """Return the rows of a batch; paths start with a column's name."""
    return Rows(lambda path: field_of(batch.column(path[0]), path[1:]), len(batch))


def field_of(array: Any, path: ColumnPath) -> pa.Array:
    """Return the values of a nested struct field; null where a struct is null."""
    for name in path:
        place = array.type.get_field_index(name)
        array = array.flatten()[place]
    return array


def evaluate(node: Node, rows: Rows) -> pa.Array:
    """Evaluate a resolved expression; the result has the Arrow type of the expression's type.

    Raises:
        InvalidRequestError: A value overflows, cannot be cast or is divided by zero.
    """
    try:
        return _evaluate(node, rows)
    except pa.ArrowCapacityError as error:
        raise InvalidRequestError(
            f"The values of an expression are too large ({first_line(error)}); use shorter texts, "
            "or the Spark engine"
        ) from error
    except pa.ArrowException as error:
        reason = first_line(error)
        raise InvalidRequestError(
            f"An expression has no value for some row ({reason}), which is an error in ANSI SQL; "
            "exclude such rows, or cast to a wider type first"
        ) from error


def evaluate_condition(node: Node, rows: Rows) -> pa.BooleanArray:
    """Evaluate a resolved condition; null becomes false.

    Raises:
        InvalidRequestError: As `evaluate`.
    """
    return pc.fill_null(evaluate(node, rows), FALSE_SCALAR)


def _evaluate(node: Node, rows: Rows) -> Any:
    match node:
        case Column(path):
            return rows.values(path)
        case Literal(value, data_type):
            return repeat(scalar(value, _arrow_type(data_type)), len(rows))
        case Cast(operand, data_type, is_exact):
            return _cast(_evaluate(operand, rows), type_of(operand), data_type, is_exact)
        case Case(branches, otherwise):
            return _choose(node, branches, otherwise, rows)
        case Call("and" | "or" as name, operands):
            return _connect(name, operands, rows)
        case Call("coalesce", operands):
            return _first_value(operands, rows)
        case Call(name, operands):
            return _CALLS[name](*(_evaluate(each, rows) for each in operands))
        case Struct(fields):
            values = [_evaluate(each, rows) for _, each in fields]
            return pa.StructArray.from_arrays(values, names=[name for name, _ in fields])


def _arrow_type(data_type: DataType | None) -> pa.DataType:
    return pa.null() if data_type in (None, VOID) else arrow_type_from_type(data_type)


def scatter(values: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """Put one value at each true place of the mask; null elsewhere."""
    numbers = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), scalar(1))
    return values.take(pc.if_else(mask, numbers, scalar(None, pa.int64())))


def _on_rows(node: Node, rows: Rows, mask: pa.BooleanArray) -> pa.Array:
    """Evaluate only the rows where the mask is true; null elsewhere."""
    if pc.all(mask, min_count=0).as_py():
        return _evaluate(node, rows)
    if not pc.any(mask, min_count=0).as_py():
        return pa.nulls(len(rows), _arrow_type(type_of(node)))
    return scatter(_evaluate(node, rows.narrow(mask)), mask)


def _choose(
    node: Case, branches: tuple[tuple[Node, Node], ...], otherwise: Node, rows: Rows
) -> pa.Array:
    chosen = pa.nulls(len(rows), _arrow_type(type_of(node)))
    is_open = pa.repeat(TRUE_SCALAR, len(rows))
    parts = []
    for condition, value in branches:
        holds = pc.fill_null(_on_rows(condition, rows, is_open), FALSE_SCALAR)
        parts.append((holds, _on_rows(value, rows, holds)))
        is_open = pc.and_not(is_open, holds)
    parts.append((is_open, _on_rows(otherwise, rows, is_open)))
    for mask, values in parts:
        chosen = pc.if_else(mask, values, chosen)
    return chosen


def _connect(name: str, operands: tuple[Node, ...], rows: Rows) -> pa.Array:
    """Evaluate AND or OR; each operand only for rows that are still undecided."""
    join = pc.and_kleene if name == "and" else pc.or_kleene
    result = _evaluate(operands[0], rows)
    for each in operands[1:]:
        decided = pc.invert(result) if name == "and" else result
        is_open = pc.invert(pc.fill_null(decided, FALSE_SCALAR))
        # Where the result is decided, a null operand changes nothing.
        result = join(result, _on_rows(each, rows, is_open))
    return result


def _first_value(operands: tuple[Node, ...], rows: Rows) -> pa.Array:
    result = _evaluate(operands[0], rows)
    for each in operands[1:]:
        if not result.null_count:
            break
        missing = result.is_null()
        result = pc.if_else(missing, _on_rows(each, rows, missing), result)
    return result


def _compare(name: str) -> Callable[[Any, Any], Any]:
    by_name = {
        "=": pc.equal,
        "!=": pc.not_equal,
        "<": pc.less,
        "<=": pc.less_equal,
        ">": pc.greater,
        ">=": pc.greater_equal,
    }
    compare = by_name[name]

    def apply(left: Any, right: Any) -> Any:
        if pa.types.is_null(left.type):
            return pa.nulls(len(left), pa.bool_())
        compared = compare(left, right)
        if not pa.types.is_floating(left.type):
            return compared
        # NaN equals NaN and is above all numbers, as True is above False.
        one, other = pc.is_nan(left), pc.is_nan(right)
        by_nan = compare(one.cast(pa.int8()), other.cast(pa.int8()))
        return pc.if_else(pc.or_(one, other), by_nan, compared)

    return apply


def equal_null_safely(left: Any, right: Any) -> Any:
    """Compare two columns of one type: null equals null, and NaN equals NaN."""
    one, other = left.is_null(), right.is_null()
    equal = pc.fill_null(_CALLS["="](left, right), FALSE_SCALAR)
    return pc.if_else(pc.or_(one, other), pc.and_(one, other), equal)


def _remainder(left: Any, right: Any) -> Any:
    """Return the remainder as in Java: with the sign of the dividend."""
    # The smallest integer divided by -1 overflows; its remainder is 0.
    divisor = pc.if_else(pc.equal(right, scalar(-1)), scalar(1, right.type), right)
    quotient = pc.divide_checked(left, divisor)
    return pc.subtract(left, pc.multiply(quotient, divisor))


def _on_decimals(arithmetic: Any, checked: Any) -> Callable[[Any, Any], Any]:
    return lambda left, right: (
        arithmetic(left, right) if pa.types.is_decimal(left.type) else checked(left, right)
    )


def _negate(values: Any) -> Any:
    return pc.negate(values) if pa.types.is_decimal(values.type) else pc.negate_checked(values)


def _abs(values: Any) -> Any:
    return pc.abs(values) if pa.types.is_decimal(values.type) else pc.abs_checked(values)


def _date(times: Any) -> Any:
    return pc.floor_temporal(times, unit="day").cast(pa.date32())


def _add_days(days: Any, added: Any) -> Any:
    return pc.add_checked(days.cast(pa.int32()), added).cast(pa.date32())


def _concat(*texts: Any) -> Any:
    return pc.binary_join_element_wise(*texts, scalar(""), null_handling="emit_null")


_CALLS: Mapping[str, Callable[..., Any]] = {
    **{name: _compare(name) for name in ("=", "!=", "<", "<=", ">", ">=")},
    "<=>": equal_null_safely,
    "not": pc.invert,
    "is null": lambda values: values.is_null(),
    "+": _on_decimals(pc.add, pc.add_checked),
    "-": _on_decimals(pc.subtract, pc.subtract_checked),
    "*": _on_decimals(pc.multiply, pc.multiply_checked),
    "/": pc.divide_checked,
    "%": _remainder,
    "div": pc.divide_checked,
    "negate": _negate,
    "abs": _abs,
    "concat": _concat,
    "upper": upper,
    "lower": lower,
    "trim": trim,
    "pad": pad,
    "length": pc.utf8_length,
    "substring": substring,
    "date": _date,
    "year": lambda days: pc.year(days).cast(pa.int32()),
    "month": lambda days: pc.month(days).cast(pa.int32()),
    "day": lambda days: pc.day(days).cast(pa.int32()),
    "hour": lambda times: time_of_day(times, "hour"),
    "minute": lambda times: time_of_day(times, "minute"),
    "second": lambda times: time_of_day(times, "second"),
    "date_trunc": truncate,
    "trunc": truncate,
    "date_format": format_time,
    "date_add": _add_days,
    "datediff": lambda end, start: pc.subtract_checked(
        end.cast(pa.int32()), start.cast(pa.int32())
    ),
}


def _cast(values: Any, source: DataType, wanted: DataType, is_exact: bool) -> Any:
    target = _arrow_type(wanted)
    if source == VOID or wanted == STRING:
        return values.cast(target)
    if source == STRING:
        return _parse(values, wanted, target)
    if source in INTEGERS and isinstance(wanted, DecimalType):
        return integer_to_decimal(values, target)
    if isinstance(source, DecimalType) and isinstance(wanted, DecimalType):
        return decimal_to_decimal(values, target)
    if source in FLOATS or wanted in FLOATS:
        converted = values.cast(target, safe=False)
        if is_exact:
            _require_same(values, converted, source)
        return converted
    if wanted == DATE:
        return _date(values)
    return values.cast(target)


def _require_same(values: Any, converted: Any, source: DataType) -> None:
    """Reject numbers that the cast would round.

    Raises:
        InvalidRequestError: Names the type.
    """
    if source in FLOATS:
        back = converted.cast(values.type)
        same = pc.or_(pc.equal(back, values), pc.is_nan(values))
    else:
        # Integers up to this limit convert back from floating point; above it, the cast back may
        # overflow.
        digits = 24 if pa.types.is_float32(converted.type) else 53
        wide = values.cast(pa.int64())
        same = pc.and_(pc.less_equal(wide, 2**digits), pc.greater_equal(wide, -(2**digits)))
    if not pc.all(pc.fill_null(same, TRUE_SCALAR), min_count=0).as_py():
        name = str(converted.type).upper()
        raise InvalidRequestError(
            f"A cast to {name} in an expression would round a number of some row; exclude such "
            "rows, leave the cast out, or use the Spark engine, which rounds"
        )


def _parse(texts: Any, wanted: DataType, target: pa.DataType) -> Any:
    pattern = _DATE_TEXT if wanted == DATE else _INTEGER_TEXT
    is_written = pc.match_substring_regex(texts, pattern)
    if not pc.all(pc.fill_null(is_written, TRUE_SCALAR), min_count=0).as_py():
        raise pa.ArrowInvalid(f"a string is not a valid {wanted.name}")
    if wanted == DATE:
        return texts.cast(target)
    digits = pc.utf8_ltrim(pc.utf8_trim(texts, " \t\r\n"), "+")
    return digits.cast(target)
