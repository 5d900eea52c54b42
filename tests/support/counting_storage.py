"""A test double: a storage that numbers its calls and lets a test act before and after each.

Meant for crash points: `on_call` may raise, or kill the process, at any call of an operation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import IO, Any, Literal

import pyarrow as pa

from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.contract import OnLink, Wanted
from delta_ops.storage.range_cache import KeptRanges

OnCall = Callable[[int, str, str, Literal["before", "after"]], None]
"""Takes the number of the call from 1, the method, its path, and the moment.

The path is a listing's directory, and "" for methods that take several paths.
"""


class CountingStorage:
    """`inner`, with `on_call` around each call that reaches the store.

    "after" comes when the call raised too. A listing is read to its end between the two moments.
    `uri`, `locate`, `has_native_input` and `kept_ranges` reach no store and are not counted.
    """

    def __init__(self, inner: Storage, on_call: OnCall) -> None:
        self.inner = inner
        self.on_call = on_call
        self.num_calls = 0
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def client_options(self) -> Mapping[str, Any]:
        return self.inner.client_options

    @property
    def endpoint(self) -> str | None:
        return self.inner.endpoint

    @property
    def has_native_input(self) -> bool:
        return self.inner.has_native_input

    def kept_ranges(self, file: FileInfo) -> KeptRanges | None:
        return self.inner.kept_ranges(file)

    def locate(self, path: str) -> str:
        return self.inner.locate(path)

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        with self._counting("list_from", directory):
            return iter(list(self.inner.list_from(directory, start)))

    def list_tree(
        self, directory: str, wanted: Wanted | None = None, on_link: OnLink | None = None
    ) -> Iterator[FileInfo]:
        with self._counting("list_tree", directory):
            return iter(list(self.inner.list_tree(directory, wanted, on_link)))

    def find(self, paths: Iterable[str]) -> Iterator[FileInfo]:
        with self._counting("find", ""):
            return iter(list(self.inner.find(paths)))

    def list_directories(self, directory: str) -> list[str]:
        with self._counting("list_directories", directory):
            return self.inner.list_directories(directory)

    def is_directory(self, path: str) -> bool:
        with self._counting("is_directory", path):
            return self.inner.is_directory(path)

    def stat(self, path: str) -> FileInfo:
        with self._counting("stat", path):
            return self.inner.stat(path)

    def read(self, path: str) -> bytes:
        with self._counting("read", path):
            return self.inner.read(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        with self._counting("read_ranges", path):
            return self.inner.read_ranges(path, ranges)

    def open_input(self, path: str) -> pa.NativeFile:
        with self._counting("open_input", path):
            return self.inner.open_input(path)

    @contextmanager
    def holding_lock(self, path: str) -> Iterator[Storage]:
        with self.inner.holding_lock(path) as inner:
            held = copy(self)
            held.inner = inner
            yield held

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:
        with self._counting("create", path):
            self.inner.create(path, data, is_durable=is_durable)

    def create_from_stream(
        self, path: str, write: Callable[[IO[bytes]], None], *, is_durable: bool = True
    ) -> FileInfo:
        with self._counting("create_from_stream", path):
            return self.inner.create_from_stream(path, write, is_durable=is_durable)

    def replace(self, path: str, data: bytes) -> None:
        with self._counting("replace", path):
            self.inner.replace(path, data)

    def persist(self, paths: Iterable[str]) -> None:
        with self._counting("persist", ""):
            self.inner.persist(paths)

    def delete(self, path: str) -> None:
        with self._counting("delete", path):
            self.inner.delete(path)

    def delete_many(self, paths: Iterable[str]) -> list[str]:
        with self._counting("delete_many", ""):
            return self.inner.delete_many(paths)

    def delete_empty(self, directories: Iterable[str], before_ms: int) -> list[str]:
        with self._counting("delete_empty", ""):
            return self.inner.delete_empty(directories, before_ms)

    @contextmanager
    def _counting(self, method: str, path: str) -> Iterator[None]:
        with self._lock:
            self.num_calls += 1
            number = self.num_calls
        self.on_call(number, method, path, "before")
        try:
            yield
        finally:
            self.on_call(number, method, path, "after")


def recording(methods: list[str]) -> OnCall:
    """Append the method of each call to a list; for `CountingStorage`."""

    def record(_number: int, method: str, _path: str, when: str) -> None:
        if when == "before":
            methods.append(method)

    return record
