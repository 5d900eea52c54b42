"""Object trees: every object below a prefix, by few listings and several at a time.

A store lists names in their order, a page at a time. One listing of all takes the fewest requests
and goes on from page to page, each of which waits for the one before. So:

1. The first page of all. Most tables have no second one.
2. If there is more, the directories, which are what names begin with up to a slash: of several
   levels, until there are as many as can be listed at once.
3. Runs of directories that follow each other, side by side. The first page tells how many of them
   a page holds, so that a run of small ones is one request and not one for each.

What the first page showed is not listed again. Objects directly in a directory whose directories
are listed come from the listing of that level alone.
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
"""More than are listed at once, because some take longer than others."""
_FULL = 0.9
"""A page that is not filled by a run shows what comes after it, and so that it has ended."""
_PAGES_OF_A_RUN = 8
"""What is listed of a run before it is handed out, so that memory is bounded."""


class Page(NamedTuple):
    """A part of a listing; names are full, and in order."""

    objects: list[dict[str, Any]]
    """As fsspec lists them, by `name`."""
    directories: list[str]
    """Each with a slash at its end; none unless the listing stops at slashes."""
    goes_on: bool


class Listing(NamedTuple):
    """What to list."""

    prefix: str
    """What names begin with."""
    stops_at_slash: bool = False
    """Whether of what has a slash after the prefix only the part up to that is listed, once."""
    after: str = ""
    """Names come after this one."""


Pages = Callable[[Listing], Iterator[Page]]


def list_objects(pages: Pages, prefix: str) -> Iterator[dict[str, Any]]:
    """Every object whose name begins with the prefix, in any order.

    Args:
        pages: Lists a store that keeps names in the order of their characters; called by threads.
        prefix: Empty, or with a slash at its end.

    Raises:
        OSError: The store keeps no such order; what comes after a name would not be all the rest.
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
            # It holds more than was expected, and goes on as several.
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
    """The objects directly in a directory, and the directories, that have names after `last`."""
    # What `last` is in is to be shown, too, for there may be more of it.
    seen = last[len(parent) :].partition("/")[0] if last.startswith(parent) else ""
    after = parent + seen if seen else ""
    objects: list[dict[str, Any]] = []
    directories: list[str] = []
    for page in pages(Listing(parent, stops_at_slash=True, after=after)):
        objects += (each for each in page.objects if each["name"] > last)
        directories += (each for each in page.directories if each > last or last.startswith(each))
    return objects, directories


class _Run(NamedTuple):
    """Directories of one parent that follow each other, of which all up to a name is known."""

    directories: Sequence[str]
    last: str


def _list_run(pages: Pages, run: _Run) -> tuple[list[dict[str, Any]], _Run]:
    """The objects in a run, of some pages at most, and what is left of it."""
    first, final = run.directories[0], run.directories[-1]
    start = first.rfind("/", 0, -1) + 1  # of what comes after the parent
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
    """How many objects the page shows of each directory so far down."""
    parts = (each["name"][len(prefix) :].split("/") for each in page.objects)
    return list(Counter(tuple(each[:depth]) for each in parts if len(each) > depth).values())


def _length_of_runs(number: int, sizes: Sequence[int], of_a_page: int) -> int:
    """How many directories to list as one.

    Args:
        number: How many directories there are.
        sizes: Objects in some of them, the last of which may hold more.
        of_a_page: Objects that a page holds.
    """
    even = -(-number // _RUNS)
    if len(sizes) < 2:  # the page was full of one, which may be unlike the others
        return even
    on_a_page = int(_FULL * of_a_page) // sorted(sizes)[len(sizes) // 2]
    return max(even, on_a_page) if on_a_page > 1 else 1
