"""Path errors: finds the log file and line of an invalid path.

Replay reads millions of paths and does not record the log file of each. The file is looked up only
for a wrong path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from delta_ops.errors import LogCorruptError, LogPathError
from delta_ops.protocol.file_names import commit_name
from delta_ops.storage import Storage


@contextmanager
def naming_place(place_of: Callable[[str], str]) -> Iterator[None]:
    """Context that adds log file and line, from `place_of`, to errors about a path."""
    try:
        yield
    except LogPathError as error:
        place = f"{place_of(error.file)}, path {error.file}"
        raise LogCorruptError(error.table, place, error.reason) from error


def line_of_path(storage: Storage, directory: str, versions: Iterable[int], log_path: str) -> str:
    """Find the commit file and line that name a path; the log directory if none does."""
    for version in versions:
        name = f"{directory}/{commit_name(version)}"
        for number, line in enumerate(_lines(storage, name), start=1):
            if log_path in _paths(line):
                return f"{name}, line {number}"
    return directory


def _lines(storage: Storage, name: str) -> list[bytes]:
    try:
        return storage.read(name).split(b"\n")
    except FileNotFoundError:
        return []


def _paths(line: bytes) -> list[Any]:
    try:
        return [body["path"] for body in json.loads(line).values()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []
