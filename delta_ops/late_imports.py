"""Late imports: import packages on first use, and make forks wait for such imports.

Python locks a module during its import. A child process forked meanwhile inherits the lock, but not
the thread that would release it: it waits forever when it imports the same module. A fork therefore
waits for late imports in other threads; for the client of a store this takes a second or two.
Imports do not wait for each other.
"""

from __future__ import annotations

# Both modules take a lock before a fork, too. The last registered function runs first, and it must
# be ours, since an import may need their locks.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST_WAIT_S = 10
"""Then the process forks anyway, since an import may itself wait for the forking thread."""

_changed = threading.Condition()
_importing: set[int] = set()
"""Identifiers of the importing threads."""


@contextmanager
def importing() -> Iterator[None]:
    """Make forks wait while the block imports a package; not reentrant."""
    this_thread = threading.get_ident()
    with _changed:
        _importing.add(this_thread)
    try:
        yield
    finally:
        with _changed:
            _importing.discard(this_thread)
            _changed.notify_all()


def _await_imports() -> None:
    this_thread = threading.get_ident()  # the forking thread may itself be importing
    _changed.acquire()
    _changed.wait_for(lambda: _importing <= {this_thread}, _LONGEST_WAIT_S)


def _go_on_in_child() -> None:
    _importing.intersection_update({threading.get_ident()})
    _changed.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_await_imports,
        after_in_parent=_changed.release,
        after_in_child=_go_on_in_child,
    )
