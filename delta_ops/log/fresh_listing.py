"""Fresh listings: lists the log again if a clean-up deletes files between listing and reading.

Such a missing file is not damage: a new listing shows the files that replaced it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from delta_ops.errors import LogCorruptError
from delta_ops.storage import Storage

T = TypeVar("T")

_LISTINGS = 3


def retry_if_vanished(storage: Storage, log_directory: str, look: Callable[[], T]) -> T:
    """Call `look`, and call it again if a listed file is gone.

    Args:
        look: Lists the log and reads the listed files.

    Raises:
        LogCorruptError: Listed files are missing in each of several attempts.
    """
    for _ in range(_LISTINGS):
        try:
            return look()
        except FileNotFoundError as error:
            gone = error
    reason = f"files that are listed cannot be found when they are read ({gone})"
    raise LogCorruptError(storage.uri, log_directory, reason) from gone
