"""The states of a table that a killed operation can leave, each of them once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from delta_ops.storage import Storage
from tests.support.faulty_storage import crashes

_UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}")


def crash_states(
    fresh: Callable[[], Storage], run: Callable[[Storage], object]
) -> Iterator[tuple[str, Storage]]:
    """Run an operation killed before and after each of its calls; yield each state that this left.

    Most calls only read, so that many kills leave the same files. Of these the first is yielded.

    Args:
        fresh: A storage in the state to begin with, anew for each run.
        run: The operation.
    """
    seen = set()
    for where, storage in crashes(fresh, run):
        state = files_left(storage)
        if state not in seen:
            seen.add(state)
            yield where, storage


def files_left(storage: Storage) -> tuple[tuple[str, int, bytes], ...]:
    """Names but for their UUIDs, sizes, and the hint, which keeps its size when it changes."""
    return tuple(
        sorted(
            (
                _UUID.sub("*", info.path),
                info.size,
                storage.read(info.path) if info.path.endswith("_last_checkpoint") else b"",
            )
            for info in storage.list_tree("")
        )
    )
