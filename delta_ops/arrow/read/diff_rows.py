"""Compares the rows of two versions as multisets: a row counts as often as it occurs.

Files that both versions have with the same deletion vectors are not read, if the columns are the
same. The rows of all other files are in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.read.scan import read_files, schema_of_reading, to_table
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot, Source, snapshot_of
from delta_ops.planning.row_difference import CHANGE, columns_of_each, differing_files
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of, empty_table, scalar
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate

_COUNT, _ROW = "_delta_ops_count", "_delta_ops_row"


def diff_rows(
    old: Source,
    new: Source,
    columns: Sequence[str] | None = None,
    predicate: Predicate | Expression | str | None = None,
) -> pa.Table:
    """Return the rows in which two versions differ, with the column `_change_type`.

    A row that only the old version has is a `delete`, a row that only the new version has is an
    `insert`. A changed row is one of each. Versions with the same rows in another order, or in
    other files, do not differ. Nulls are equal, and so are NaNs, and 0.0 and -0.0.

    Args:
        old: A table or a snapshot, such as `log.snapshot(ref="tag:2026-11")`.
        new: Another version of the table, or another table.
        columns: The columns to compare; by default all. A column that only one version has is null
            in the rows of the other version.
        predicate: Compare only the rows that match.

    Raises:
        InvalidRequestError: A column does not exist, has types that cannot be compared, or the
            predicate does not fit a version.
        DataFileError: A data file or a deletion vector is missing or unreadable.
        OutsideFileError, UnsupportedFeatureError: As `to_table`.

    Examples:
        >>> _ = da.update("lake/orders", {"price": "price + 1"}, "id = 2")
        >>> old, new = DeltaLog("lake/orders").snapshot(0), DeltaLog("lake/orders").snapshot()
        >>> da.diff_rows(old, new, ["id", "price"]).to_pylist()  # doctest: +NORMALIZE_WHITESPACE
        [{'id': 2, 'price': 20.0, '_change_type': 'delete'},
         {'id': 2, 'price': 21.0, '_change_type': 'insert'}]
    """
    validate_arguments(diff_rows, locals())
    before, after = snapshot_of(old), snapshot_of(new)
    rows = _rows(before, after, columns, predicate)
    try:
        schema = pa.unify_schemas([each.schema for each in rows], promote_options="permissive")
        old_rows, new_rows = (_add_columns(each, schema.remove_metadata()) for each in rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidRequestError(
            f"{after.uri}: rows of version {before.version} and of version {after.version} cannot "
            f"be compared, because a column has other types ({error}); leave the column out with "
            "columns"
        ) from error
    return _difference(old_rows, new_rows)


def _rows(
    before: Snapshot,
    after: Snapshot,
    columns: Sequence[str] | None,
    predicate: Predicate | Expression | str | None,
) -> list[pa.Table]:
    """The rows to compare, of both versions; rows of common files may be missing in both."""
    names = columns_of_each(before, after, columns)
    has_fields = any("." in each for each in columns or ())
    files = None if has_fields or predicate is not None else differing_files(before, after)
    if files is None:
        return [to_table(before, names[0], predicate), to_table(after, names[1], predicate)]
    return [
        _table_of_files(snapshot, columns, wanted)
        for snapshot, wanted in zip((before, after), files, strict=True)
    ]


def _table_of_files(
    snapshot: Snapshot, columns: Sequence[str] | None, wanted: Sequence[AddFile]
) -> pa.Table:
    empty = empty_table(schema_of_reading(snapshot, columns))
    batches = list(read_files(snapshot, wanted, empty.schema.names)) if wanted else []
    return pa.concat_tables([empty, *(pa.table(each) for each in batches)], promote_options="none")


def _add_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with all columns of a schema, null where a column is absent."""
    found = [
        rows[field.name].cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(found, schema=pa.schema([field.with_nullable(True) for field in schema]))


def _difference(old: pa.Table, new: pa.Table) -> pa.Table:
    both = pa.concat_tables([old, new])
    signs = pa.concat_arrays(
        [pa.repeat(scalar(sign), len(rows)) for sign, rows in ((-1, old), (1, new))]
    )
    keys = {f"k{number}": key for number, key in enumerate(_keys(both))}
    grouped = (
        pa.table({**keys, _COUNT: signs, _ROW: pa.arange(0, len(both))})
        .group_by(list(keys), use_threads=False)
        .aggregate([(_COUNT, "sum"), (_ROW, "min")])
    )
    differing = grouped.filter(pc.not_equal(grouped[f"{_COUNT}_sum"], scalar(0)))
    counts = differing[f"{_COUNT}_sum"].to_pylist()
    places = differing[f"{_ROW}_min"].to_pylist()
    chosen = [
        (place, count > 0)
        for place, count in zip(places, counts, strict=True)
        for _ in range(abs(count))
    ]
    rows = both.take(array_of([place for place, _ in chosen], pa.int64()))
    changes = ["insert" if is_new else "delete" for _, is_new in chosen]
    return rows.append_column(CHANGE, array_of(changes, pa.string()))


def _keys(rows: pa.Table) -> Iterator[pa.ChunkedArray]:
    """Columns that can be grouped; of nested columns, the text of each value."""
    for column in rows.columns:
        if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
            plain = column.cast(_number_type(column.type))
            texts = [None if value is None else _text(value) for value in plain.to_pylist()]
            yield pa.chunked_array([array_of(texts, pa.string())])
        elif isinstance(column.type, pa.BaseExtensionType):
            yield column.cast(column.type.storage_type)
        elif pa.types.is_floating(column.type):
            zero, nan = (scalar(each, column.type) for each in (0.0, math.nan))
            yield pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))
        else:
            yield column


def _number_type(data_type: pa.DataType) -> pa.DataType:
    """The type with integers in the place of times, because Python lacks some of them."""
    if pa.types.is_struct(data_type):
        return pa.struct([each.with_type(_number_type(each.type)) for each in data_type])
    if pa.types.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        key, item = (each.with_type(_number_type(each.type)) for each in (key, item))
        return pa.map_(key, item)
    if pa.types.is_list(data_type):
        element = data_type.value_field
        return pa.list_(element.with_type(_number_type(element.type)))
    if pa.types.is_date(data_type):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(data_type) else data_type


def _text(value: Any) -> str:
    """A text that is the same for equal values."""
    match value:
        case float():
            return repr(value + 0.0)
        case dict():
            return f"{{{', '.join(f'{name!r}: {_text(each)}' for name, each in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(_text, value))}]"
    return repr(value)
