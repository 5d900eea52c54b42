"""Store clock: the time by which a store dates its files.

The age of a file is the difference of two times. If one were the store's and the other that of a
machine whose clock is ahead, files would count as old that are being written.
"""

from __future__ import annotations

from delta_ops.storage.contract import Storage
from delta_ops.storage.paths import staged_name
from delta_ops.storage.remote.probe import PROBES


def store_time_ms(storage: Storage) -> int:
    """Milliseconds since the Unix epoch, from a file that is created, looked at and deleted.

    Raises:
        StorageError: The store cannot be written to.
    """
    path = f"{PROBES}/{staged_name()}"
    try:
        storage.replace(path, b"")
        return storage.stat(path).modified_ms
    finally:
        storage.delete(path)
