"""Unchanging files: reads them through this machine's cache, or else from the store.

Only for files whose content never changes while their path, size and etag or time stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.storage.contract import FileInfo, Readable


def read_unchanging(
    storage: Readable, file: FileInfo, ranges: Sequence[tuple[int, int]]
) -> list[bytes]:
    """Read ranges like `Storage.read_ranges`; caches the ranges that were not cached yet."""
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
    """Read a file of known size like `Storage.read`; caches it if it has that size."""
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
    """Drop a file that cannot be decoded from the cache; it is then read from the store again."""
    kept = storage.kept_ranges(file)
    if kept is not None:
        kept.forget()
