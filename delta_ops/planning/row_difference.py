"""Row difference: which columns and files a comparison of two versions reads.

A file that both versions have, with the same deletion vector, has the same rows in both. If the
columns and properties of the versions are the same, it need not be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.log import Snapshot
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.schema.column_names import path_of_name

CHANGE = "_change_type"
"""The column that says how a row differs: `delete` or `insert`, as in a change data feed."""


def columns_of_each(
    before: Snapshot, after: Snapshot, columns: Sequence[str] | None
) -> tuple[list[str] | None, list[str] | None]:
    """The columns to read of each version; None for all.

    Raises:
        UnknownColumnError: No version has a column.
        InvalidRequestError: A column has the name of the column that says how a row differs.
    """
    if columns is None:
        names = {name for each in (before, after) for name in each.schema.fields_by_lower_name}
    else:
        names = {path_of_name(each, after.schema)[0].lower() for each in columns}
    if CHANGE in names:
        raise InvalidRequestError(
            f"{after.uri}: column {CHANGE} has the name of the column that says how a row differs; "
            f"leave it out with {option('columns')}"
        )
    if columns is None:
        return None, None
    for column in columns:
        if not any(_has(each, column) for each in (before, after)):
            raise UnknownColumnError(f"{after.uri}: no version has the column {column!r}")
    first, second = ([c for c in columns if _has(each, c)] for each in (before, after))
    return first, second


def _has(snapshot: Snapshot, column: str) -> bool:
    head, *_ = path_of_name(column, snapshot.schema)
    return head.lower() in snapshot.schema.fields_by_lower_name


def differing_files(
    before: Snapshot, after: Snapshot
) -> tuple[list[AddFile], list[AddFile]] | None:
    """The files of each version that the other lacks, or has with other deleted rows.

    Returns:
        None if the versions differ in columns or properties, so that all files must be read.
    """
    is_alike = (
        before.uri == after.uri
        and before.schema == after.schema
        and before.metadata.configuration == after.metadata.configuration
    )
    if not is_alike:
        return None
    old, new = _files(before), _files(after)
    return _others(old, new), _others(new, old)


def _files(snapshot: Snapshot) -> Mapping[str, AddFile]:
    return {canonical_path(each.path, snapshot.uri): each for each in snapshot.add_files()}


def _others(own: Mapping[str, AddFile], other: Mapping[str, AddFile]) -> list[AddFile]:
    return [
        add
        for path, add in own.items()
        if path not in other or other[path].deletion_vector != add.deletion_vector
    ]
