"""Ranges missing from the cache are read from the store, and only those ranges."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from delta_ops.errors import StorageError
from delta_ops.storage import FileInfo, RangeCache, Storage, open_storage
from delta_ops.storage.range_cache import KeptRanges
from delta_ops.storage.unchanging import (
    forget_unchanging,
    read_unchanging,
    read_unchanging_whole,
)
from tests.support.counting_storage import CountingStorage

CONTENT = bytes(range(100))
FILE = FileInfo("a", len(CONTENT), 0)


class CachedStorage(CountingStorage):
    """A store with a cache, and the ranges read from the store; None for a whole file."""

    def __init__(self, inner: Storage, cache: RangeCache) -> None:
        super().__init__(inner, lambda *_: None)
        self.requests: list[Sequence[tuple[int, int]] | None] = []
        self._cache = cache

    def kept_ranges(self, file: FileInfo) -> KeptRanges:
        return KeptRanges(self._cache, [file.path, file.size])

    def read(self, path: str) -> bytes:
        self.requests.append(None)
        return super().read(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.requests.append(ranges)
        return super().read_ranges(path, ranges)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[CachedStorage]:
    inner = open_storage(f"memory://{uuid.uuid4().hex}/t")
    inner.replace("a", CONTENT)
    yield CachedStorage(inner, RangeCache(tmp_path / "cache"))
    inner.delete("a")


def test_only_what_is_missing_is_requested(storage: CachedStorage) -> None:
    first, second, third = (0, 10), (20, 20), (5, 30)
    read_unchanging(storage, FILE, [second, first])
    ranges = [third, first, second, third]
    for _ in range(2):
        assert read_unchanging(storage, FILE, ranges) == [CONTENT[a:b] for a, b in ranges]
    assert storage.requests == [[second, first], [third]]


def test_a_whole_file_is_read_by_one_request_and_kept(storage: CachedStorage) -> None:
    assert [read_unchanging_whole(storage, FILE) for _ in range(2)] == [CONTENT] * 2
    assert storage.requests == [None]
    assert read_unchanging(storage, FILE, [(0, 100)]) == [CONTENT]


@pytest.mark.parametrize("size", [99, 101])
def test_a_file_of_another_size_than_was_listed_is_not_kept(
    storage: CachedStorage, size: int
) -> None:
    file = FileInfo("a", size, 0)
    assert [read_unchanging_whole(storage, file) for _ in range(2)] == [CONTENT] * 2
    assert storage.requests == [None, None]


def test_a_read_that_fails_leaves_nothing(storage: CachedStorage) -> None:
    with pytest.raises(StorageError):
        read_unchanging(storage, FILE, [(0, 10), (90, 110)])
    assert read_unchanging(storage, FILE, [(0, 10)]) == [CONTENT[:10]]
    assert storage.requests == [[(0, 10), (90, 110)], [(0, 10)]]


def test_a_forgotten_value_is_requested_again(storage: CachedStorage) -> None:
    read_unchanging(storage, FILE, [(0, 10)])
    forget_unchanging(storage, FILE)
    read_unchanging(storage, FILE, [(0, 10)])
    assert storage.requests == [[(0, 10)]] * 2
