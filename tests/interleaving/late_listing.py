"""Listings that are late: they show what another operation did only some calls later.

Reads by name are not late. No store that is asked for by the storage contract lists like this; it
is simulated to tell which promises rest on listings.
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
    """None: it was not there."""


@dataclass(slots=True)
class History:
    """What all operations have changed, and how many calls they have made."""

    now: int = 0
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LateView:
    """What a listing shows of files in place of what they are."""

    shown: Mapping[str, FileInfo | None]
    """None: not yet."""

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
    """Notes what one operation changes, and tells what it sees of the others' changes.

    Args:
        lag: For how many calls, of all operations, a listing does not show a change of another.
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
        """The earliest of the late changes of a file tells what it was before them."""
        shown: dict[str, FileInfo | None] = {}
        for change in self._history.changes:
            if change.who == self._who:
                shown.pop(change.path, None)
            elif change.at > self._history.now - self._lag:
                shown.setdefault(change.path, change.before)
        return LateView(shown)


def _is_below(path: str, directory: str) -> bool:
    return not directory or path.startswith(f"{directory}/")
