"""Keys: the node, the block and the chunk coordinates of a Zarr key. No I/O.

1. The place of a key follows from the key alone, so a change of metadata moves no key.
2. A block is a box of chunk coordinates, at most `BLOCK_KEYS` of them. Its name holds its shape and
   its number, such as `100x100-0.3`. So the shape of an array may change without moving keys, and
   a node may have blocks of several shapes.
3. A node's metadata are in the block `metadata`, all other keys in the block `other`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Literal

from delta_ops.errors import ArrayKeyError
from delta_ops.protocol.values.partition_values import hive_directory

BLOCK_KEYS = 10_000
"""Most chunk keys in a block."""
METADATA_BLOCK, OTHER_BLOCK = "metadata", "other"
ROOT = "/"
"""The root node; partition values of Delta cannot be empty."""
METADATA_NAMES = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_MOST_DIGITS = 18
_MOST_CHARACTERS = 4000
_MOST_DIRECTORY_BYTES = 255


@dataclass(frozen=True, slots=True)
class Place:
    """What a key names.

    Examples:
        >>> place_of("air/temperature/c/0/12")
        Place(node='/air/temperature', kind='chunk', coordinates=(0, 12))
    """

    node: str
    """`/` for the root, else such as `/air/temperature`."""
    kind: Literal["metadata", "chunk", "other"]
    coordinates: tuple[int, ...] = ()
    """Of a chunk, in the chunk grid."""


def validate_key(key: str, table: str) -> None:
    """Reject a key that leads outside of the group, or that has no single form.

    Raises:
        ArrayKeyError: The key is empty or absolute, has an empty part, or has a part `.` or `..`.
    """
    if not isinstance(key, str) or not key:
        raise ArrayKeyError(table, str(key), "is not a key; give a path such as air/zarr.json")
    if any(part in ("", ".", "..") for part in key.split("/")) or "\0" in key:
        raise ArrayKeyError(
            table,
            key,
            "is not a key, because it is absolute or has an empty part or a part . or ..; give a "
            "path such as air/zarr.json",
        )
    if len(key) > _MOST_CHARACTERS:
        raise ArrayKeyError(table, key[:100], f"is longer than {_MOST_CHARACTERS} characters")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise ArrayKeyError(
            table, ascii(key), "cannot be stored as UTF-8; rename the node"
        ) from error


def validate_node(node: str, key: str, table: str) -> None:
    """Reject a node whose name makes a directory name that disks do not allow.

    Args:
        node: The node of the key.
        key: The key, for the message.
        table: The table, for the message.

    Raises:
        ArrayKeyError: The path of the node is too long.
    """
    if (size := _directory_bytes(node)) > _MOST_DIRECTORY_BYTES:
        raise ArrayKeyError(
            table,
            key,
            f"has a node whose directory name would have {size} bytes, and file systems allow "
            f"{_MOST_DIRECTORY_BYTES}; shorten the names of its groups (a slash counts three)",
        )


@lru_cache(maxsize=4096)
def _directory_bytes(node: str) -> int:
    return len(hive_directory(["node"], {"node": node}).encode())


@lru_cache(maxsize=65_536)
def place_of(key: str) -> Place:
    """The node, the kind and the coordinates of a valid key.

    Chunk keys are those of Zarr 3 (`a/c/0/1`, `a/c.0.1`, `a/c`) and of Zarr 2 (`a/0.1`, `a/0/1`).

    Examples:
        >>> place_of("air/c/0/12").coordinates, place_of("zarr.json").node
        ((0, 12), '/')
    """
    parts = key.split("/")
    parent, name = parts[:-1], parts[-1]
    if name in METADATA_NAMES:
        return Place(_node(parent), "metadata")
    first = len(parts)
    while first > 0 and _is_coordinate(parts[first - 1]):
        first -= 1
    numbers = tuple(map(int, parts[first:]))
    if first > 0 and parts[first - 1] == "c":
        return Place(_node(parts[: first - 1]), "chunk", numbers)
    if numbers:
        return Place(_node(parts[:first]), "chunk", numbers)
    pieces = name.split(".")
    if len(pieces) > 1 and all(map(_is_coordinate, pieces[1:])):
        if pieces[0] == "c":
            return Place(_node(parent), "chunk", tuple(map(int, pieces[1:])))
        if _is_coordinate(pieces[0]):
            return Place(_node(parent), "chunk", tuple(map(int, pieces)))
    return Place(_node(parent), "other")


def _node(parts: Sequence[str]) -> str:
    return ROOT + "/".join(parts)


def _is_coordinate(text: str) -> bool:
    return (
        text.isascii()
        and text.isdecimal()
        and len(text) <= _MOST_DIGITS
        and (text == "0" or text[0] != "0")
    )


def ancestors(node: str) -> list[str]:
    """A node and all nodes above it, from the node to the root."""
    found = [node]
    while found[-1] != ROOT:
        found.append(found[-1].rpartition("/")[0] or ROOT)
    return found


def is_within(node: str, top: str) -> bool:
    """Whether a node is another node or below it."""
    return top in (ROOT, node) or node.startswith(f"{top}/")


def is_key_within(key: str, top: str) -> bool:
    """Whether a key belongs to a node or to a node below it."""
    return top == ROOT or key.startswith(f"{top[1:]}/")


def numbered_nodes(key: str) -> list[str]:
    """The nodes below the key's place that the key may belong to.

    Zarr 2 may separate coordinates by slashes. Then `0/5` is a chunk of the root or of an array
    with the name 0, such as the arrays of OME-Zarr. The key alone does not say which.

    Examples:
        >>> numbered_nodes("image/0/5/7"), numbered_nodes("image/c/0/5")
        (['/image/0', '/image/0/5'], [])
    """
    place = place_of(key)
    depth = 0 if place.node == ROOT else place.node.count("/")
    parts = key.split("/")[:-1]
    if place.kind != "chunk" or parts[depth : depth + 1] == ["c"]:
        return []
    return [_node(parts[:end]) for end in range(depth + 1, len(parts) + 1)]


def chunk_node(node: str) -> str:
    """The node whose blocks hold chunks that may belong to a node; see `numbered_nodes`.

    Examples:
        >>> chunk_node("/image/0"), chunk_node("/image")
        ('/image', '/image')
    """
    return node if node == ROOT else place_of(f"{node}/0"[1:]).node


def block_shape(grid: Sequence[int]) -> tuple[int, ...]:
    """The shape of the blocks of an array.

    Short dimensions are covered whole, and the others equally. The first dimension of an array that
    fits into one block gets the rest, because arrays mostly grow there.

    Args:
        grid: Number of chunks along each dimension.

    Examples:
        >>> block_shape([1_000_000]), block_shape([365, 1, 1]), block_shape([1000, 1000])
        ((10000,), (10000, 1, 1), (100, 100))
    """
    edges = [0] * len(grid)
    budget, free = BLOCK_KEYS, list(range(len(grid)))
    while free:
        edge = _root(budget, len(free))
        short = [each for each in free if grid[each] <= edge]
        for each in short:
            edges[each] = max(grid[each], 1)
            budget //= edges[each]
        free = [each for each in free if each not in short]
        if not short:
            for each in free:
                edges[each] = edge
            return tuple(edges)
    if edges:
        edges[0] = BLOCK_KEYS // prod(edges[1:])
    return tuple(edges)


def default_block_shape(num_dimensions: int) -> tuple[int, ...]:
    """The shape of blocks of an array whose chunk grid is unknown."""
    return block_shape([BLOCK_KEYS + 1] * num_dimensions)


def _root(number: int, degree: int) -> int:
    """The integer root of a number, rounded down."""
    root: int = round(number ** (1 / degree))
    return root if root**degree <= number else root - 1


def block_name(coordinates: Sequence[int], shape: Sequence[int]) -> str:
    """The name of the block of a chunk.

    Args:
        coordinates: The place of the chunk in the array of chunks.
        shape: Chunks of a block in each dimension.

    Examples:
        >>> block_name((12, 345), (100, 100)), block_name((), ())
        ('100x100-0.3', '-')
    """
    index = (place // edge for place, edge in zip(coordinates, shape, strict=True))
    return f"{'x'.join(map(str, shape))}-{'.'.join(map(str, index))}"


def shape_of_block(name: str) -> tuple[int, ...] | None:
    """The shape in the name of a block; None if the block holds no chunks, or is not ours."""
    if name == "-":
        return ()
    shape, dash, index = name.partition("-")
    edges = shape.split("x")
    if not dash or not all(map(_is_coordinate, [*edges, *index.split(".")])):
        return None
    numbers = tuple(map(int, edges))
    return numbers if 0 < prod(numbers) <= BLOCK_KEYS else None


def block_of(place: Place, shapes: Sequence[tuple[int, ...]]) -> str:
    """The block of a place.

    Args:
        place: Of a key.
        shapes: Shapes of the node's blocks; the first with as many dimensions counts, and the
            default shape if there is none.
    """
    if place.kind == "metadata":
        return METADATA_BLOCK
    if place.kind == "other":
        return OTHER_BLOCK
    size = len(place.coordinates)
    fitting = (each for each in shapes if len(each) == size)
    return block_name(place.coordinates, next(fitting, default_block_shape(size)))
