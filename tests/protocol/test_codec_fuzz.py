"""Damaged commits: decoding many at once and line by line come to the same, whatever the bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from delta_ops.protocol import json_codec
from delta_ops.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from delta_ops.protocol.json_codec import CommitActions, LineError, decode_commits, encode_action
from tests.mutations import mutated

ENDS = (b"\n", b"\n", b"\r\n", b"\n\n")
BOM = b"\xef\xbb\xbf"


def line(rnd: random.Random) -> bytes:
    """An action as we would write it."""
    n = rnd.randint(0, 9)
    vector = DeletionVector(
        storage_type="u", path_or_inline_dv="ab", offset=1, size_in_bytes=3, cardinality=2
    )
    adds = AddFile(
        path=f"p={n}/x{n}.parquet",
        size=n,
        partition_values={"p": str(n)},
        modification_time=5,
        stats=rnd.choice(['{"numRecords":1}', None]),
        tags=rnd.choice([{"t": "1"}, None]),
        deletion_vector=rnd.choice([vector, None]),
    )
    removes = RemoveFile(path=f"x{n}", deletion_timestamp=3, partition_values={"p": None}, size=4)
    others: list[Action] = [
        SetTransaction(app_id="a", version=n, last_updated=3),
        DomainMetadata(domain="a", configuration="{}"),
        CommitInfo(values={"x": 1}),
        Protocol(min_reader_version=1, min_writer_version=2),
        Metadata(id="i", schema_string="{}", created_time=1),
    ]
    actions: list[Action] = [adds, adds, removes, rnd.choice(others)]
    return encode_action(rnd.choice(actions)).encode()


def commit(rnd: random.Random) -> bytes:
    """A commit that may be damaged."""
    lines = [line(rnd) for _ in range(rnd.randint(1, 6))]
    whole = rnd.choice(ENDS).join(lines) + rnd.choice([b"", b"\n"])
    return rnd.choice([b"", b"", b"", BOM]) + mutated(whole, rnd)


def said(table: pa.Table) -> list[dict[str, Any]]:
    """The rows; a key without a value is as good as none."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name in ("partitionValues", "tags"):
            if row[name] is not None:
                row[name] = {key: value for key, value in row[name] if value is not None}
    return rows


Decode = Callable[[Sequence[bytes]], Sequence[CommitActions]]


def line_by_line(commits: Sequence[bytes]) -> list[CommitActions]:
    """The slow way."""
    return [json_codec._decode_lines(data, i) for i, data in enumerate(commits)]


def outcome(decode: Decode, commits: Sequence[bytes]) -> object:
    """What was decoded, or where it could not be."""
    try:
        return [(said(c.adds), said(c.removes), repr(c.others)) for c in decode(commits)]
    except LineError as error:
        return error.commit, error.line


def check_codec(seed: int, cases: int) -> None:
    """Raises AssertionError where the two ways differ."""
    rnd = random.Random(seed)
    for _ in range(cases):
        commits = [commit(rnd) for _ in range(rnd.randint(1, 3))]
        with patch.object(json_codec, "_FEW_LINES", 0):
            bulk = outcome(decode_commits, commits)
        assert bulk == outcome(line_by_line, commits), commits


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_bytes_both_ways_come_to_the_same(seed: int) -> None:
    check_codec(seed, 300)


@pytest.mark.parametrize(
    "nested",
    [
        pytest.param(b"[" * 50_000 + b"]" * 50_000, id="lists"),
        pytest.param(b'{"a":' * 50_000 + b"1" + b"}" * 50_000, id="objects"),
        pytest.param(b"[" * 50_000, id="lists without an end"),
    ],
)
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_line_nested_beyond_all_measure_among_many_is_named(nested: bytes, place: str) -> None:
    many = [encode_action(AddFile(path=str(i), size=i, partition_values={}, modification_time=0))
            for i in range(100)]  # fmt: skip
    deep = b'{"add":{"path":"z","size":1,"novelty":' + nested + b"}}"
    lines = [text.encode() for text in many]
    lines.insert(0 if place == "first" else 100, deep)
    with pytest.raises(LineError) as raised:
        decode_commits([b"\n".join(lines)])
    assert raised.value.line == (1 if place == "first" else 101)
