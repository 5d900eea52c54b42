"""File columns: convert the columns of a data file to the table's columns.

Source: PROTOCOL.md, "Column Mapping", "Type Widening", "Data Files".

The column mapping mode decides how a file identifies columns: by the table's names, by physical
names or by ids. Names must match exactly, or else without regard to case. A column that the file
lacks is null in all its rows: it was added later, or has type void. A type that the table has
widened since is widened here. Any other type is rejected, because parsing a string or taking a
number as a time would be a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.nesting import (
    Convert,
    Rules,
    cast,
    integer_to_decimal,
    is_list,
    plan_fields,
)
from delta_ops.arrow.read.legacy_days import plan_rebase
from delta_ops.arrow.read.variant_columns import StoredVariant, mark_variant, plan_variant
from delta_ops.protocol.columns.mapping import field_id, physical_name, rename_columns
from delta_ops.protocol.schema import (
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.values.legacy_calendar import LegacyCalendar, legacy_calendar

_PARQUET_ID = b"PARQUET:field_id"
_ID = "id\0"
_UNWANTED = "\0"
"""Prefixes that no column name starts with."""

T = TypeVar("T")
ToColumns = Callable[[Sequence[pa.Array], int], list[pa.Array]]
"""Converts the columns that were read, and their length, to the table's columns."""


class Leaves(NamedTuple):
    """Leaf columns of a file."""

    numbers: list[int]
    of_any_size: list[int]
    """Leaves with values of variable or large size."""
    are_repeated: bool
    """Whether some leaves are in lists or maps, and so can have more values than rows."""


class OtherTypeError(ValueError):
    """A column's type in a file cannot be widened to the table's type."""


class _Latest(Generic[T]):
    """Caches a result for the most recent schema; most files of a table share one schema."""

    def __init__(self) -> None:
        self._found: tuple[pa.Schema, T] | None = None

    def look_up(self, schema: pa.Schema, find: Callable[[pa.Schema], T]) -> T:
        """Return the result of `find` for a schema, including its ids."""
        found = self._found  # read once: other threads may replace it
        if found is None or not found[0].equals(schema, check_metadata=True):
            found = self._found = (schema, find(schema))
        return found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The wanted columns of each file."""

    schema: StructType
    """The table's schema without partition columns."""
    mode: str
    """The column mapping mode."""
    encoded: Collection[str] = ()
    """Columns that stay dictionary-encoded when they are read; see `dictionary_columns`."""
    _leaves: _Latest[Leaves] = field(init=False, repr=False, compare=False, default_factory=_Latest)
    _plans: _Latest[ToColumns] = field(
        init=False, repr=False, compare=False, default_factory=_Latest
    )
    _sameness: _Latest[bool] = field(init=False, repr=False, compare=False, default_factory=_Latest)

    def leaves_in(self, stored: pa.Schema) -> Leaves:
        """Return the leaf columns to read from a file with this schema."""
        return self._leaves.look_up(stored, self._leaves_in)

    def converter(self, read: pa.Schema) -> ToColumns:
        """Plan how to convert columns of this schema to the table's columns."""
        return self._plans.look_up(read, self._plan)

    def are_as_read(self, read: pa.Schema) -> bool:
        """Return whether `converter` would leave columns of this schema unchanged."""
        return self._sameness.look_up(read, self._are_as_read)

    def _leaves_in(self, stored: pa.Schema) -> Leaves:
        wanted = rename_columns(self.schema, _naming(self.mode))
        numbers = list(_leaves(list(stored), wanted, _stored_name(self.mode), 0))
        types = [leaf for each in stored for leaf in _leaf_types(each.type)]
        return Leaves(
            numbers=numbers,
            of_any_size=[i for i in numbers if types[i] is None or not pt.is_primitive(types[i])],
            are_repeated=any(types[i] is None for i in numbers),
        )

    def _are_as_read(self, read: pa.Schema) -> bool:
        wanted, name_in_file = pa.schema(self._wanted_fields(list(read))), _naming(self.mode)
        return (
            all(name_in_file(each) == each.name for each in self.schema.fields)
            and read.remove_metadata().equals(wanted, check_metadata=True)
            and not any(map(pt.is_nested, wanted.types))
            and not legacy_calendar(read.metadata).is_used
        )

    def _plan(self, read: pa.Schema) -> ToColumns:
        names = _Names(_stored_name(self.mode), _naming(self.mode))
        source = _planned_fields(list(read), self.schema, names, ())
        rules = _STORED
        if (calendar := legacy_calendar(read.metadata)).is_used:
            rules = _STORED._replace(leaf=partial(_legacy_leaf, calendar))
        return plan_fields(source, self._wanted_fields(source), "", rules)

    def _wanted_fields(self, source: Sequence[pa.Field]) -> list[pa.Field]:
        """Return the wanted columns, with dictionary types where the file has dictionaries."""
        found = {each.name: each.type for each in source}
        return [
            each.with_type(encoded)
            if each.name in self.encoded
            and found.get(each.name) == (encoded := pa.dictionary(pa.int32(), each.type))
            else each
            for each in arrow_schema_from_schema(self.schema)
        ]


