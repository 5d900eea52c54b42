"""Keys: their node, their coordinates and their block."""

from __future__ import annotations

from itertools import product

import pytest

from delta_ops.arrays.keys import (
    BLOCK_KEYS,
    Place,
    ancestors,
    block_name,
    block_of,
    block_shape,
    is_key_within,
    is_within,
    numbered_nodes,
    place_of,
    shape_of_block,
    validate_key,
    validate_node,
)
from delta_ops.arrays.node_metadata import chunk_grid, essential_part
from delta_ops.errors import ArrayKeyError


@pytest.mark.parametrize(
    ("key", "place"),
    [
        pytest.param("zarr.json", Place("/", "metadata"), id="metadata of the root"),
        pytest.param("a/b/zarr.json", Place("/a/b", "metadata"), id="metadata of a node"),
        pytest.param("a/.zattrs", Place("/a", "metadata"), id="metadata of Zarr 2"),
        pytest.param("a/c/0/12", Place("/a", "chunk", (0, 12)), id="a chunk of Zarr 3"),
        pytest.param("a/c.0.12", Place("/a", "chunk", (0, 12)), id="a chunk key with dots"),
        pytest.param("a/c", Place("/a", "chunk"), id="the chunk of a scalar"),
        pytest.param("a/0.12", Place("/a", "chunk", (0, 12)), id="a chunk of Zarr 2"),
        pytest.param("a/0/12", Place("/a", "chunk", (0, 12)), id="a nested chunk of Zarr 2"),
        pytest.param("c/c/1", Place("/c", "chunk", (1,)), id="an array named c"),
        pytest.param("c/0", Place("/", "chunk", (0,)), id="a chunk of a root array"),
        pytest.param("a/c/01", Place("/a/c", "other"), id="a number with a leading zero"),
        pytest.param("a/readme", Place("/a", "other"), id="another key"),
        pytest.param("a/c/" + "9" * 19, Place("/a/c", "other"), id="a number over 64 bits"),
    ],
)
def test_the_place_of_a_key(key: str, place: Place) -> None:
    assert place_of(key) == place


@pytest.mark.parametrize(
    "key", ["", "/a", "a//b", "a/", "../a", "a/../b", "a/./b", "a\0", "\ud800"]
)
def test_a_key_without_a_single_form_is_rejected(key: str) -> None:
    with pytest.raises(ArrayKeyError) as caught:
        validate_key(key, "lake/t")
    assert caught.value.table == "lake/t"


def test_a_node_whose_directory_name_is_too_long_is_rejected() -> None:
    validate_node("/" + "x" * 247, "key", "lake/t")
    with pytest.raises(ArrayKeyError, match="256 bytes"):
        validate_node("/" + "x" * 248, "key", "lake/t")
    with pytest.raises(ArrayKeyError, match="slash"):
        validate_node("/a" * 70, "key", "lake/t")


@pytest.mark.parametrize(
    ("grid", "shape"),
    [
        pytest.param((1_000_000,), (10_000,), id="one dimension"),
        pytest.param((1000, 1000), (100, 100), id="two long dimensions"),
        pytest.param((100_000, 1, 1), (10_000, 1, 1), id="images of one chunk each"),
        pytest.param((1, 4, 5), (500, 4, 5), id="an array that will grow along time"),
        pytest.param((0,), (10_000,), id="an empty array"),
        pytest.param((), (), id="a scalar"),
    ],
)
def test_the_shape_of_blocks_fits_the_grid(grid: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert block_shape(grid) == shape


def test_blocks_of_all_grids_are_within_the_limit() -> None:
    sizes = (0, 1, 2, 7, 99, 100, 10_001, 10**9)
    for size in (1, 2, 3, 4, 5):
        for grid in product(sizes[:: max(1, size - 2)], repeat=size):
            shape = block_shape(grid)
            edges = 1
            for edge in shape:
                assert edge >= 1
                edges *= edge
            assert edges <= BLOCK_KEYS, (grid, shape)


def test_the_name_of_a_block_holds_its_shape() -> None:
    name = block_name((12, 345), (100, 50))
    assert name == "100x50-0.6"
    assert shape_of_block(name) == (100, 50)
    assert [shape_of_block(each) for each in ("metadata", "other", "-", "0x0-1.1", "1x-1")] == [
        None,
        None,
        (),
        None,
        None,
    ]


def test_a_shape_of_other_dimensions_does_not_count() -> None:
    assert block_of(place_of("a/c/3"), [(10, 10)]) == "10000-0"
    assert block_of(place_of("a/c/3"), [(10, 10), (2,)]) == "2-1"


def test_nodes_above_and_below() -> None:
    assert ancestors("/a/b") == ["/a/b", "/a", "/"]
    assert is_within("/a/b", "/a")
    assert not is_within("/ab", "/a")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(b'{"shape":[1]}', b'{"shape": [1]}', True, id="another layout of the JSON"),
        pytest.param(b'{"attributes":{}}', b'{"attributes":{"a":1}}', True, id="attributes"),
        pytest.param(b'{"shape":[1]}', b'{"shape":[2]}', False, id="the shape"),
        pytest.param(b"{}", None, False, id="a deletion"),
        pytest.param(b"x", b"y", False, id="bytes that are not JSON"),
    ],
)
def test_what_chunks_depend_on(one: bytes, other: bytes | None, same: bool) -> None:
    assert (essential_part(one) == essential_part(other)) is same


@pytest.mark.parametrize(
    ("document", "grid"),
    [
        (
            b'{"shape":[10,4],"chunk_grid":{"configuration":{"chunk_shape":[3,4]}}}',
            (4, 1),
        ),
        (b'{"shape":[10],"chunks":[3]}', (4,)),
        (b'{"shape":[],"chunks":[]}', ()),
        (b'{"shape":[10],"chunks":[3,4]}', None),
        (b'{"node_type":"group"}', None),
        (b"[]", None),
        (None, None),
    ],
)
def test_the_chunk_grid_of_a_document(document: bytes | None, grid: tuple[int, ...] | None) -> None:
    assert chunk_grid(document) == grid


@pytest.mark.parametrize(
    ("key", "nodes"),
    [
        pytest.param("0/5/7", ["/0", "/0/5"], id="an array at the root"),
        pytest.param("image/0/5", ["/image/0"], id="an array in a group"),
        pytest.param("image/5", [], id="one coordinate"),
        pytest.param("image/c/0/5", [], id="the keys of Zarr 3"),
        pytest.param("c/0/5", [], id="the keys of Zarr 3 at the root"),
        pytest.param("image/0.5", [], id="dots between coordinates"),
        pytest.param("image/0/.zarray", [], id="metadata"),
    ],
)
def test_a_number_in_a_key_may_be_the_name_of_a_node(key: str, nodes: list[str]) -> None:
    assert numbered_nodes(key) == nodes


def test_a_key_is_within_its_node_and_the_nodes_above() -> None:
    assert all(is_key_within("a/0/1", each) for each in ("/", "/a", "/a/0"))
    assert not any(is_key_within("a/0/1", each) for each in ("/a/1", "/b", "/a/0/1"))
