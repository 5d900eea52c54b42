"""What Arrow's reader takes of a commit, the other parser gives as well."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.protocol import json_codec, plain_adds
from delta_ops.protocol.actions import AddFile, CommitInfo
from delta_ops.protocol.json_codec import (
    CommitActions,
    LineError,
    decode_commits,
    encode_commit,
)
from delta_ops.protocol.plain_adds import plain_add_table
from tests.mutations import mutated

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
LONGS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def adds(draw: st.DrawFn) -> list[AddFile]:
    names = draw(st.lists(TEXTS, unique=True, max_size=3))
    of_one = st.builds(
        AddFile,
        path=TEXTS,
        size=st.integers(0, 2**63 - 1),
        partition_values=st.fixed_dictionaries(dict.fromkeys(names, TEXTS)),
        modification_time=LONGS,
        data_change=st.booleans(),
        stats=st.none() | TEXTS | st.just('{"numRecords":1,"minValues":{"a":"\\"}"}}'),
    )
    return draw(st.lists(of_one, min_size=1, max_size=8))


def decoded(*commits: bytes, large_bytes: int) -> list[CommitActions] | LineError:
    with mock.patch.object(json_codec, "_LARGE_BYTES", large_bytes):
        try:
            return decode_commits(commits)
        except LineError as error:
            return error


def said(found: list[CommitActions] | LineError) -> Any:
    if isinstance(found, LineError):
        return found.commit, found.line, found.reason
    return [
        (each.others, *(t.to_pylist(maps_as_pydicts="strict") for t in (each.adds, each.removes)))
        for each in found
    ]


@given(adds())
@settings(max_examples=200, deadline=None)
def test_plain_adds_are_taken_and_come_to_the_same(files: list[AddFile]) -> None:
    data = encode_commit(files)
    taken = plain_add_table(data)
    assert taken is not None
    (alone,) = decode_commits([data])
    assert taken.schema == alone.adds.schema
    assert taken.to_pylist(maps_as_pydicts="strict") == alone.adds.to_pylist(
        maps_as_pydicts="strict"
    )


@given(st.lists(adds(), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_commits_come_to_the_same_whoever_decodes_them(commits: list[list[AddFile]]) -> None:
    datas = [encode_commit([CommitInfo(values={"n": n}), *c]) for n, c in enumerate(commits)]
    assert said(decoded(*datas, large_bytes=0)) == said(decoded(*datas, large_bytes=1 << 30))


PLAIN = [
    AddFile(path=f"p={n}/{n}.parquet", size=n, partition_values={"p": f"{n}"}, modification_time=n)
    for n in range(20)
]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"remove":{"path":"x"}}', id="a remove"),
        pytest.param(b'{"txn":{"appId":"a","version":1}}', id="another action"),
        pytest.param(b"{}", id="nothing"),
        pytest.param(b"\n", id="a blank line"),
        pytest.param(b'{"add":null}', id="no add"),
        pytest.param(b'{"add":{"path":"x","partitionValues":{"p":null},"size":1}}', id="null"),
        pytest.param(b'{"add":{"path":"x","partitionValues":{},"size":1}}', id="a missing key"),
        pytest.param(b'{"add":{"path":"x","partitionValues":{"p":1},"size":1}}', id="a number"),
        pytest.param(b'{"add":{"path":"x","partitionValues":{"p":"1"},"size":-1}}', id="negative"),
        pytest.param(b'{"add":{"path":"x","partitionValues":{"p":"1"},"size":1.0}}', id="float"),
        pytest.param(b'{"add":{"path":"x","partitionValues":{"p":"1"},"size":"1"}}', id="digits"),
        pytest.param(b'{"add":{"path":"x","partitionValues":{"p":"1"}}}', id="no size"),
        pytest.param(b'{"add":{"partitionValues":{"p":"1"},"size":1}}', id="no path"),
        pytest.param(
            b'{"add":{"path":"x","partitionValues":{"p":"1"},"size":1,"size":2}}', id="twice"
        ),
        pytest.param(
            b'{"add":{"path":"\\ud800","partitionValues":{"p":"1"},"size":1}}', id="half a pair"
        ),
        pytest.param(b'{"add":{"path":"\xff","partitionValues":{"p":"1"},"size":1}}', id="no text"),
        pytest.param(
            b'{"add":{"path":"x","partitionValues":{"p":"1"},"size":1,"tags":{}}}', id="tags"
        ),
        pytest.param(
            b'{"add":{"path":"x","partitionValues":{"p":"1"},"size":1,"novelty":' + b"[" * 99_999,
            id="nested beyond all measure",
        ),
        pytest.param(
            b'{"add":{"path":"x","partitionValues":{"p":"1"},"size":1}}' * 2, id="two in a line"
        ),
    ],
)
@pytest.mark.parametrize("at", [0, 10, 20])
def test_what_is_not_plain_is_left_to_the_other_parser(line: bytes, at: int) -> None:
    lines = encode_commit(PLAIN).splitlines()
    data = b"\n".join([*lines[:at], line, *lines[at:]])
    assert plain_add_table(data) is None
    assert said(decoded(data, large_bytes=0)) == said(decoded(data, large_bytes=1 << 30))


@pytest.mark.parametrize("seed", range(2))
def test_damaged_adds_come_to_the_same_or_are_left(seed: int) -> None:
    rnd = random.Random(seed)
    good = encode_commit(PLAIN)
    for _ in range(400):
        data = mutated(good, rnd)
        assert said(decoded(good, data, large_bytes=0)) == said(
            decoded(good, data, large_bytes=1 << 30)
        )


def test_blocks_of_a_long_commit_follow_each_other() -> None:
    data = encode_commit(PLAIN)
    with mock.patch.object(plain_adds, "_BLOCK_BYTES", 300):
        taken = plain_add_table(data)
    assert taken is not None
    assert taken["path"].num_chunks > 1
    assert taken["size"] == pa.chunked_array([list(range(20))])
