"""Store clock: reads the clock that sets the times of a store's files.

The age of a file is the difference of two times, and both must come from the store's clock. With
the clock of a machine that is ahead, files that are being written would count as old.
"""

from __future__ import annotations

from delta_ops.errors import StorageError
from delta_ops.storage.contract import Storage
from delta_ops.storage.paths import OWN_DIRECTORY, staged_name


def store_time_ms(storage: Storage) -> int:
    """Milliseconds since the Unix epoch; creates a file, reads its time and deletes it.

    Raises:
        StorageError: The store cannot be written to, or another process deleted the file.
    """
    path = f"{OWN_DIRECTORY}/{staged_name()}"
    try:
        storage.replace(path, b"")
        return storage.stat(path).modified_ms
    except FileNotFoundError as error:
        reason = "another process deleted it, perhaps with its table; rerun the operation"
        raise StorageError(storage.locate(path), "read", reason) from error
    finally:
        storage.delete(path)
