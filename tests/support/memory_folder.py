"""A folder in memory, for tests that copy tables thousands of times."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")
_LEAST_BYTES = 1 << 28
"""Containers may have a smaller one."""


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder that is deleted afterwards; on the disk if there is no space for it in memory."""
    has_space = (
        os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free >= _LEAST_BYTES
    )
    place = _IN_MEMORY if has_space else None
    with tempfile.TemporaryDirectory(prefix="delta-ops-", dir=place) as folder:
        yield Path(folder)
