"""Finds the tables below a prefix.

A directory with a directory `_delta_log` is a table. `_delta_log` is looked up first, so the files
of a table are not listed. Links are skipped, because they may lead anywhere or to a table that is
found already. Names that begin with "_" or "." are skipped, because they belong to programs. Tables
within the directory of another table are found only on request.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import DeltaOpsError
from delta_ops.log.delta_log import LOG_DIRECTORY
from delta_ops.maintenance.fleet.failures import Failure, failure_of
from delta_ops.storage import Storage, open_storage
from delta_ops.storage.concurrency import run_parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTables:
    """The tables below a prefix."""

    tables: tuple[str, ...]
    """URIs or local paths, ordered."""
    failures: Mapping[str, Failure]
    """Directories that could not be listed, by place."""


def find_tables(
    prefix: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    nested: bool = False,
) -> FoundTables:
    """The tables at and below a prefix.

    Args:
        prefix: A local directory or a URI, as `DeltaLog` takes it.
        storage_options: For fsspec's file system.
        nested: Also search the directories of tables, which lists their data directories.

    Raises:
        InvalidRequestError: The prefix is not a valid location.
        StorageError: The prefix itself cannot be listed.

    Examples:
        >>> _ = da.write("lake/sales/visits", pa.table({"id": [1]}))
        >>> [table.rpartition("lake/")[2] for table in find_tables("lake").tables]
        ['orders', 'sales/visits']
    """
    validate_arguments(find_tables, locals())
    return find_tables_in(open_storage(prefix, storage_options), nested=nested)


def find_tables_in(storage: Storage, *, nested: bool) -> FoundTables:
    """The tables below the root of a storage; see `find_tables`."""
    found: list[str] = []
    failures: dict[str, Failure] = {}
    level = [""]
    while level:
        looks = run_parallel(partial(_look_into, storage, nested), level)
        below: list[str] = []
        for directory, (is_table, inner, failure) in zip(level, looks, strict=True):
            if is_table:
                found.append(storage.locate(directory))
            if failure is not None:
                failures[_shown_place(storage, directory)] = failure_of(failure)
                if not directory:
                    raise failure
            below += inner
        level = below
    return FoundTables(tables=tuple(sorted(found)), failures=failures)


def _shown_place(storage: Storage, directory: str) -> str:
    """The location of a directory for messages, even if it is not a valid path."""
    place = f"{storage.uri.rstrip('/')}/{directory}" if directory else storage.uri
    return place.encode(errors="backslashreplace").decode()


def _look_into(
    storage: Storage, nested: bool, directory: str
) -> tuple[bool, list[str], DeltaOpsError | None]:
    """Whether a directory is a table, and the directories below it to search."""
    log_directory = f"{directory}/{LOG_DIRECTORY}" if directory else LOG_DIRECTORY
    is_table = False
    try:
        is_table = storage.is_directory(log_directory)
        if is_table and not nested:
            return True, [], None
        inner = storage.list_directories(directory)
    except DeltaOpsError as error:
        return is_table, [], error
    shown = [path for path in inner if not path.rpartition("/")[2].startswith(("_", "."))]
    return is_table, shown, None
