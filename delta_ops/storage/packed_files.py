"""Packed files: the files of a listing, in a third of the memory that tuples take.

A listing may have millions of files. They are packed in groups: the paths of a group are one text,
and the sizes and times are arrays of numbers. A file becomes a value only while it is looked at.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import accumulate, chain, islice, pairwise, repeat
from operator import attrgetter
from typing import NamedTuple, overload

from delta_ops.storage.contract import FileInfo

PACK_FILES = 4096
_PATH = attrgetter("path")  # comparing paths is much faster than comparing whole values


class Pack(NamedTuple):
    """A group of files, at least one."""

    paths: str
    """All paths, one after the other."""
    ends: array[int]
    """Where each path ends; begins with 0."""
    sizes: array[int]
    times: array[int]
    """`FileInfo.modified_ms` of each file."""
    etags: tuple[str | None, ...] | None
    """None if no file has an etag."""

    @property
    def num_files(self) -> int:
        """Number of files."""
        return len(self.sizes)

    def texts(self) -> list[str]:
        """The path of each file."""
        paths = self.paths
        return [paths[start:end] for start, end in pairwise(self.ends)]

    def select(self, numbers: Sequence[int]) -> list[FileInfo]:
        """The files with these numbers, counted from 0."""
        files = list(self.files())
        return [files[number] for number in numbers]

    def files(self) -> Iterator[FileInfo]:
        """Yield the files."""
        etags = self.etags or repeat(None)
        return map(FileInfo._make, zip(self.texts(), self.sizes, self.times, etags, strict=False))


def pack(files: Sequence[FileInfo]) -> Pack:
    """Pack some files, at least one."""
    etags = tuple(info.etag for info in files)
    return Pack(
        paths="".join([info.path for info in files]),
        ends=array("q", accumulate((len(info.path) for info in files), initial=0)),
        sizes=array("q", [info.size for info in files]),
        times=array("q", [info.modified_ms for info in files]),
        etags=None if {*etags} == {None} else etags,
    )


class PackedFiles(Sequence[FileInfo]):
    """A sequence of files; iterating over it is fast, and taking single files is slow.

    Args:
        packs: The files.
    """

    __slots__ = ("_packs", "_starts")

    def __init__(self, packs: Iterable[Pack] = ()) -> None:
        self._packs = tuple(packs)
        self._starts = [*accumulate((each.num_files for each in self._packs), initial=0)]

    @property
    def packs(self) -> Sequence[Pack]:
        """The files in groups."""
        return self._packs

    @property
    def paths(self) -> Paths:
        """The path of each file."""
        return Paths(self._packs)

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[FileInfo]:
        return chain.from_iterable(each.files() for each in self._packs)

    @overload
    def __getitem__(self, index: int) -> FileInfo: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[FileInfo, ...]: ...

    def __getitem__(self, index: int | slice) -> FileInfo | tuple[FileInfo, ...]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return tuple(map(self._file, numbers))
        return self._file(numbers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(ours == theirs for ours, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} files>"

    def _file(self, number: int) -> FileInfo:
        place = bisect_right(self._starts, number) - 1
        return next(islice(self._packs[place].files(), number - self._starts[place], None))


class Paths(Collection[str]):
    """The paths of packed files; `in` searches all of them."""

    def __init__(self, packs: Sequence[Pack]) -> None:
        self._packs = packs

    def __len__(self) -> int:
        return sum(each.num_files for each in self._packs)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(each.texts() for each in self._packs)

    def __contains__(self, path: object) -> bool:
        return any(path in each.texts() for each in self._packs)

    def having(self, text: str) -> Iterator[str]:
        """Yield the paths that contain a text."""
        # Most packs have none, and one search of all their paths is much faster.
        some = chain.from_iterable(each.texts() for each in self._packs if text in each.paths)
        return (path for path in some if text in path)

    def long_texts(self) -> Iterator[str]:
        """Yield texts that together are all paths, one after the other."""
        return (each.paths for each in self._packs)


def pack_files(files: Iterable[FileInfo]) -> PackedFiles:
    """Pack files; takes files that are already packed as they are.

    The files of each pack are ordered by path.
    """
    if isinstance(files, PackedFiles):
        return files
    remaining = iter(files)
    groups = iter(lambda: list(islice(remaining, PACK_FILES)), [])
    return PackedFiles(pack(sorted(group, key=_PATH)) for group in groups)


def order_packs(packs: Iterable[Pack]) -> PackedFiles:
    """Order files by path.

    Args:
        packs: Files that are ordered by path within each pack.
    """
    found = sorted(packs, key=_first_path)
    if all(_last_path(one) <= _first_path(two) for one, two in pairwise(found)):
        return PackedFiles(found)
    remaining = merge(*(each.files() for each in found), key=_PATH)
    groups = iter(lambda: list(islice(remaining, PACK_FILES)), [])
    return PackedFiles(map(pack, groups))


def _first_path(of: Pack) -> str:
    return of.paths[: of.ends[1]]


def _last_path(of: Pack) -> str:
    return of.paths[of.ends[-2] :]
