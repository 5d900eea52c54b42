"""Root of a remote storage: converts between storage paths and fsspec's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from delta_ops.errors import StorageError
from delta_ops.storage.backends.backend import Backend, Entry
from delta_ops.storage.contract import FileInfo
from delta_ops.storage.paths import is_valid, validate

_TIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
_ETAG_KEYS = ("ETag", "etag")


@dataclass(frozen=True, slots=True)
class RemoteRoot:
    """A directory of a store, accessed by an open file system."""

    fs: Any
    path: str
    """The root as `fs` names it, without a trailing slash."""
    uri: str
    """The root as the user named it, without credentials."""
    backend: Backend

    @property
    def kind(self) -> str:
        """fsspec's name for the file system."""
        return schemes_of(self.fs)[0]

    def locate(self, path: str) -> str:
        """The full URI; "" is the root."""
        return f"{self.uri}/{validate(path)}" if path else self.uri

    def full_path(self, path: str) -> str:
        """The name of a file in `fs`.

        Raises:
            StorageError: The client would reach another file.
        """
        if self.backend.is_misread(validate(path)):
            reason = (
                f"the client of {self.kind} would access another object, because it cuts the name "
                "at the question mark; rename the object with another program"
            )
            raise StorageError(self.locate(path), "reached", reason)
        return f"{self.path}/{path}"

    def full_directory(self, directory: str) -> str:
        """The name of a directory in `fs`; "" is the root."""
        return self.full_path(directory) if directory else self.path

    def relative_path(self, name: str) -> str:
        """The path of a file from its name in a listing; "" if it is not below the root."""
        root = self.path.lstrip("/")
        prefix = f"{root}/" if root else ""
        name = name.lstrip("/")
        return name[len(prefix) :] if name.startswith(prefix) else ""

    def address(self) -> str | None:
        """Address of the store, which may hold credentials; None if unknown."""
        return _address(self.backend.address_of, self.fs)

    def slow_address(self) -> str | None:
        """Address to check before a call, for clients with long timeouts; otherwise None."""
        return _address(self.backend.slow_address_of, self.fs)

    def info_of(self, path: str, entry: Entry) -> FileInfo:
        """Convert a listing's entry to a `FileInfo`."""
        etag = str(next((entry[key] for key in _ETAG_KEYS if entry.get(key)), "")).strip('"')
        return FileInfo(path, int(entry["size"]), self._modified_ms(entry), etag or None)

    def infos_of(self, entries: Iterable[Entry], directory: str) -> Iterator[FileInfo]:
        """Yield the files among `entries` in `directory`; the directory itself may be an entry."""
        prefix = f"{directory}/" if directory else ""
        for entry in entries:
            path = self.relative_path(entry["name"])
            if entry["type"] == "file" and path.startswith(prefix) and is_valid(path):
                yield self.info_of(path, entry)

    def _modified_ms(self, entry: Entry) -> int:
        for key in _TIME_KEYS:
            if entry.get(key) is not None:
                return _ms_of(entry[key])
        return _ms_of(self.fs.modified(entry["name"]))


def _address(address_of: Callable[[Any], object] | None, fs: Any) -> str | None:
    with suppress(Exception):  # clients raise any error; the next call reports it
        return None if address_of is None else str(address_of(fs))
    return None


def schemes_of(fs: Any) -> tuple[str, ...]:
    """fsspec's schemes for a file system."""
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _ms_of(time: object) -> int:
    match time:
        case datetime():
            aware = time if time.tzinfo else time.replace(tzinfo=UTC)
            return round(aware.timestamp() * 1000)
        case int() | float():
            return round(time * 1000)
        case str():
            return _ms_of(datetime.fromisoformat(time))
        case _:
            raise TypeError(f"{type(time).__name__} is not a modification time")
