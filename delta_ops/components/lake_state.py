"""Lake state: the tables below a prefix as JSON, so that a location loads without reading a store.

`find_lake_tables` searches the tables when the state is refreshed. The state has no rows, sizes or
versions, because they change with every commit; the commit sensor reports them.
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
    """A table that was found below a prefix."""

    path: str
    """Below the prefix, with "/" between its parts; "" if the prefix itself is the table."""
    description: str | None = None
    """Description in the metadata of the table, unchanged."""
    columns: dg.TableSchema | None = None
    """None if the table could not be opened when it was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFilter:
    """Selects paths below a prefix: a pattern of `include` matches, and no pattern of `exclude`.

    In a pattern `*` matches any text, including slashes, and `?` matches one character.
    """

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """Whether a table at the path counts."""
        return any(fnmatchcase(path, each) for each in self.include) and not self._drops(path)

    def takes_within(self, directory: str) -> bool:
        """Whether a table in the directory may count; False if `exclude` rules all of them out."""
        return not self._drops(f"{directory}/")

    def _drops(self, path: str) -> bool:
        return any(fnmatchcase(path, each) for each in self.exclude)


def find_lake_tables(
    root: str, storage_options: Mapping[str, Any], wanted: PathFilter
) -> list[LakeTable]:
    """The tables below a prefix, by their paths, with the columns that they have at this time.

    A table that cannot be opened is one all the same, and a warning: its checks will tell.

    Args:
        storage_options: With the values of their variables.

    Raises:
        StorageError: The prefix, or a directory that is not excluded, cannot be looked into: to go
            on would let its tables vanish.
    """
    storage = open_storage(root, storage_options)
    found = find_tables_in(storage, nested=False)
    top = storage.locate("")
    for place, failure in found.failures.items():
        if wanted.takes_within(_path_below(top, place)):
            raise StorageError(
                place,
                "searched for tables",
                f"{failure.message} Give access to it, or exclude it",
            )
    paths = sorted(_path_below(top, place) for place in found.tables)
    todo = [path for path in paths if wanted.takes(path)]
    look = partial(_look_at, root, storage_options)
    # A disk lets nobody wait, and threads that compute only hinder each other.
    return list(map(look, todo)) if storage.has_native_input else run_parallel(look, todo)


def table_address(root: str, path: str) -> str:
    """The address of the table at a path below the prefix."""
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
        InvalidRequestError: The file is not of this version of delta_ops.
    """
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        if state["format"] != _FORMAT:
            raise ValueError(f"it has the format {state['format']!r}")
        return [_table_from_row(row) for row in state["tables"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRequestError(
            f"{file} is no state of tables that this version of delta_ops can read ({error}); make "
            "it anew by: dg utils refresh-defs-state"
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
    except Exception as error:  # one table must not keep the others from being found
        logger.warning("A table was found that cannot be opened: %s", failure_of(error).message)
        return LakeTable(path=path)
