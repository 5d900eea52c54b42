"""Own files: files created once, and recognized as the caller's own when an answer was lost.

If an answer is lost, the client sends the request again and gets the error that the file exists.
Then the bytes decide: a file with the caller's bytes counts as created by the caller. This does not
hold for commits: two writers may commit the same bytes, so `commit` compares transaction ids.
"""

from __future__ import annotations

from delta_ops.errors import StorageError
from delta_ops.storage.contract import Storage


def create_own(storage: Storage, path: str, data: bytes) -> bool:
    """Create a file durably, unless a file with other bytes has its name.

    Returns:
        Whether the file has these bytes.

    Raises:
        StorageError: The store failed. The file may exist.
    """
    try:
        storage.create(path, data)
    except FileExistsError as error:
        return _read_existing(storage, path, error) == data
    return True


def create_unique(storage: Storage, path: str, data: bytes) -> None:
    """Create a file durably under a random name that no other writer uses.

    Raises:
        StorageError: The store failed, or a file with other bytes has the name. No log names the
            file, and vacuum deletes it.
    """
    if not create_own(storage, path, data):
        raise StorageError(
            storage.locate(path),
            "created",
            "another file has this random name; run the operation again",
        )


def _read_existing(storage: Storage, path: str, error: FileExistsError) -> bytes:
    try:
        return storage.read(path)
    except FileNotFoundError:
        reason = "the store reported that it exists, then that it does not; run the operation again"
        raise StorageError(storage.locate(path), "created", reason) from error
