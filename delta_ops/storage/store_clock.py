"""Store clock: reads the clock that sets the times of a store's files.

The age of a file is the difference of two times, and both must come from the store's clock. With
the clock of a machine that is ahead, files that are being written would count as old.
"""

from __future__ import annotations

from delta_ops.storage.contract import Storage
from delta_ops.storage.paths import OWN_DIRECTORY, staged_name


def store_time_ms(storage: Storage) -> int:
    """Milliseconds since the Unix epoch; creates a file, reads its time and deletes it.

    Raises:
        StorageError: The store cannot be written to.
    """
    path = f"{OWN_DIRECTORY}/{staged_name()}"
    try:
        storage.replace(path, b"")
        return storage.stat(path).modified_ms
    finally:
        storage.delete(path)
