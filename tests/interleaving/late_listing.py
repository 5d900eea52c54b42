"""Late listings: they show another operation's changes only some calls later.

Reads by name are not late. No store that meets the storage contract lists like this. The tests
simulate it to find the promises that depend on listings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.contract import Wanted


class Change(NamedTuple):
    """A file that an operation created, replaced or deleted."""

    who: str
    at: int
    path: str
    before: FileInfo | None
    """None if the file did not exist."""


@dataclass(slots=True)
class History:
    """The changes of all operations, and their number of calls."""

    now: int = 0
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LateView:
    """Files that a late listing shows differently from their current state."""

    shown: Mapping[str, FileInfo | None]
    """None if the listing does not show the file yet."""

    def only_shown(self, wanted: Wanted) -> Wanted:
        def chosen(paths: Sequence[str]) -> Collection[str]:
            visible = [path for path in paths if self.shown.get(path, path) is not None]
            return wanted(visible) if visible else ()

        return chosen

    def shown_directly(
        self, directory: str, start: str, listed: Sequence[FileInfo]
    ) -> list[FileInfo]:
        return [
            info
            for info in self._shown(listed)
            if info.path.rpartition("/")[0] == directory and info.path.rpartition("/")[2] >= start
        ]

    def shown_below(
        self, directory: str, listed: Sequence[FileInfo], wanted: Wanted | None
    ) -> list[FileInfo]:
        known = {info.path for info in listed}
        return [
            info
            for info in self._shown(listed)
            if info.path in known
            or (_is_below(info.path, directory) and (not wanted or wanted([info.path])))
        ]

    def _shown(self, listed: Sequence[FileInfo]) -> list[FileInfo]:
        if not self.shown:
            return list(listed)
        by_path = {info.path: info for info in listed} | dict(self.shown)
        return sorted(info for info in by_path.values() if info is not None)


class Journal:
    """Records one operation's changes, and computes its view of the others' changes.

    Args:
        lag: For this many calls, of all operations, a listing does not show another's change.
    """

    def __init__(self, history: History, who: str, inner: Storage, lag: int) -> None:
        self._history, self._who, self._inner, self._lag = history, who, inner, lag

    @contextmanager
    def noting(self, path: str) -> Iterator[None]:
        if not self._lag:
            yield
            return
        before = next(iter(self._inner.find([path])), None)
        yield
        self._history.changes.append(Change(self._who, self._history.now, path, before))

    def late(self) -> LateView:
        """The state of each file before its earliest late change."""
        shown: dict[str, FileInfo | None] = {}
        for change in self._history.changes:
            if change.who == self._who:
                shown.pop(change.path, None)
            elif change.at > self._history.now - self._lag:
                shown.setdefault(change.path, change.before)
        return LateView(shown)


def _is_below(path: str, directory: str) -> bool:
    return not directory or path.startswith(f"{directory}/")
