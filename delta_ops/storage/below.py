"""Storage of a directory below the root of another storage, such as a table inside a table's root.

It has no client of its own, and uses the requests, locks and caches of the other storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from delta_ops.storage.contract import FileInfo, OnLink, Storage, Wanted
from delta_ops.storage.paths import validate
from delta_ops.storage.range_cache import KeptRanges


@dataclass(frozen=True, slots=True)
class StorageBelow:
    """The storage rooted at a directory of `outer`; see `Storage` for the methods."""

    outer: Storage
    directory: str
    """Relative to the root of `outer`."""

    @property
    def uri(self) -> str:
        """See `Readable`."""
        return f"{self.outer.uri.rstrip('/')}/{self.directory}"

    @property
    def client_options(self) -> Mapping[str, Any]:
        """See `Readable`."""
        return self.outer.client_options

    @property
    def endpoint(self) -> str | None:
        """See `Readable`."""
        return self.outer.endpoint

    @property
    def has_native_input(self) -> bool:
        """See `Readable`."""
        return self.outer.has_native_input

    def kept_ranges(self, file: FileInfo) -> KeptRanges | None:
        """See `Readable`."""
        return self.outer.kept_ranges(file._replace(path=self._outer(file.path)))

    def locate(self, path: str) -> str:
        """See `Readable`."""
        return self.outer.locate(self._outer(path))

    def stat(self, path: str) -> FileInfo:
        """See `Readable`."""
        return self._inner(self.outer.stat(self._outer(path)))

    def read(self, path: str) -> bytes:
        """See `Readable`."""
        return self.outer.read(self._outer(path))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Readable`."""
        return self.outer.read_ranges(self._outer(path), ranges)

    def open_input(self, path: str) -> pa.NativeFile:
        """See `Readable`."""
        return self.outer.open_input(self._outer(path))

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        """See `Storage`."""
        return map(self._inner, self.outer.list_from(self._outer(directory), start))

    def list_tree(
        self, directory: str, wanted: Wanted | None = None, on_link: OnLink | None = None
    ) -> Iterator[FileInfo]:
        """See `Storage`."""

        def choose(paths: Sequence[str]) -> list[str]:
            assert wanted is not None
            by_inner = {self._relative_path(each): each for each in paths}
            return [by_inner[each] for each in wanted(list(by_inner))]

        def pass_link(link: str, target: str | None) -> None:
            assert on_link is not None
            on_link(self._relative_path(link), self._target(target))

        found = self.outer.list_tree(
            self._outer(directory),
            None if wanted is None else choose,
            None if on_link is None else pass_link,
        )
        return map(self._inner, found)

    def find(self, paths: Iterable[str]) -> Iterator[FileInfo]:
        """See `Storage`."""
        return map(self._inner, self.outer.find(map(self._outer, paths)))

    def list_directories(self, directory: str) -> list[str]:
        """See `Storage`."""
        return [*map(self._relative_path, self.outer.list_directories(self._outer(directory)))]

    def is_directory(self, path: str) -> bool:
        """See `Storage`."""
        return self.outer.is_directory(self._outer(path))

    @contextmanager
    def holding_lock(self, path: str) -> Iterator[Storage]:
        """See `Storage`."""
        with self.outer.holding_lock(self._outer(path)) as held:
            yield StorageBelow(held, self.directory)

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:
        """See `Storage`."""
        self.outer.create(self._outer(path), data, is_durable=is_durable)

    def create_from_stream(
        self, path: str, write: Callable[[IO[bytes]], None], *, is_durable: bool = True
    ) -> FileInfo:
        """See `Storage`."""
        return self._inner(
            self.outer.create_from_stream(self._outer(path), write, is_durable=is_durable)
        )

    def replace(self, path: str, data: bytes) -> None:
        """See `Storage`."""
        self.outer.replace(self._outer(path), data)

    def persist(self, paths: Iterable[str]) -> None:
        """See `Storage`."""
        self.outer.persist(map(self._outer, paths))

    def delete(self, path: str) -> None:
        """See `Storage`."""
        self.outer.delete(self._outer(path))

    def delete_many(self, paths: Iterable[str]) -> list[str]:
        """See `Storage`."""
        return [*map(self._relative_path, self.outer.delete_many(map(self._outer, paths)))]

    def delete_empty(self, directories: Iterable[str], before_ms: int) -> list[str]:
        """See `Storage`."""
        deleted = self.outer.delete_empty(map(self._outer, directories), before_ms)
        inner = f"{self.directory}/"
        return [self._relative_path(each) for each in deleted if each.startswith(inner)]

    def _outer(self, path: str) -> str:
        return f"{self.directory}/{validate(path)}" if path else self.directory

    def _relative_path(self, path: str) -> str:
        return path.removeprefix(self.directory).removeprefix("/")

    def _inner(self, file: FileInfo) -> FileInfo:
        return file._replace(path=self._relative_path(file.path))

    def _target(self, target: str | None) -> str | None:
        """The target of a link by its path below this root; None for a target outside of it."""
        if target == self.directory:
            return ""
        inside = target is not None and target.startswith(f"{self.directory}/")
        return self._relative_path(target or "") if inside else None
