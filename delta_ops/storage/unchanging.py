"""Unchanging files: read from this machine's cache where the storage has one, else from the store.

Only for files whose content never changes under the identity that their listing, or what refers to
them, has of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.storage.contract import FileInfo, Readable


def read_unchanging(
    storage: Readable, file: FileInfo, ranges: Sequence[tuple[int, int]]
) -> list[bytes]:
    """Like `Storage.read_ranges`; what the cache lacks is asked for, and kept."""
    kept = storage.kept_ranges(file)
    if kept is None:
        return storage.read_ranges(file.path, ranges)
    loaded = {each: kept.load(*each) for each in ranges}
    missing = [each for each, data in loaded.items() if data is None]
    read: dict[tuple[int, int], bytes] = {}
    if missing:
        read = dict(zip(missing, storage.read_ranges(file.path, missing), strict=True))
        kept.keep(read)
    return [read[each] if (data := loaded[each]) is None else data for each in ranges]


def read_unchanging_whole(storage: Readable, file: FileInfo) -> bytes:
    """Like `Storage.read`, of a file whose size is known; kept if it has that size."""
    kept = storage.kept_ranges(file)
    if kept is None:
        return storage.read(file.path)
    data = kept.load(0, file.size)
    if data is None:
        data = storage.read(file.path)
        if len(data) == file.size:
            kept.keep({(0, file.size): data})
    return data


def forget_unchanging(storage: Readable, file: FileInfo) -> None:
    """Keep nothing of a file that cannot be decoded: the store is asked for it again."""
    kept = storage.kept_ranges(file)
    if kept is not None:
        kept.forget()