def lacks_ids(stored: pa.Schema) -> bool:
    """Return whether a file has columns but no column ids.

    Source: PROTOCOL.md, "Reader Requirements for Column Mapping".
    """
    return bool(len(stored)) and not any(_id_of(each) for each in stored)


def _naming(mode: str) -> Callable[[StructField], str]:
    match mode:
        case "id":
            return _wanted_id_name
        case "name":
            return physical_name
    return lambda each: each.name


def _stored_name(mode: str) -> Callable[[pa.Field], str]:
    return _stored_id_name if mode == "id" else lambda each: each.name


def _wanted_id_name(each: StructField) -> str:
    number = field_id(each)
    return each.name if number is None else f"{_ID}{number}"


def _stored_id_name(each: pa.Field) -> str:
    number = _id_of(each)
    return f"{_ID}{number}" if number else str(each.name)


def _id_of(each: pa.Field) -> str:
    metadata: Mapping[bytes, bytes] = each.metadata or {}
    return metadata.get(_PARQUET_ID, b"").decode()


def _leaves(
    stored: Sequence[pa.Field], wanted: StructType, name_of: Callable[[pa.Field], str], first: int
) -> Iterable[int]:
    """Yield the leaves to read: all leaves of lists and maps, and the wanted leaves of structs."""
    counts = [len(_leaf_types(each.type)) for each in stored]
    starts = accumulate(counts, initial=first)
    exact = {
        name_of(each): (each.type, range(start, start + count))
        for each, start, count in zip(stored, starts, counts, strict=False)
    }
    any_case = {name.lower(): found for name, found in exact.items()}
    for each in wanted.fields:
        found = exact.get(each.name, any_case.get(each.name.lower()))
        if found is None:
            continue
        data_type, leaves = found
        if pt.is_struct(data_type) and isinstance(each.data_type, StructType):
            inner = list(_leaves(list(data_type), each.data_type, name_of, leaves.start))
            # Any field of a struct shows which structs are null.
            yield from inner or leaves[:1]
        else:
            yield from leaves


def _leaf_types(data_type: pa.DataType) -> list[pa.DataType | None]:
    """Return the type of each Parquet leaf column; None for a leaf in a list or map."""
    if isinstance(data_type, pa.BaseExtensionType):
        return _leaf_types(data_type.storage_type)
    if not pt.is_nested(data_type):
        return [data_type]
    inner = (data_type.field(i).type for i in range(data_type.num_fields))
    leaves = [leaf for each in inner for leaf in _leaf_types(each)]
    return leaves if pt.is_struct(data_type) else [None] * len(leaves)


class _Names(NamedTuple):
    """How to derive a column's identifier in a file."""

    of_stored: Callable[[pa.Field], str]
    of_wanted: Callable[[StructField], str]


def _planned_fields(
    stored: Sequence[pa.Field], wanted: StructType, names: _Names, parents: tuple[str, ...]
) -> list[pa.Field]:
    """Return the stored fields for a plan: with the table's names and marked variants."""
    exact = {names.of_wanted(each): each for each in wanted.fields}
    any_case = {name.lower(): each for name, each in exact.items()}
    present = {names.of_stored(each) for each in stored}

    def planned_field(each: pa.Field) -> pa.Field:
        name = names.of_stored(each)
        found = exact.get(name)
        if found is None:
            found = any_case.get(name.lower())
            if found is None or names.of_wanted(found) in present:
                return pa.field(_UNWANTED + name, each.type)
        data_type = _planned_type(each.type, found.data_type, names, (*parents, each.name))
        return pa.field(found.name, data_type, nullable=each.nullable)

    return [planned_field(each) for each in stored]


