"""Call sites: stops PySpark from recording the source line of each DataFrame step.

PySpark records it for error messages. Recording takes several JVM calls, more than the step itself;
in a merge about as many as all other calls. Steps inside an engine are not user code, so they are
not recorded. PySpark has a setting for this (`spark.python.sql.dataFrameDebugging.enabled`), but
reads it only once in a process. Its cached value is therefore changed here, for all threads, until
the last engine call ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import utils

REMEMBERED = "_enable_debugging_cache"


class _Keeping:
    """Number of active calls without call sites, and PySpark's cached value before the first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.num_users = 0
        self.before: bool | None = None


_keeping = _Keeping()


def _free_lock() -> None:
    """Recreate the lock in a forked child, because a thread of the parent may have held it."""
    _keeping.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_lock)


@contextmanager
def omitting_call_sites() -> Iterator[None]:
    """Stop PySpark from recording call sites.

    A PySpark version without the cached value still records them.
    """
    if not hasattr(utils, REMEMBERED):
        yield
        return
    with _keeping.lock:
        _keeping.num_users += 1
        if _keeping.num_users == 1:
            _keeping.before = getattr(utils, REMEMBERED)
            setattr(utils, REMEMBERED, False)
    try:
        yield
    finally:
        with _keeping.lock:
            _keeping.num_users -= 1
            if not _keeping.num_users:
                setattr(utils, REMEMBERED, _keeping.before)
