"""Range cache: byte ranges of files that never change, kept on a disk of this machine.

For slow stores: a later process finds the ranges that an earlier process has read. Knows nothing of
stores: a file is identified only by its identity, which must change with its content.

1. An entry is a file, written under a temporary name and then renamed. It contains a digest of its
   name and content: a damaged or tampered entry is deleted and counts as missing.
2. The entries never take more disk space than the limit. A writer holds a lock and records in a
   ledger the bytes that it is about to write. The least recently used entries make room. The ledger
   may be too high; it is corrected when it reports a full cache.
3. Readers hold no lock. An entry that disappears during a read is a miss.
4. A failure of the cache is never an error of the read.
5. Only the owner may have write permission for the directory. Otherwise the cache is not used,
   because other users could then change how the log is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from delta_ops.errors import InvalidRequestError
from delta_ops.late_imports import importing

logger = logging.getLogger(__name__)

_FORMAT = 1
_DIGEST_BYTES = 32
_BLOCK_BYTES = 4096
"""Disk space is allocated in blocks of this size."""
_ENTRY = re.compile(r"[0-9a-f]{64}-[0-9]+-[0-9]+\.range")
"""Other files in the directory are left alone."""
_LOCK, _LEDGER, _TEMPORARY = "ranges.lock", "ranges.total", "ranges.tmp"
_LEDGER_DIGITS = 20
_LOCK_SECONDS = 1.0
"""Maximum wait for the lock, then nothing is kept; the process that holds it may be stopped."""
_held_too_long: set[str] = set()
"""Paths of locks that timed out; they are not waited for again until one attempt succeeds."""
_one_thread = threading.Lock()
"""Threads queue here. If they polled the lock side by side, some would give up."""


@dataclass(frozen=True, slots=True)
class RangeCache:
    """A cache for data read from checkpoints, for later processes.

    Args:
        directory: A local directory for this cache only; created for its owner alone if missing.
            Any number of tables and processes may share it. It is not used if anyone but its owner
            has write permission.
        max_bytes: Maximum disk space of its files.

    Raises:
        InvalidRequestError: The directory is not a local path, or the limit is not positive.

    Examples:
        >>> cache = RangeCache("/var/tmp/checkpoints", max_bytes=1 << 30)
        >>> log = DeltaLog("s3://bucket/orders", cache=cache)
    """

    directory: str | os.PathLike[str]
    max_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        directory = os.path.expanduser(os.fsdecode(self.directory))
        if not directory or "\0" in directory or "://" in directory:
            raise InvalidRequestError(f"{directory!r} cannot hold a cache; give a local directory.")
        if self.max_bytes <= 0:
            raise InvalidRequestError(
                f"A cache of {self.max_bytes} bytes is too small; give a larger size, or no cache."
            )
        object.__setattr__(self, "directory", os.path.abspath(directory))


@dataclass(frozen=True, slots=True)
class KeptRanges:
    """The ranges of one file in a cache.

    Args:
        cache: Holds the ranges.
        identity: Identifies the file and its content; the values have no other meaning.
    """

    cache: RangeCache
    identity: Sequence[str | int]

    def load(self, start: int, end: int) -> bytes | None:
        """The bytes [start, end), or None if they are not cached."""
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
            _warn(f"{self.cache.directory} cannot be read: {error.strerror or error}")
            return None
        with contextlib.suppress(OSError):  # the directory may be read-only
            os.utime(path)
        return data

    def keep(self, parts: Mapping[tuple[int, int], bytes]) -> None:
        """Store the bytes of these ranges [start, end), if possible."""
        try:
            os.makedirs(self.cache.directory, mode=0o700, exist_ok=True)
            self._validate_owner()
            with _one_thread, self._holding_lock():
                for (start, end), data in parts.items():
                    self._write(self._name(start, end), data)
        except Exception as error:  # also of filelock, on file systems without locks
            _warn(
                f"{self.cache.directory} cannot be written: "
                f"{getattr(error, 'strerror', 0) or error}"
            )

    def forget(self) -> None:
        """Delete every range of the file."""
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
            raise PermissionError(
                "other users can write to this directory; give a private directory"
            )

    @contextlib.contextmanager
    def _holding_lock(self) -> Iterator[None]:
        with importing():  # only users of a cache need this package
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
        """Reserve disk space in the ledger; False if there is no room."""
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
        """Total size of all files, after deleting the least recently used if necessary."""
        entries = []
        for entry in self._entries():
            with contextlib.suppress(FileNotFoundError):  # a reader deleted a damaged entry
                status = entry.stat(follow_symlinks=False)
                entries.append((status.st_mtime_ns, entry.path, _disk_size(status.st_size)))
        total = _BLOCK_BYTES + sum(size for _, _, size in entries)
        if total + num_bytes <= self.cache.max_bytes:
            return total
        goal = self.cache.max_bytes - self.cache.max_bytes // 10 - num_bytes  # room for several
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
def _warn(trouble: str) -> None:
    """Log the problem once, since every read would repeat it."""
    logger.warning("The range cache is not used: %s", trouble)


def _forget_other_threads() -> None:
    """After a fork, the thread that held the lock does not exist."""
    global _one_thread  # noqa: PLW0603
    _one_thread = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
