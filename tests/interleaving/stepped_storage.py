"""A test double: an operation's storage that waits for its turn before each call.

A streamed file is produced before it is created, so its producer's calls come first. Several files
are deleted one after the other, each in a call of its own, because no store deletes them
atomically.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import IO, Any

import pyarrow as pa

from delta_ops.errors import StorageError
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.contract import OnLink, Wanted
from delta_ops.storage.range_cache import KeptRanges
from tests.interleaving.calls import Call
from tests.interleaving.late_listing import Journal

Turn = Callable[[Call], AbstractContextManager[None]]
"""Wraps a call: waits before it, and may raise instead of it or after it."""


class SteppedStorage:
    """`inner`, for one operation.

    Args:
        turn: Wraps each call.
        journal: Records changes, so that listings may be late.
    """

    def __init__(self, inner: Storage, turn: Turn, journal: Journal) -> None:
        self._inner, self._turn, self._journal = inner, turn, journal

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def client_options(self) -> Mapping[str, Any]:
        return self._inner.client_options

    @property
    def endpoint(self) -> str | None:
        return self._inner.endpoint

    @property
    def has_native_input(self) -> bool:
        return self._inner.has_native_input

    def kept_ranges(self, file: FileInfo) -> KeptRanges | None:
        return self._inner.kept_ranges(file)

    def locate(self, path: str) -> str:
        return self._inner.locate(path)

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        with self._turn(Call(method="list_from", lists=frozenset({directory}))):
            listed = list(self._inner.list_from(directory, start))
            late = self._journal.late()
            return iter(late.shown_directly(directory, start, listed))

    def list_tree(
        self, directory: str, wanted: Wanted | None = None, on_link: OnLink | None = None
    ) -> Iterator[FileInfo]:
        with self._turn(Call(method="list_tree", trees=frozenset({directory}))):
            late = self._journal.late()
            chosen = None if wanted is None else late.only_shown(wanted)
            listed = list(self._inner.list_tree(directory, chosen, on_link))
            return iter(late.shown_below(directory, listed, wanted))

    def find(self, paths: Iterable[str]) -> Iterator[FileInfo]:
        named = list(paths)
        with self._turn(Call(method="find", reads=frozenset(named))):
            return iter(list(self._inner.find(named)))

    def list_directories(self, directory: str) -> list[str]:
        with self._turn(Call(method="list_directories", trees=frozenset({directory}))):
            return self._inner.list_directories(directory)

    def is_directory(self, path: str) -> bool:
        with self._turn(Call(method="is_directory", trees=frozenset({path}))):
            return self._inner.is_directory(path)

    def stat(self, path: str) -> FileInfo:
        with self._turn(Call(method="stat", reads=frozenset({path}))):
            return self._inner.stat(path)

    def read(self, path: str) -> bytes:
        with self._turn(Call(method="read", reads=frozenset({path}))):
            return self._inner.read(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        with self._turn(Call(method="read_ranges", reads=frozenset({path}))):
            return self._inner.read_ranges(path, ranges)

    def open_input(self, path: str) -> pa.NativeFile:
        with self._turn(Call(method="open_input", reads=frozenset({path}))):
            return self._inner.open_input(path)

    @contextmanager
    def holding_lock(self, path: str) -> Iterator[Storage]:
        with self._inner.holding_lock(path) as inner:
            yield SteppedStorage(inner, self._turn, self._journal)

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:
        with self._turn(_write("create", path)), self._journal.noting(path):
            self._inner.create(path, data, is_durable=is_durable)

    def create_from_stream(
        self, path: str, write: Callable[[IO[bytes]], None], *, is_durable: bool = True
    ) -> FileInfo:
        made = _Kept()
        write(made)
        made.close()
        with self._turn(_write("create_from_stream", path)), self._journal.noting(path):
            return self._inner.create_from_stream(
                path, lambda stream: _copy(made.content, stream), is_durable=is_durable
            )

    def replace(self, path: str, data: bytes) -> None:
        with self._turn(_write("replace", path)), self._journal.noting(path):
            self._inner.replace(path, data)

    def persist(self, paths: Iterable[str]) -> None:
        named = list(paths)
        with self._turn(Call(method="persist", reads=frozenset(named))):
            self._inner.persist(named)

    def delete(self, path: str) -> None:
        with self._turn(_write("delete", path)), self._journal.noting(path):
            self._inner.delete(path)

    def delete_many(self, paths: Iterable[str]) -> list[str]:
        failed: list[str] = []
        for path in list(paths):
            try:
                with self._turn(_write("delete_many", path)), self._journal.noting(path):
                    failed += self._inner.delete_many([path])
            except StorageError:  # of this one: the answer was lost
                failed.append(path)
        return failed

    def delete_at_once(self, paths: Iterable[str]) -> None:
        """Delete as a move of the directory would; no store offers this call."""
        named = frozenset(paths)
        with self._turn(Call(method="delete_at_once", writes=named)):
            for path in sorted(named):
                with self._journal.noting(path):
                    self._inner.delete(path)

    def delete_empty(self, directories: Iterable[str], before_ms: int) -> list[str]:
        named = [directory.rstrip("/") for directory in directories]
        call = Call(method="delete_empty", writes=frozenset(named), trees=frozenset(named))
        with self._turn(call):
            return self._inner.delete_empty(named, before_ms)


def _write(method: str, path: str) -> Call:
    return Call(method=method, writes=frozenset({path}))


def _copy(content: bytes, stream: IO[bytes]) -> None:
    stream.write(content)


class _Kept(io.BytesIO):
    """A buffer that keeps its content after it is closed."""

    content = b""

    def close(self) -> None:
        if not self.closed:
            self.content = self.getvalue()
        super().close()
