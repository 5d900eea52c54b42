"""Casting: convert a caller's Arrow data to the columns of a table.

Columns and struct fields at any depth match by name, without regard to case. A missing column
becomes null. A column that the table lacks, or that the data have twice, is rejected. A value must
keep its meaning: numbers change type only if they convert back unchanged, times change only their
unit or zone, and nothing else is cast. A string is never parsed, and a timestamp without a
zone is never taken as an instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.nesting import (
    Convert,
    Rules,
    cast,
    convert_in_pieces,
    decimal_to_decimal,
    integer_to_decimal,
    plan_fields,
)
from delta_ops.error_texts import first_line
from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.arrow_values import FALSE_SCALAR, scalar

Fit = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]
_Cast = Callable[[pa.Array, pa.DataType], pa.Array]


def plan_fit(source: pa.Schema, wanted: pa.Schema, table: str) -> Fit:
    """Plan how to fit batches of one schema to a table.

    Args:
        source: The data's schema.
        wanted: The table's schema.
        table: For messages.

    Returns:
        A function that yields a batch's rows with the table's columns. It yields several batches if
        the rows do not fit in one, and raises InvalidRequestError for a value that does not fit.

    Raises:
        InvalidRequestError: The table lacks a column, or a column's type does not fit.
    """
    rules, fields = _rules(table), list(wanted)
    planned = plan_fields(list(source), fields, "", rules)

    def fit(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        convert = planned
        if batch.schema != source:
            validate_alike(batch.schema, source, table)
            # Nested types may differ, such as a struct with its fields in another order.
            convert = plan_fields(list(batch.schema), fields, "", rules)

        def convert_batch(rows: pa.RecordBatch) -> pa.RecordBatch:
            return pa.RecordBatch.from_arrays(convert(rows.columns, len(rows)), schema=wanted)

        try:
            yield from convert_in_pieces(batch, convert_batch)
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            raise InvalidRequestError(
                f"{table}: a row of the data is too large ({first_line(error)}); make it smaller"
            ) from error

    return fit


def validate_alike(found: pa.Schema, source: pa.Schema, table: str) -> None:
    """Reject a batch that does not have the columns of its stream's schema, in the same order.

    The types of nested columns are not compared.

    Raises:
        InvalidRequestError: The columns differ; the message shows both.
    """
    shown = [
        [
            each.name if pa.types.is_nested(each.type) else f"{each.name}: {each.type}"
            for each in schema
        ]
        for schema in (found, source)
    ]
    if shown[0] != shown[1]:
        raise InvalidRequestError(
            f"{table}: a batch of the data has the columns ({', '.join(shown[0])}), but the "
            f"schema of the data has ({', '.join(shown[1])}); give batches with the same schema"
        )


def _integer_to_float(values: pa.Array, target: pa.DataType) -> pa.Array:
    fitted = values.cast(target, safe=False)
    return _require_unchanged(values, fitted, _truncate(fitted, values.type))


def _float_to_integer(values: pa.Array, target: pa.DataType) -> pa.Array:
    fitted = _truncate(values, target)
    return _require_unchanged(values, fitted, fitted.cast(values.type, safe=False))


def _cast_exactly(values: pa.Array, target: pa.DataType) -> pa.Array:
    fitted = values.cast(target)
    return _require_unchanged(values, fitted, fitted.cast(values.type))


def _decimal_to_float(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert decimals that equal a float exactly or in its shortest decimal form.

    Raises:
        _ChangedError: A decimal is neither.
    """
    fitted = _nearest_float(values, target)
    digits = fitted.cast(pa.string()).cast(values.type)
    others = pc.not_equal(digits, values)
    for value, number in zip(values.filter(others), fitted.filter(others), strict=True):
        if value.as_py() != Decimal(number.as_py()):
            raise _ChangedError(f"{value} would be changed")
    return fitted


def _float_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert the digits of each number; Arrow's own cast turns 0.1 into 0.100000000000000006."""
    fitted = values.cast(pa.string()).cast(target)
    return _require_unchanged(values, fitted, _nearest_float(fitted, values.type))


