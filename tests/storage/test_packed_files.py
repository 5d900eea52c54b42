"""Packed files of listings."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.storage import FileInfo
from delta_ops.storage.packed_files import PACK_FILES, order_packs, pack, pack_files

NUMBERS = st.integers(-(2**63), 2**63 - 1)
FILES = st.lists(
    st.builds(FileInfo, st.text(max_size=3), NUMBERS, NUMBERS, st.none() | st.text(max_size=2)),
    max_size=20,
)


@given(FILES)
def test_packed_files_are_the_files_ordered_by_path(files: list[FileInfo]) -> None:
    found = pack_files(files)
    assert found == sorted(files, key=lambda info: info.path)
    assert [found[number] for number in range(len(files))] == list(found)
    assert found[1:-1] == tuple(found)[1:-1]
    assert [*found.paths] == [info.path for info in found]
    assert pickle.loads(pickle.dumps(found)) == found


@given(st.lists(FILES.filter(bool), max_size=4))
def test_packs_whose_paths_overlap_are_merged(groups: list[list[FileInfo]]) -> None:
    packs = [pack(sorted(group, key=lambda info: info.path)) for group in groups]
    paths = [info.path for group in groups for info in group]
    assert [*order_packs(packs).paths] == sorted(paths)


def test_a_listing_in_order_keeps_its_packs() -> None:
    listed = pack_files(
        FileInfo(f"{number:06d}", 1, number) for number in range(2 * PACK_FILES + 1)
    )
    assert [each.num_files for each in listed.packs] == [PACK_FILES, PACK_FILES, 1]
    assert order_packs(reversed(listed.packs)).packs == listed.packs


@pytest.mark.parametrize(
    ("other", "is_equal"),
    [
        pytest.param([FileInfo("a", 1, 2)], True, id="a list"),
        pytest.param((FileInfo("a", 1, 2),), True, id="a tuple"),
        pytest.param((FileInfo("a", 1, 3),), False, id="another time"),
        pytest.param((), False, id="no file"),
        pytest.param({FileInfo("a", 1, 2)}, False, id="a set"),
    ],
)
def test_packed_files_equal_other_sequences(other: Sequence[FileInfo], is_equal: bool) -> None:
    assert (pack_files([FileInfo("a", 1, 2)]) == other) is is_equal


def test_packed_files_have_no_file_beyond_the_last() -> None:
    with pytest.raises(IndexError):
        pack_files([FileInfo("a", 1, 2)])[1]
