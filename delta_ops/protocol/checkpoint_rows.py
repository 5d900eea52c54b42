"""Rows of a checkpoint: find the rows that hold an action, and reject damaged rows.

Source: PROTOCOL.md, "Checkpoint Schema". A row holds one action; the columns of all other actions
are null. Some writers turn a null struct into a struct of nulls. A checkpoint that contradicts the
schema is rejected, because a missing file action loses rows or brings them back. No I/O; errors are
`ValueError`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.arrow_schemas import ADD, REMOVE

T = TypeVar("T")


_FEW_ROWS = 256

Fields = Mapping[str, Sequence[str]]
"""The field names of each struct column of a checkpoint."""


class _Fields(NamedTuple):
    key: str
    """A field that every action of this kind has."""
    witness: str
    """A second field of the action. If it has a value and `key` has none, the row is damaged."""
    required: tuple[str, ...]
    """Columns that a checkpoint must have; without them the table would differ."""
    others: tuple[str, ...] = ()
    """Optional columns of a checkpoint."""


ACTIONS: Mapping[str, _Fields] = {
    "add": _Fields("path", "size", ("path", "size", "partitionValues"), tuple(ADD.names)),
    "remove": _Fields("path", "deletionTimestamp", ("path",), tuple(REMOVE.names)),
    "protocol": _Fields(
        "minReaderVersion",
        "minWriterVersion",
        ("minReaderVersion", "minWriterVersion"),
        ("readerFeatures", "writerFeatures"),
    ),
    "metaData": _Fields(
        "id",
        "schemaString",
        ("id", "schemaString", "partitionColumns", "configuration"),
        ("name", "description", "format", "createdTime"),
    ),
    "txn": _Fields("appId", "version", ("appId", "version"), ("lastUpdated",)),
    "domainMetadata": _Fields("domain", "configuration", ("domain", "configuration"), ("removed",)),
    "sidecar": _Fields(
        "path", "sizeInBytes", ("path", "sizeInBytes"), ("modificationTime", "tags")
    ),
    "checkpointMetadata": _Fields("version", "version", ("version",), ("tags",)),
}
_COLUMNS = frozenset(ACTIONS)
_NAMES = {name: frozenset((*each.required, *each.others)) for name, each in ACTIONS.items()}
_FLIPPED = 2
"""Letters of a name that one damaged spot may have changed."""


def stored_fields(schema: pa.Schema) -> Fields:
    """The columns of a checkpoint.

    Raises:
        ValueError: A column occurs twice, so readers could use either copy. Or the name of a known
            column is damaged: it is missing, and an unknown column has almost the same name.
            Without this check, all values of the damaged column would be skipped, because no
            checksum covers a Parquet footer.
    """
    names = list(schema.names)
    types = schema.types
    fields = {
        name: [field.name for field in stored] if pa.types.is_struct(stored) else []
        for name, stored in zip(names, types, strict=True)
    }
    for name, inner in fields.items():
        names += [f"{name}.{each}" for each in inner]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the column {twice} occurs twice")
    _validate_spelling(fields.keys(), _COLUMNS)
    for name in fields.keys() & _COLUMNS:
        _validate_spelling(fields[name], _NAMES[name])
    return fields


def _validate_spelling(names: Collection[str], known: frozenset[str]) -> None:
    for name in names:
        if name in known:
            continue
        for missing in known.difference(names):
            others = sum(a != b for a, b in zip(name, missing, strict=False))
            if len(name) == len(missing) and others <= _FLIPPED:
                raise ValueError(
                    f"it has a column {name} and no {missing}: its name may be damaged"
                )


def validate_fields(fields: Fields, action: str) -> None:
    """Reject a checkpoint whose action column lacks a required field."""
    names = fields[action]
    missing = next((name for name in ACTIONS[action].required if name not in names), None)
    if missing is not None:
        raise ValueError(f"its {action} has no {missing}")


def present_rows(structs: pa.StructArray, action: str) -> pa.StructArray:
    """The rows that hold the action.

    Args:
        structs: The action's column. It has the `key` of `ACTIONS`, and may have the `witness`.
    """
    key, witness, *_ = ACTIONS[action]
    if structs.null_count == len(structs):
        return structs.slice(0, 0)
    without_views = _replace_views(structs.type)
    if structs.type != without_views:
        structs = structs.cast(without_views)
    if structs.null_count:
        structs = _drop_nulls(structs)
    if structs.field(key).null_count == 0:  # true for nearly all checkpoints
        if action == "add":
            _validate_sizes(structs.field("size"))
        return structs
    present = pc.struct_field(structs, key).is_valid()
    if structs.type.get_field_index(witness) >= 0:
        incomplete = pc.and_not(pc.struct_field(structs, witness).is_valid(), present)
        if pc.any(incomplete).as_py():
            raise ValueError(f"an action {action} has no {key}")
    rows = structs if pc.all(present).as_py() else structs.filter(present)
    if action == "add":
        _validate_sizes(pc.struct_field(rows, "size"))
    return rows


def validate_version(versions: Sequence[int], version: int) -> None:
    """Reject a V2 checkpoint whose recorded version differs from its file name."""
    other = next((each for each in versions if each != version), None)
    if other is not None:
        raise ValueError(f"it claims to be of version {other}")


def the_one(values: Sequence[T], action: str) -> T | None:
    """The value of an action that occurs once; None if there is none.

    Raises `ValueError` if rows hold different values.
    """
    if any(value != values[0] for value in values):
        raise ValueError(f"it holds more than one {action}")
    return values[0] if values else None


def _drop_nulls(structs: pa.StructArray) -> pa.StructArray:
    """Drop null rows; in short columns by slicing, as actions of a kind are mostly adjacent."""
    if len(structs) > _FEW_ROWS:
        return structs.drop_null()
    runs: list[pa.StructArray] = []
    start = 0
    for is_there, run in groupby(structs.is_valid().to_pylist()):
        length = len(list(run))
        if is_there:
            runs.append(structs.slice(start, length))
        start += length
    return runs[0] if len(runs) == 1 else pa.concat_arrays(runs)


@lru_cache(maxsize=64)
def _replace_views(data_type: pa.DataType) -> pa.DataType:
    """The type without string and binary views, which Arrow cannot filter yet."""
    if pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_binary_view(data_type):
        return pa.binary()
    if pa.types.is_struct(data_type):
        return pa.struct([f.with_type(_replace_views(f.type)) for f in data_type])
    if pa.types.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return pa.map_(
            key.with_type(_replace_views(key.type)), item.with_type(_replace_views(item.type))
        )
    if pa.types.is_list(data_type):
        element = data_type.value_field
        return pa.list_(element.with_type(_replace_views(element.type)))
    return data_type


def _validate_sizes(sizes: pa.Array) -> None:
    if sizes.null_count:
        raise ValueError("an action add has no size")
    if len(sizes) and pa.types.is_integer(sizes.type) and pc.min(sizes).as_py() < 0:
        raise ValueError("an action add has a negative size")