def _nearest_float(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse the decimals' digits; Arrow's own cast turns 0.3 into 0.30000000000000004."""
    return values.cast(pa.string()).cast(target)


_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("boolean", pt.is_boolean),
    ("integer", pt.is_integer),
    ("float", pt.is_floating),
    ("decimal", pt.is_decimal),
    ("text", lambda t: pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t)),
    (
        "bytes",
        lambda t: (
            pt.is_binary(t)
            or pt.is_large_binary(t)
            or pt.is_binary_view(t)
            or pt.is_fixed_size_binary(t)
        ),
    ),
    ("date", pt.is_date),
    ("instant", lambda t: pt.is_timestamp(t) and t.tz is not None),
    ("local time", lambda t: pt.is_timestamp(t) and t.tz is None),
    ("struct without fields", lambda t: pt.is_struct(t) and not t.num_fields),
    ("map", pt.is_map),
)
_CASTS: Mapping[tuple[str, str], _Cast] = {
    ("boolean", "boolean"): cast,
    ("integer", "integer"): cast,
    ("integer", "float"): _integer_to_float,
    ("integer", "decimal"): integer_to_decimal,
    ("float", "integer"): _float_to_integer,
    ("float", "float"): _cast_exactly,
    ("float", "decimal"): _float_to_decimal,
    ("decimal", "integer"): cast,
    ("decimal", "float"): _decimal_to_float,
    ("decimal", "decimal"): decimal_to_decimal,
    ("text", "text"): cast,
    ("bytes", "bytes"): cast,
    ("date", "date"): cast,
    ("instant", "instant"): cast,
    ("local time", "local time"): cast,
}
"""All supported conversions, by the kind of the data's type and of the table's type."""

_CURES: Mapping[tuple[str, str], str] = {
    ("local time", "instant"): (
        "set the time zone of the values with pyarrow.compute.assume_timezone"
    ),
    ("instant", "local time"): (
        "convert to local time in a time zone with pyarrow.compute.local_timestamp"
    ),
    ("", "map"): (
        "polars and pandas have no maps, so build the column with pyarrow.MapArray.from_arrays"
    ),
    ("struct without fields", "struct without fields"): (
        "Parquet has no struct without fields; add one, or drop the column"
    ),
}
_SIZE_ONLY = frozenset({"text", "bytes"})
"""Kinds whose values always fit; a conversion fails only if one array is too small."""


class _ChangedError(Exception):
    """A number does not convert back to the same value."""


def _rules(table: str) -> Rules:
    def leaf(source: pa.DataType, target: pa.DataType, path: str) -> Convert:
        if isinstance(source, pa.JsonType):
            convert = leaf(source.storage_type, target, path)
            return lambda array: convert(array.storage)
        is_same, kind = source.equals(target), _kind(source)
        kinds = kind, kind if is_same else _kind(target)
        if is_same and kinds in _CASTS:
            return _keep
        misfit = f"{table}: column {path!r} is {target} in the table and {source} in the data"
        if pa.types.is_null(target):
            raise InvalidRequestError(
                f"{table}: column {path!r} is void in the table and {source} in the data; leave it "
                "out of the data, or give the column this type by a write or a merge with "
                f"{option('merge_schema', True)}"
            )
        if kinds not in _CASTS:
            raise InvalidRequestError(f"{misfit}; {_CURES.get(kinds, 'cast it')}")
        if kinds[0] in _SIZE_ONLY:
            return lambda array: cast(array, target)
        return lambda array: _convert_or_refuse(array, target, _CASTS[kinds], misfit)

    def validate_names(source: Sequence[str], wanted: Sequence[str], path: str) -> None:
        _validate_names(source, wanted, f"{path}." if path else "", table)

    return Rules(leaf, validate_names)


def _validate_names(source: Sequence[str], wanted: Sequence[str], prefix: str, table: str) -> None:
    twice = [name for name, n in Counter(name.lower() for name in source).items() if n > 1]
    if twice:
        raise InvalidRequestError(
            f"{table}: column {prefix + twice[0]!r} is in the data twice (names ignore case); "
            "rename or drop one of them"
        )
    known = {name.lower() for name in wanted}
    for name in source:
        if name.lower() not in known:
            raise InvalidRequestError(
                f"{table} has no column {prefix + name!r}; drop it from the data, or write with "
                f"{option('merge_schema', True)} to add it. Its columns are "
                f"{', '.join(prefix + each for each in wanted) or 'none'}"
            )


def _convert_or_refuse(
    values: pa.Array, target: pa.DataType, apply: _Cast, misfit: str
) -> pa.Array:
    try:
        return apply(_widen(values), target)
    except (pa.ArrowException, _ChangedError) as error:
        raise InvalidRequestError(
            f"{misfit}, and a value does not fit ({first_line(error)}); cast it"
        ) from error


def _widen(values: pa.Array) -> pa.Array:
    """Widen small number types, since Arrow has few or wrong casts for them."""
    if pt.is_float16(values.type):
        return values.cast(pa.float32())
    if pt.is_decimal32(values.type) or pt.is_decimal64(values.type):
        return values.cast(pa.decimal128(values.type.precision, values.type.scale))
    return values


def _keep(values: pa.Array) -> pa.Array:
    return values


def _kind(data_type: pa.DataType) -> str:
    return next((kind for kind, is_kind in _KINDS if is_kind(data_type)), "")


def _truncate(values: pa.Array, integer: pa.DataType) -> pa.Array:
    """Drop the fractions of floating-point numbers; numbers outside the integer type become null.

    For numbers outside the type, the result of a cast depends on the processor, and may even be the
    nearest number.
    """
    signed = pt.is_signed_integer(integer)
    low = -(2.0 ** (integer.bit_width - 1)) if signed else 0.0
    end = 2.0 ** (integer.bit_width - signed)
    bounds = (scalar(each, pa.float64()) for each in (low, end))
    first, past = (bound.cast(values.type) for bound in bounds)
    is_within = pc.and_(pc.greater_equal(values, first), pc.less(values, past))
    return pc.if_else(is_within, values, scalar(None, values.type)).cast(integer, safe=False)


def _require_unchanged(values: pa.Array, fitted: pa.Array, back: pa.Array) -> pa.Array:
    """Return the fitted values if they convert back to the original values.

    Raises:
        _ChangedError: A value does not.
    """
    same = pc.fill_null(pc.equal(values, back), FALSE_SCALAR)
    if pt.is_floating(values.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(values), pc.is_nan(back)), FALSE_SCALAR))
    lost = values.filter(pc.and_not(values.is_valid(), same))
    if len(lost):
        raise _ChangedError(f"{lost[0]} would be changed")
    return fitted
