"""Frames: rejects the values that their conversion to Arrow would change, or cannot convert.

pyarrow takes the type of a pandas column of Python objects from its values. A value of another
class may be changed without an error: a datetime becomes a date, a time loses its zone or its
nanoseconds, text becomes bytes, a boolean becomes a number. An Arrow stream of polars holds only
the addresses of Python objects, and ends the process at a name with the character NUL.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from delta_ops.error_texts import class_name
from delta_ops.errors import InvalidRequestError

UNCONVERTIBLE = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""The errors of pyarrow, pandas and polars for values that Arrow cannot store."""
_CHANGING = (pt.is_date, pt.is_timestamp, pt.is_binary, pt.is_floating)
"""The types that may change a value of another class."""


def validate_frame(data: Any) -> None:
    """Reject what no Arrow column can hold, before a frame is converted.

    Raises:
        InvalidRequestError: A column of a polars frame holds Python objects, or has the character
            NUL in its name or the name of a field; or the name of a column of a pandas frame is
            no text. Numbers and times become text.
    """
    for name, data_type in data.schema.items() if _is_polars(data) else ():
        if data_type.is_object():
            raise InvalidRequestError(
                f"column {name} of a polars frame holds Python objects; cast or drop it"
            )
        if any("\0" in each for each in (name, *_field_names(data_type))):
            raise InvalidRequestError(
                f"column {name!r} of a polars frame has the character NUL in its name; rename it"
            )
    for name in data.columns if _is_pandas(data) else ():
        if isinstance(name, tuple) or name is None or _is_nan(name):
            raise InvalidRequestError(
                f"a column of a pandas frame has the name {name!r}, which is no text; rename it"
            )


def validate_objects_are_kept(data: Any, schema: pa.Schema) -> None:
    """Reject a value of a pandas frame that its Arrow column has changed.

    Args:
        data: Any data; only a pandas frame is checked.
        schema: The columns of the frame in Arrow, and then those of its index.

    Raises:
        InvalidRequestError: Names the column and the value.
    """
    if not _is_pandas(data):
        return
    columns = [data.iloc[:, n] for n in range(data.shape[1])]
    levels = [data.index.get_level_values(n) for n in range(data.index.nlevels)]
    for field, column in zip(schema, [*columns, *levels], strict=False):
        for value in _changed_values(_objects(column.array), field.type):
            raise InvalidRequestError(
                f"column {field.name} of a pandas frame has the type {field.type} in Arrow, which "
                f"would change its value {value!r}, of type {type(value).__name__}; give all "
                "values of the column one type"
            )


def conversion_error(data: Any, error: Exception) -> InvalidRequestError:
    """The error for data that Arrow cannot store; names the column of a frame.

    Args:
        data: The data.
        error: The error of their conversion, one of `UNCONVERTIBLE`.
    """
    kind = class_name(type(data))
    if _is_column(data):
        return InvalidRequestError(
            f"a value of type {kind} is one column, not a table; give a table or a frame with it"
        )
    for name, part in _columns(data):
        try:
            pa.Table.from_pandas(part, preserve_index=False) if _is_pandas(part) else pa.table(part)
        except UNCONVERTIBLE as fault:
            reason = f"{_reason(fault)}{_types_of_objects(part)}"
            return InvalidRequestError(
                f"column {name} of a {kind} cannot be converted to Arrow ({reason}); cast, rename "
                "or drop the column"
            )
    return InvalidRequestError(
        f"a value of type {kind} cannot be converted to Arrow ({_reason(error)}); cast, rename or "
        "drop columns"
    )


def _reason(error: Exception) -> str:
    # The last argument describes the fault; the first may repeat a value.
    return str(error.args[-1] if error.args else error).partition("\n")[0].rstrip(".")


def _types_of_objects(frame: Any) -> str:
    """The types of the values in a pandas frame of one column of Python objects, for an error."""
    objects = _objects(frame.iloc[:, 0].dropna().array) if _is_pandas(frame) else ()
    names = sorted({type(each).__name__ for each in objects})
    return f"; its values have the types {', '.join(names)}" if names else ""


def _columns(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the name of each column of a frame, and a frame with this column alone."""
    if _is_pandas(data):
        for number, name in enumerate(data.columns):
            yield name, data.iloc[:, [number]]
    elif _is_polars(data):
        for column in data.get_columns():
            yield column.name, column.to_frame()


def _is_column(data: Any) -> bool:
    """Whether a stream is one column, such as a series of polars."""
    try:
        return not pt.is_struct(pa.chunked_array(data).type)
    except UNCONVERTIBLE:
        return False


def _field_names(data_type: Any) -> Iterator[str]:
    """Yield the names of the fields within a type of polars."""
    for field in getattr(data_type, "fields", ()):
        yield field.name
        yield from _field_names(field.dtype)
    if hasattr(data_type, "inner"):
        yield from _field_names(data_type.inner)


def _is_polars(data: Any) -> bool:
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(data, polars.DataFrame)


def _is_pandas(data: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def _objects(values: Any) -> Iterable[Any]:
    """The Python objects of an array of pandas; none if it has another type."""
    if str(values.dtype) == "category":
        values = values.categories.array
    return values if str(values.dtype) == "object" else ()


def _changed_values(values: Iterable[Any], data_type: pa.DataType) -> Iterator[Any]:
    """Yield the values that a column of a type would change."""
    if pt.is_dictionary(data_type):
        data_type = data_type.value_type
    if pt.is_list(data_type):
        lists = (each for each in values if hasattr(each, "__iter__"))
        yield from _changed_values((item for each in lists for item in each), data_type.value_type)
    elif pt.is_struct(data_type):
        for field in data_type:
            present = (each for each in values if isinstance(each, Mapping))
            yield from _changed_values((each.get(field.name) for each in present), field.type)
    elif any(is_kind(data_type) for is_kind in _CHANGING):
        values = list(values)
        classes = {each for each in set(map(type, values)) if _may_change(each, data_type)}
        risky = (each for each in values if type(each) in classes) if classes else ()
        yield from (each for each in risky if _is_changed(each, data_type) and not _is_nan(each))


def _may_change(kind: type, data_type: pa.DataType) -> bool:
    """Whether a column of a type may change a value of a class."""
    if pt.is_binary(data_type):
        return issubclass(kind, str)
    if pt.is_floating(data_type):
        return issubclass(kind, bool)
    return issubclass(kind, datetime)


def _is_changed(value: Any, data_type: pa.DataType) -> bool:
    if not pt.is_timestamp(data_type):
        return True
    is_aware = value.tzinfo is not None
    return is_aware != (data_type.tz is not None) or getattr(value, "nanosecond", 0) != 0


def _is_nan(value: Any) -> bool:
    """Whether a value is NaN or NaT, which become null."""
    return bool(value != value)  # noqa: PLR0124
