"""Slices of versions: with any limits, each file once and in order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.errors import InvalidRequestError
from delta_ops.planning.stream_slices import (
    SliceLimits,
    StreamVersion,
    end_of_slice,
    files_between,
    files_of_first_snapshot,
    versions_between,
)
from delta_ops.protocol.stream_offset import StreamOffset

Files = list[tuple[int, int, bool]]
"""Version, number, and whether the file belongs to the first snapshot."""

VERSIONS = st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=8)
LIMITS = st.builds(
    SliceLimits,
    max_files=st.none() | st.integers(1, 7),
    max_bytes=st.none() | st.integers(1, 12),
)


def version(number: int, sizes: Sequence[int], *, is_whole: bool = False) -> StreamVersion:
    return StreamVersion(number, len(sizes), lambda first: sizes[first:], is_whole)


def offset(number: int, index: int = -1, *, is_first: bool = False) -> StreamOffset:
    return StreamOffset(table_id="t", version=number, index=index, is_starting_version=is_first)


def files_of(start: StreamOffset, end: StreamOffset, sizes: list[list[int]]) -> Files:
    """The files of a slice of versions that count up from 0; the first may be a snapshot."""
    first = files_of_first_snapshot(start, end)
    found = (
        [(start.version, n, True) for n in range(len(sizes[start.version]))[first]] if first else []
    )
    for number in versions_between(start, end):
        taken = range(len(sizes[number]))[files_between(start, end, number)]
        found += [(number, n, False) for n in taken]
    return found


@given(sizes=VERSIONS, limits=st.lists(LIMITS, min_size=1, max_size=5), is_first=st.booleans())
def test_each_file_comes_once_and_in_order_whatever_the_limits(
    sizes: list[list[int]], limits: list[SliceLimits], is_first: bool
) -> None:
    place, found, step = offset(0, is_first=is_first), Files(), 0
    while True:
        limit = limits[step % len(limits)]
        versions = [version(n, of) for n, of in enumerate(sizes)][place.version :]
        end = end_of_slice(place, versions, limit)
        if end == place:
            break
        assert end.place > place.place
        taken = files_of(place, end, sizes)
        volumes = [sizes[number][index] for number, index, _ in taken]
        assert limit.max_files is None or len(taken) <= limit.max_files
        assert limit.max_bytes is None or sum(volumes[:-1]) < limit.max_bytes
        found, place, step = found + taken, end, step + 1
    assert found == [
        (number, index, is_first and number == 0)
        for number, of in enumerate(sizes)
        for index in range(len(of))
    ]
    assert place == offset(len(sizes))


@given(sizes=VERSIONS, limit=LIMITS)
def test_versions_that_are_whole_are_never_split(
    sizes: list[list[int]], limit: SliceLimits
) -> None:
    place, found = offset(0), Files()
    while True:
        versions = [version(n, of, is_whole=True) for n, of in enumerate(sizes)]
        end = end_of_slice(place, versions[place.version :], limit)
        if end == place:
            break
        assert end.index == -1
        taken = files_of(place, end, sizes)
        some = {number for number, *_ in taken}
        fits = limit.max_files is None or len(taken) <= limit.max_files
        assert fits or len(some) == 1
        found, place = found + taken, end
    assert [(number, index) for number, index, _ in found] == list(
        chain.from_iterable([(n, i) for i in range(len(of))] for n, of in enumerate(sizes))
    )


def test_a_slice_takes_the_files_before_an_obstacle_and_the_next_slice_raises() -> None:
    obstacle = InvalidRequestError("version 2 deletes rows")
    blocked = StreamVersion(2, 0, lambda _: (), obstacle=obstacle)
    versions = [version(0, [1]), version(1, [1]), blocked, version(3, [1])]

    end = end_of_slice(offset(0), versions, SliceLimits())

    assert end == offset(2)
    with pytest.raises(InvalidRequestError, match="version 2 deletes rows"):
        end_of_slice(end, versions[2:], SliceLimits())


def test_versions_behind_the_end_of_a_slice_are_not_looked_at() -> None:
    looked_at = []

    def look(number: int) -> StreamVersion:
        looked_at.append(number)
        return version(number, [1, 1])

    end_of_slice(offset(0), map(look, range(100)), SliceLimits(max_files=3))

    assert looked_at == [0, 1]


def test_a_slice_ends_with_the_first_snapshot() -> None:
    versions = [version(4, [1, 1]), version(5, [1])]
    assert end_of_slice(offset(4, is_first=True), versions, SliceLimits()) == offset(5)


def test_a_file_beyond_the_limit_of_bytes_is_taken_where_it_is_the_first() -> None:
    end = end_of_slice(offset(0), [version(0, [100, 100])], SliceLimits(max_bytes=10))
    assert end == offset(0, 0)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        pytest.param(
            offset(7, 3),
            '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":7,"index":3,'
            '"isStartingVersion":false}',
            id="behind a file of a commit",
        ),
        pytest.param(
            offset(7),
            '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":7,"index":-1,'
            '"isStartingVersion":false}',
            id="before a commit",
        ),
        pytest.param(
            offset(7, 0, is_first=True),
            '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":7,"index":0,'
            '"isStartingVersion":true}',
            id="in the first snapshot",
        ),
    ],
)
def test_an_offset_is_written_as_the_reference_writes_it(place: StreamOffset, text: str) -> None:
    assert place.to_json() == text
