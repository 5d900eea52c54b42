"""Range cache: byte ranges of files that never change, on a disk of this machine.

For stores that answer slowly, so that what one process read, the next one need not ask for. Knows
nothing of stores: a file is whatever its identity says, which must change with its content.

1. An entry is a file, written under a temporary name and renamed. It carries a digest of its name
   and content: a torn or tampered one is removed, and is as if it had never been there.
2. Files on disk never take more than the bound: who writes holds a lock and counts, in a ledger,
   what it is about to write. What was used least recently makes room. The ledger may count too
   much, and is set right when it says that there is no room.
3. Readers hold no lock. An entry that disappears under them is a miss.
4. Nothing that goes wrong here is an error of the read.
5. Only its owner can write to the directory. Of other people's it is not used: an answer that the
   log is read by is not taken from anybody.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from delta_ops.errors import InvalidRequestError
from delta_ops.late_imports import importing

logger = logging.getLogger(__name__)

_FORMAT = 1
_DIGEST_BYTES = 32
_BLOCK_BYTES = 4096
"""What a disk gives to a file at a time."""
_ENTRY = re.compile(r"[0-9a-f]{64}-[0-9]+-[0-9]+\.range")
"""The directory may hold other files, which are left alone."""
_LOCK, _LEDGER, _TEMPORARY = "ranges.lock", "ranges.total", "ranges.tmp"
_LEDGER_DIGITS = 20
_LOCK_SECONDS = 1.0
"""After which a range is rather not kept: whoever holds the lock may have been stopped."""
_held_too_long: set[str] = set()
"""Locks that were waited for so long, by path; nobody waits for them again until one is free."""


@dataclass(frozen=True, slots=True)
class RangeCache:
    """Where what was read of checkpoints is kept for the next process.

    Args:
        directory: Local, of this cache's own; made if it is not there, for its owner alone. Any
            number of tables and processes may share it. One that others than its owner can write
            to is not used.
        max_bytes: How much its files may take on the disk.

    Raises:
        InvalidRequestError: There is no directory, or no room in it.
    """

    directory: str | os.PathLike[str]
    max_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        directory = os.path.expanduser(os.fsdecode(self.directory))
        if not directory or "\0" in directory or "://" in directory:
            raise InvalidRequestError(
                f"{directory!r} cannot hold a cache; give a directory of this machine."
            )
        if self.max_bytes <= 0:
            raise InvalidRequestError(
                f"A cache of {self.max_bytes} bytes holds nothing; give more, or no cache."
            )
        object.__setattr__(self, "directory", os.path.abspath(directory))


@dataclass(frozen=True, slots=True)
class KeptRanges:
    """The ranges of one file in a cache.

    Args:
        cache: Holds them.
        identity: Names the file and its content, whatever its texts and numbers mean.
    """

    cache: RangeCache
    identity: Sequence[str | int]

    def load(self, start: int, end: int) -> bytes | None:
        """The bytes [start, end), if they are there."""
        name = self._name(start, end)
        path = self._locate(name)
        try:
            self._validate_owner()
            with open(path, "rb") as file:
                digest, data = file.read(_DIGEST_BYTES), file.read(end - start + 1)
            if digest != _digest(name, data):
                os.unlink(path)
                return None
        except FileNotFoundError:
            return None
        except OSError as error:
            _tell(f"{self.cache.directory} is not read: {error.strerror or error}")
            return None
        with contextlib.suppress(OSError):  # of a directory that can only be read
            os.utime(path)
        return data

    def keep(self, parts: Mapping[tuple[int, int], bytes]) -> None:
        """Keep the bytes of these ranges [start, end), as far as that is possible."""
        try:
            os.makedirs(self.cache.directory, mode=0o700, exist_ok=True)
            self._validate_owner()
            with self._holding_lock():
                for (start, end), data in parts.items():
                    self._write(self._name(start, end), data)
        except Exception as error:  # of the lock's library too, where there are no locks
            _tell(f"{self.cache.directory} keeps nothing: {getattr(error, 'strerror', 0) or error}")

    def forget(self) -> None:
        """Remove every range of the file."""
        prefix = self._name(0, 0).partition("-")[0]
        with contextlib.suppress(OSError):
            for entry in self._entries():
                if entry.name.startswith(prefix):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(entry.path)

    def _name(self, start: int, end: int) -> str:
        identity = json.dumps([_FORMAT, *self.identity])
        return f"{hashlib.sha256(identity.encode()).hexdigest()}-{start}-{end}.range"

    def _locate(self, name: str) -> str:
        return os.path.join(self.cache.directory, name)

    def _entries(self) -> list[os.DirEntry[str]]:
        with os.scandir(self.cache.directory) as found:
            return [entry for entry in found if _ENTRY.fullmatch(entry.name)]

    def _validate_owner(self) -> None:
        status = os.stat(self.cache.directory)
        is_ours = os.name == "nt" or status.st_uid == os.geteuid()
        if not is_ours or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError("others can write to this directory; give one of your own")

    @contextlib.contextmanager
    def _holding_lock(self) -> Iterator[None]:
        with importing():  # who has no cache does without
            from filelock import FileLock, Timeout

        path = self._locate(_LOCK)
        patience_s = 0.0 if path in _held_too_long else _LOCK_SECONDS
        try:
            lock = FileLock(path).acquire(timeout=patience_s, poll_interval=0.01)
        except Timeout:
            _held_too_long.add(path)
            raise
        _held_too_long.discard(path)
        with lock:
            yield

    def _write(self, name: str, data: bytes) -> None:
        path, temporary = self._locate(name), self._locate(_TEMPORARY)
        if os.path.exists(path) or not self._reserve(_disk_size(_DIGEST_BYTES + len(data))):
            return
        try:
            with open(temporary, "wb", opener=_open_private) as file:
                file.write(_digest(name, data))
                file.write(data)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def _reserve(self, num_bytes: int) -> bool:
        """Whether there is room for so many bytes, which then count before they are written."""
        if num_bytes + _BLOCK_BYTES > self.cache.max_bytes:
            return False
        total = self._total_by_ledger()
        if total is None or total + num_bytes > self.cache.max_bytes:
            total = self._make_room(num_bytes)
        if total + num_bytes > self.cache.max_bytes:
            return False
        with open(self._locate(_LEDGER), "wb", opener=_open_private) as ledger:
            ledger.write(b"%0*d" % (_LEDGER_DIGITS, total + num_bytes))
        return True

    def _total_by_ledger(self) -> int | None:
        with contextlib.suppress(FileNotFoundError), open(self._locate(_LEDGER), "rb") as ledger:
            text = ledger.read(_LEDGER_DIGITS + 1)
            if len(text) == _LEDGER_DIGITS and text.isdigit():
                return int(text)
        return None

    def _make_room(self, num_bytes: int) -> int:
        """What all files take after the least recently used are gone, if there is a need."""
        entries = []
        for entry in self._entries():
            with contextlib.suppress(FileNotFoundError):  # a reader found it damaged
                status = entry.stat(follow_symlinks=False)
                entries.append((status.st_mtime_ns, entry.path, _disk_size(status.st_size)))
        total = _BLOCK_BYTES + sum(size for _, _, size in entries)
        if total + num_bytes <= self.cache.max_bytes:
            return total
        goal = self.cache.max_bytes - self.cache.max_bytes // 10 - num_bytes  # not for one only
        for _, path, size in sorted(entries):
            if total <= goal:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size
        return total


def _digest(name: str, data: bytes) -> bytes:
    digest = hashlib.sha256(name.encode())
    digest.update(data)
    return digest.digest()


def _disk_size(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@lru_cache(maxsize=64)
def _tell(trouble: str) -> None:
    """Once: each read would say it again."""
    logger.warning("The cache of ranges is passed by: %s", trouble)
