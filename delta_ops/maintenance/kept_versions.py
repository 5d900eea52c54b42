"""Kept versions: the versions that a caller keeps, and the versions of the table's tags."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from delta_ops.errors import VersionNotFoundError
from delta_ops.log.refs.refs import refs_journal
from delta_ops.storage import Storage


class KeptVersions(Collection[int]):
    """Versions that must stay readable; both sources are read again at each use.

    Args:
        storage: The storage of the table.
        chosen: Versions that the caller keeps; may change.
    """

    def __init__(self, storage: Storage, chosen: Collection[int]) -> None:
        self._storage = storage
        self._chosen = chosen

    def load(self) -> frozenset[int]:
        """The versions at this moment."""
        tags = refs_journal(self._storage).load().state.tags.values()
        return frozenset(self._chosen) | {tag.version for tag in tags}

    def __iter__(self) -> Iterator[int]:
        return iter(self.load())

    def __len__(self) -> int:
        return len(self.load())

    def __contains__(self, version: object) -> bool:
        return version in self.load()


@contextmanager
def naming_tags(storage: Storage) -> Iterator[None]:
    """Name the tag in an error about a version that must be kept and cannot be read."""
    try:
        yield
    except VersionNotFoundError as error:
        tags = refs_journal(storage).load().state.tags.values()
        names = [tag.name for tag in tags if error.requested == f"version {tag.version}"]
        if not names:
            raise
        raise VersionNotFoundError(
            error.table,
            f"{error.requested} (tag {names[0]})",
            f"{error.reason}; nothing was deleted. Restore the log from a backup, or delete the "
            "tag with versioning.delete_tag",
        ) from error
