"""Version checksums as a check: what `n.crc` says has to agree with the log.

Source: PROTOCOL.md, "Version Checksum File".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from delta_ops.errors import LogCorruptError
from delta_ops.log.checksum_read import VersionChecksum, differences, load_checksum
from delta_ops.log.snapshot import Snapshot


def validate_checksum(snapshot: Snapshot) -> bool:
    """Compare the snapshot with its checksum; whether there is one.

    Raises:
        LogCorruptError: They disagree.
    """
    said = load_checksum(snapshot.storage, snapshot.log_directory, snapshot.version)
    if said is None:
        return False
    for what, value, found in _differences(said, snapshot):
        raise LogCorruptError(
            snapshot.uri,
            said.path,
            f"it says that {what} is {value}, and by the log it is {found}; one of them is "
            "damaged: compare with a backup before anything is deleted",
        )
    return True


def _differences(said: VersionChecksum, snapshot: Snapshot) -> Iterator[tuple[str, Any, Any]]:
    for what, value, found in (
        ("numFiles", said.num_files, snapshot.num_files),
        ("tableSizeBytes", said.table_size_bytes, snapshot.size_bytes),
    ):
        if value is not None and value != found:
            yield what, value, found
    yield from differences(said, snapshot.protocol, snapshot.metadata)
