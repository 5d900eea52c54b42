"""Returns memory that a finished test file no longer needs to the system.

Each process of a run imports Dagster, pyarrow and pandas and runs thousands of tests. Their peaks
would add up, because allocators keep freed memory.
"""

from __future__ import annotations

import ctypes
import gc
import sys


def ignore_present_objects() -> None:
    """Exclude the objects of all imports and collected tests from later garbage collections.

    They stay until the end anyway, and going through them takes almost a second each time.
    """
    gc.collect()
    gc.freeze()


def release_memory() -> None:
    """Collect garbage, and return freed memory of Arrow and of the C library to the system.

    The objects that remain, mostly of new imports, are excluded from later collections.
    """
    gc.collect()
    gc.freeze()
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
