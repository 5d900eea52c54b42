"""The distinct states of a table that a killed operation can leave."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from delta_ops.storage import Storage
from tests.support.faulty_storage import crashes

_UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}")


def crash_states(
    fresh: Callable[[], Storage], run: Callable[[Storage], object]
) -> Iterator[tuple[str, Storage]]:
    """Run an operation killed before and after each of its calls; yield each distinct state.

    Most calls only read, so many kills leave the same files. Only the first such state is yielded.

    Args:
        fresh: Makes a storage in the initial state for each run.
        run: The operation.
    """
    seen = set()
    for where, storage in crashes(fresh, run):
        state = files_left(storage)
        if state not in seen:
            seen.add(state)
            yield where, storage


def files_left(storage: Storage) -> tuple[tuple[str, int, bytes], ...]:
    """Names without UUIDs, sizes, and the hint's content, whose size does not change."""
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