def _planned_type(
    stored: pa.DataType, wanted: DataType, names: _Names, path: tuple[str, ...]
) -> pa.DataType:
    match wanted:
        case StructType() if pt.is_struct(stored):
            return pa.struct(_planned_fields(list(stored), wanted, names, path))
        case ArrayType() if is_list(stored):
            path = (*path, "element")
            return pa.list_(_planned_type(stored.value_type, wanted.element_type, names, path))
        case MapType() if pt.is_map(stored):
            key = _planned_type(stored.key_type, wanted.key_type, names, (*path, "key"))
            item = _planned_type(stored.item_type, wanted.value_type, names, (*path, "value"))
            return pa.map_(key, item)
        case PrimitiveType() if wanted == VARIANT:
            return mark_variant(stored, ".".join(path))
    return stored


_OF_BYTES: Sequence[Callable[[pa.DataType], bool]] = (
    pt.is_string,
    pt.is_large_string,
    pt.is_string_view,
    pt.is_binary,
    pt.is_large_binary,
    pt.is_binary_view,
    pt.is_fixed_size_binary,
)
"""Old writers did not mark bytes as text."""
_KINDS: Mapping[str, Callable[[pa.DataType], bool]] = {
    "boolean": pt.is_boolean,
    "integer": pt.is_integer,
    "float": pt.is_floating,
    "decimal": pt.is_decimal,
    "date": pt.is_date,
    "timestamp": pt.is_timestamp,
    "bytes": lambda each: any(is_kind(each) for is_kind in _OF_BYTES),
}
_WIDENED = frozenset({("integer", "float"), ("integer", "decimal"), ("date", "timestamp")})
"""Pairs of kinds that convert if the values fit."""


def _is_readable(source: pa.DataType, target: pa.DataType) -> bool:
    kinds = _kind(source), _kind(target)
    if kinds == ("float", "float"):
        return bool(source.bit_width <= target.bit_width)
    return kinds in _WIDENED or (kinds[0] == kinds[1] != "")


def _kind(data_type: pa.DataType) -> str:
    return next((kind for kind, is_kind in _KINDS.items() if is_kind(data_type)), "")


def _leaf(source: pa.DataType, target: pa.DataType, path: str) -> Convert:
    if isinstance(source, StoredVariant):
        return plan_variant(source)
    if isinstance(source, pa.BaseExtensionType):  # such as a string that is marked as JSON
        convert = _leaf(source.storage_type, target, path)
        return lambda array: convert(array.storage)
    if source.equals(target):
        return lambda array: array
    if pt.is_null(target):
        return lambda array: pa.nulls(len(array))
    if not _is_readable(source, target):
        raise OtherTypeError(f"column {path} is {source} in the file, but {target} in the table")
    if pt.is_integer(source) and pt.is_decimal(target):
        return lambda array: integer_to_decimal(array, target)
    if pt.is_timestamp(source) and pt.is_timestamp(target) and source.unit == "ns":
        # Delta has microseconds: digits that other writers stored beyond them are dropped, as in
        # Spark.
        return lambda array: _floor_to_micros(array).cast(target)
    return lambda array: cast(array, target)


def _legacy_leaf(
    calendar: LegacyCalendar, source: pa.DataType, target: pa.DataType, path: str
) -> Convert:
    convert = _leaf(source, target, path)
    is_local = pt.is_timestamp(target) and target.tz is None and pt.is_timestamp(source)
    rebase = None if is_local else plan_rebase(source, calendar, path)
    return convert if rebase is None else lambda array: convert(rebase(array))


def _floor_to_micros(nanoseconds: pa.Array) -> Any:
    return pc.floor_temporal(nanoseconds, unit="microsecond")


_STORED = Rules(leaf=_leaf, validate_names=lambda _source, _wanted, _path: None)
