"""Late imports: packages imported when they are first needed, and forks that wait for them.

Python locks a module until it is imported. A child of a fork that happens meanwhile has the lock
and not the thread that would give it back: it waits for ever as soon as it imports the same. So a
fork waits for the late imports of other threads; for the client of a store that is a second or two.
Imports do not wait for each other.
"""

from __future__ import annotations

# Both take a lock before a fork, too. The last to register is the first: it must be this one, since
# an import may want theirs.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST_WAIT_S = 10
"""After which a process is forked all the same: an import may itself wait for who forks."""

_changed = threading.Condition()
_importing: set[int] = set()
"""Threads by their identifiers."""


@contextmanager
def importing() -> Iterator[None]:
    """A lock to be held while a package is imported; not within itself."""
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
    this_thread = threading.get_ident()  # which may fork while it imports
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
