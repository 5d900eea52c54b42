"""Object trees: lists every object below a prefix, with few requests and several at a time.

A store lists names in order, one page at a time. A single listing takes the fewest requests, but
each page must wait for the page before it. So the tree is listed in three steps:

1. List the first page of the whole tree. Most tables have no second page.
2. If there are more pages, list the directories, level by level, until there are enough to list in
   parallel. A directory is the part of a name up to a slash.
3. List runs of consecutive directories in parallel. The first page shows how many directories fit
   on a page, so that a run of small directories takes one request instead of one per directory.

Objects of the first page are not listed again. If a directory's subdirectories are listed, the
objects directly in it come from that listing alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead

_LEVELS = 3
_RUNS = 2 * MAX_CONCURRENCY
"""Number of runs; more than are listed at once, because some take longer than others."""
_FULL = 0.9
"""Planned fill level of a page. A page that a run does not fill also shows a name after the run,
which proves that the run has ended."""
_PAGES_OF_A_RUN = 8
"""Pages of a run that are listed before they are returned, to limit memory."""


class Page(NamedTuple):
    """A page of a listing, with full names in order."""

    objects: list[dict[str, Any]]
    """Entries like fsspec's, with `name`."""
    directories: list[str]
    """Directory names with a trailing slash; empty unless the listing stops at slashes."""
    goes_on: bool


class Listing(NamedTuple):
    """Parameters of a listing."""

    prefix: str
    """Prefix of all listed names."""
    stops_at_slash: bool = False
    """Whether names with a slash after the prefix are cut after the slash and listed once."""
    after: str = ""
    """Only names after this name are listed."""


Pages = Callable[[Listing], Iterator[Page]]


def list_objects(pages: Pages, prefix: str) -> Iterator[dict[str, Any]]:
    """Yield every object whose name begins with the prefix, in any order.

    Args:
        pages: Lists a store that orders names by their characters; called by several threads.
        prefix: Empty, or with a trailing slash.

    Raises:
        OSError: The store does not list names in order, so that objects could be missed.
    """
    first = next(pages(Listing(prefix)))
    yield from first.objects
    if not first.goes_on:
        return
    _validate_order(first, "")
    pages = partial(_pages_in_order, pages)
    last = first.objects[-1]["name"] if first.objects else ""
    parents, depth = [prefix], 0
    while depth < _LEVELS and len(parents) < MAX_CONCURRENCY:
        depth += 1
        levels = ((1, partial(_level, pages, parent, last)) for parent in parents)
        families: list[list[str]] = []
        for objects, directories in run_ahead(levels, MAX_CONCURRENCY):
            yield from objects
            families.append(sorted(directories))
        parents = [directory for family in families for directory in family]
        if not parents:
            return
    sizes = _sizes_seen(first, prefix, depth)
    length = _length_of_runs(len(parents), sizes, len(first.objects))
    runs = [
        _Run(family[start : start + length], last)
        for family in families
        for start in range(0, len(family), length)
    ]
    while runs:
        calls = [(1, partial(_list_run, pages, run)) for run in runs]
        runs = []
        for objects, left in run_ahead(calls, MAX_CONCURRENCY):
            yield from objects
            # The run holds more than expected; each of its remaining directories becomes a run.
            runs += (_Run([each], left.last) for each in left.directories)


def _pages_in_order(pages: Pages, listing: Listing) -> Iterator[Page]:
    last = listing.after
    for page in pages(listing):
        _validate_order(page, last)
        last = page.objects[-1]["name"] if page.objects else last
        yield page


def _validate_order(page: Page, last: str) -> None:
    names = [last, *(each["name"] for each in page.objects)]
    if names != sorted(names):
        raise OSError("the store does not list names in their order")


def _level(pages: Pages, parent: str, last: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The objects and the directories directly in a directory, with names after `last`."""
    # The directory that contains `last` is listed as well, because it may hold more objects.
    seen = last[len(parent) :].partition("/")[0] if last.startswith(parent) else ""
    after = parent + seen if seen else ""
    objects: list[dict[str, Any]] = []
    directories: list[str] = []
    for page in pages(Listing(parent, stops_at_slash=True, after=after)):
        objects += (each for each in page.objects if each["name"] > last)
        directories += (each for each in page.directories if each > last or last.startswith(each))
    return objects, directories


class _Run(NamedTuple):
    """Consecutive directories of one parent; objects up to the name `last` are already listed."""

    directories: Sequence[str]
    last: str


def _list_run(pages: Pages, run: _Run) -> tuple[list[dict[str, Any]], _Run]:
    """List some pages of a run; returns its objects and the rest of the run."""
    first, final = run.directories[0], run.directories[-1]
    start = first.rfind("/", 0, -1) + 1  # length of the parent's prefix
    shared = os.path.commonprefix(run.directories)  # noqa: RUF071 - of their characters
    listing = Listing(shared, after=max(first, run.last))
    objects: list[dict[str, Any]] = []
    for number, page in enumerate(pages(listing), 1):
        for each in page.objects:
            name = each["name"]
            if name > final and not name.startswith(final):
                return objects, _Run([], name)
            if "/" in name[start:]:
                objects.append(each)
        if number == _PAGES_OF_A_RUN and page.goes_on and page.objects:
            last = page.objects[-1]["name"]
            return objects, _Run(
                [each for each in run.directories if each > last or last.startswith(each)], last
            )
    return objects, _Run([], final)


def _sizes_seen(page: Page, prefix: str, depth: int) -> list[int]:
    """Number of objects on the page for each directory at this depth."""
    parts = (each["name"][len(prefix) :].split("/") for each in page.objects)
    return list(Counter(tuple(each[:depth]) for each in parts if len(each) > depth).values())


def _length_of_runs(number: int, sizes: Sequence[int], of_a_page: int) -> int:
    """Number of directories in each run.

    Args:
        number: Number of directories.
        sizes: Number of objects in some of them; the last may hold more.
        of_a_page: Number of objects on a page.
    """
    even = -(-number // _RUNS)
    if len(sizes) < 2:  # one directory filled the page; the others may be smaller
        return even
    on_a_page = int(_FULL * of_a_page) // sorted(sizes)[len(sizes) // 2]
    return max(even, on_a_page) if on_a_page > 1 else 1
