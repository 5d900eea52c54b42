"""Lake state: the tables below a prefix as JSON, so that a location loads without reading a store.

`find_lake_tables` finds the tables when the state is refreshed. The state has no row counts, sizes
or versions, because they change with every commit; the commit sensor reports them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.log import DeltaLog
from delta_ops.maintenance.fleet.failures import failure_of
from delta_ops.maintenance.fleet.find import find_tables_in
from delta_ops.orchestration.metadata import column_schema
from delta_ops.storage import open_storage
from delta_ops.storage.concurrency import run_parallel

logger = logging.getLogger(__name__)

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A table found below a prefix."""

    path: str
    """Relative to the prefix, separated by "/"; "" if the prefix itself is the table."""
    description: str | None = None
    """Description from the table's metadata, unchanged."""
    columns: dg.TableSchema | None = None
    """None if the table could not be opened during the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFilter:
    """Selects paths below a prefix: a pattern of `include` matches, and no pattern of `exclude`.

    In a pattern `*` matches any text, including slashes, and `?` matches one character.
    """

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """Whether the filter selects a table at the path."""
        return any(fnmatchcase(path, each) for each in self.include) and not self._drops(path)

    def may_have_tables_below(self, directory: str) -> bool:
        """Whether the directory may have selected tables; False if `exclude` matches it."""
        return not self._drops(f"{directory}/")

    def _drops(self, path: str) -> bool:
        return any(fnmatchcase(path, each) for each in self.exclude)


def find_lake_tables(
    root: str, storage_options: Mapping[str, Any], wanted: PathFilter
) -> list[LakeTable]:
    """Find the tables below a prefix, by path, with their current columns.

    A table that cannot be opened is included and logged as a warning. Its checks will fail.

    Args:
        storage_options: Environment variables are already replaced by their values.

    Raises:
        StorageError: The prefix, or a directory that is not excluded, cannot be searched. If the
            search continued, the tables below it would disappear from the state.
    """
    storage = open_storage(root, storage_options)
    found = find_tables_in(storage, nested=False)
    top = storage.locate("")
    for place, failure in found.failures.items():
        if wanted.may_have_tables_below(_path_below(top, place)):
            raise StorageError(
                place,
                "searched for tables",
                f"{failure.message} Give access to it, or exclude it",
            )
    paths = sorted(_path_below(top, place) for place in found.tables)
    todo = [path for path in paths if wanted.takes(path)]
    look = partial(_look_at, root, storage_options)
    # On a disk, threads gain nothing: there is no waiting, and computing threads block each other.
    return list(map(look, todo)) if storage.has_native_input else run_parallel(look, todo)


def table_address(root: str, path: str) -> str:
    """The address of the table at a path below the root."""
    return f"{root.rstrip('/')}/{path}" if path else root


def write_lake_state(file: Path, tables: Sequence[LakeTable]) -> None:
    """Write the state."""
    rows = [
        {
            "path": table.path,
            "description": table.description,
            "columns": None if table.columns is None else dg.serialize_value(table.columns),
        }
        for table in tables
    ]
    file.write_text(json.dumps({"format": _FORMAT, "tables": rows}), encoding="utf-8")


def read_lake_state(file: Path) -> list[LakeTable]:
    """Read the state.

    Raises:
        InvalidRequestError: The file has an unknown format.
    """
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        if state["format"] != _FORMAT:
            raise ValueError(f"its format {state['format']!r} is unknown")
        return [_table_from_row(row) for row in state["tables"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRequestError(
            f"{file} is not a state file that this version of delta_ops can read ({error}); "
            "create it again with: dg utils refresh-defs-state"
        ) from error


def _table_from_row(row: Mapping[str, Any]) -> LakeTable:
    columns = row["columns"]
    return LakeTable(
        path=row["path"],
        description=row["description"],
        columns=None if columns is None else dg.deserialize_value(columns, dg.TableSchema),
    )


def _path_below(top: str, place: str) -> str:
    return place.removeprefix(top).replace(os.sep, "/").strip("/")


def _look_at(root: str, storage_options: Mapping[str, Any], path: str) -> LakeTable:
    try:
        snapshot = DeltaLog(table_address(root, path), storage_options).snapshot()
        description = snapshot.metadata.description
        return LakeTable(path=path, description=description, columns=column_schema(snapshot))
    except Exception as error:  # a broken table must not stop the search for other tables
        logger.warning("A table cannot be opened: %s", failure_of(error).message)
        return LakeTable(path=path)
