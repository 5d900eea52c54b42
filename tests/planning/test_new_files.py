"""Which changed files are written together."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.planning.new_files import plan_new_files
from delta_ops.protocol.actions import AddFile


def file(name: str, size: int, values: Mapping[str, str | None] | None = None) -> AddFile:
    return AddFile(path=name, size=size, partition_values=values or {}, modification_time=0)


def planned(*sizes: int, target: int = 128, writers: int = 1) -> list[list[int]]:
    """Return the sizes of the files in each new file."""
    sources = [(file(str(number), size), size) for number, size in enumerate(sizes)]
    return [[f.size for f in new.sources] for new in plan_new_files(sources, target, writers)]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param((1,) * 50, [[1] * 50], id="small files become one file"),
        pytest.param((50,) * 6, [[50] * 2] * 3, id="files of the target size or smaller"),
        pytest.param((120, 130), [[120], [130]], id="files of the target size stay alone"),
        pytest.param((5, 300), [[5], [300]], id="a larger file is not cut"),
        pytest.param((), [], id="no file"),
        pytest.param((0, 0), [[0, 0]], id="files without rows to write"),
    ],
)
def test_new_files_have_the_target_size(sizes: tuple[int, ...], expected: list[list[int]]) -> None:
    assert planned(*sizes) == expected


def test_writers_share_the_work_if_their_files_are_not_small() -> None:
    assert planned(*[20] * 5, writers=2) == [[20] * 2, [20] * 3]
    assert planned(*[5] * 5, writers=2) == [[5] * 5]


def test_partition_values_are_compared_as_texts() -> None:
    values: list[str | None] = ["a", None, "", "a", "A", None]
    files = [file(str(number), 1, {"p": value}) for number, value in enumerate(values)]
    found = plan_new_files([(each, 1) for each in files], 128, 2)
    assert [[each.path for each in new.sources] for new in found] == [
        ["0", "3"],
        ["1", "5"],
        ["2"],
        ["4"],
    ]


@given(
    st.lists(st.tuples(st.integers(0, 300), st.sampled_from("ab"))),
    st.integers(1, 200),
    st.integers(1, 8),
)
def test_each_file_is_in_one_new_file_of_its_partition(
    sizes: list[tuple[int, str]], target: int, writers: int
) -> None:
    files = [file(str(number), size, {"p": p}) for number, (size, p) in enumerate(sizes)]
    found = plan_new_files([(each, each.size) for each in files], target, writers)
    assert sorted(f.path for new in found for f in new.sources) == sorted(f.path for f in files)
    for new in found:
        assert len({f.partition_values["p"] for f in new.sources}) == 1
        assert new.num_bytes == sum(f.size for f in new.sources)
        # A file is at most half of its own size beyond the end of its share.
        assert new.num_bytes <= target + max(f.size for f in new.sources)
