"""Fresh listings: a file that a concurrent clean-up deletes between listing and reading is no
damage, since a new listing tells what took its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from delta_ops.errors import LogCorruptError
from delta_ops.storage import Storage

T = TypeVar("T")

_LISTINGS = 3


def retry_if_vanished(storage: Storage, log_directory: str, look: Callable[[], T]) -> T:
    """What `look`, which lists the log and reads what it finds, returns.

    Raises:
        LogCorruptError: Files that are listed vanish again and again.
    """
    for _ in range(_LISTINGS):
        try:
            return look()
        except FileNotFoundError as error:
            gone = error
    reason = f"files that are listed cannot be found when they are read ({gone})"
    raise LogCorruptError(storage.uri, log_directory, reason) from gone
