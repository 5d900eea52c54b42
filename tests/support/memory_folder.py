"""Folders in memory, for tests that write thousands of small files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")


def place_in_memory(least_bytes: int) -> Path | None:
    """Where folders are in memory; None if there is less space, as in some containers."""
    if not os.access(_IN_MEMORY, os.W_OK):
        return None
    return _IN_MEMORY if shutil.disk_usage(_IN_MEMORY).free >= least_bytes else None


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder that is deleted afterwards; on the disk if there is no space for it in memory."""
    place = place_in_memory(1 << 28)
    with tempfile.TemporaryDirectory(prefix="delta-ops-", dir=place) as folder:
        yield Path(folder)
