"""Bad paths: where in the log the path of a file stands of which something is wrong.

Which file of the log a path came from is not kept while millions are replayed; it is looked up for
the one that is wrong.
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
    """Errors of paths, with the place that `place_of` tells of the path."""
    try:
        yield
    except LogPathError as error:
        place = f"{place_of(error.file)}, path {error.file}"
        raise LogCorruptError(error.table, place, error.reason) from error


def line_of_path(storage: Storage, directory: str, versions: Iterable[int], log_path: str) -> str:
    """The first of these commits that names the path, with its line; else the directory."""
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
