"""Lines on files in bulk give what they give one by one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.protocol import json_codec
from delta_ops.protocol.actions import (
    AddFile,
    CommitInfo,
    DeletionVector,
    RemoveFile,
    SetTransaction,
)
from delta_ops.protocol.json_codec import LineError, decode_commits, encode_action, encode_commit
from delta_ops.protocol.json_file_actions import decode_file_lines

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
KEYS = st.sampled_from(["p", "q", "a b", "ü"])
MAPS = st.dictionaries(KEYS, st.none() | TEXTS, max_size=3)
LONGS = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(0, 2**63 - 1)
VECTORS = st.builds(
    DeletionVector,
    storage_type=st.sampled_from("uip"),
    path_or_inline_dv=TEXTS,
    size_in_bytes=st.integers(0, 2**31 - 1),
    cardinality=LONGS,
    offset=st.none() | st.integers(0, 2**31 - 1),
)
ADDS = st.builds(
    AddFile,
    path=TEXTS,
    size=SIZES,
    partition_values=MAPS,
    modification_time=LONGS,
    data_change=st.booleans(),
    stats=st.none() | TEXTS | st.just('{"numRecords":1,"minValues":{"a":"\\"}"}}'),
    tags=st.none() | MAPS,
    deletion_vector=st.none() | VECTORS,
    base_row_id=st.none() | LONGS,
)
REMOVES = st.builds(
    RemoveFile,
    path=TEXTS,
    deletion_timestamp=st.none() | LONGS,
    data_change=st.booleans(),
    extended_file_metadata=st.none() | st.booleans(),
    partition_values=st.none() | MAPS,
    size=st.none() | LONGS,
    tags=st.none() | MAPS,
    deletion_vector=st.none() | VECTORS,
)
LINES = st.lists(ADDS | REMOVES, min_size=1, max_size=12)


def said(table: pa.Table) -> list[dict[str, Any]]:
    """The rows; a key without a value is as good as none."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name in ("partitionValues", "tags"):
            if row[name] is not None:
                row[name] = {key: value for key, value in row[name] if value is not None}
    return rows


@given(LINES)
@settings(max_examples=300, deadline=None)
def test_bulk_equals_one_by_one(actions: list[AddFile | RemoveFile]) -> None:
    data = encode_commit(actions)
    kinds = {"add" if isinstance(each, AddFile) else "remove" for each in actions}
    bulk = decode_file_lines(data, kinds)
    assert bulk is not None
    single = json_codec._decode_lines(data, 0)
    for name in ("adds", "removes"):
        assert getattr(bulk, name).schema == getattr(single, name).schema
        assert said(getattr(bulk, name)) == said(getattr(single, name))


@given(st.lists(LINES, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_commits_that_are_decoded_together_stay_apart(commits: list[Any]) -> None:
    few = json_codec._FEW_LINES
    json_codec._FEW_LINES = 0
    try:
        datas = [encode_commit([CommitInfo(values={"n": i}), *c]) for i, c in enumerate(commits)]
        together = decode_commits(datas)
    finally:
        json_codec._FEW_LINES = few
    for data, decoded in zip(datas, together, strict=True):
        single = json_codec._decode_lines(data, 0)
        assert decoded.others == single.others
        assert said(decoded.adds) == said(single.adds)
        assert said(decoded.removes) == said(single.removes)


def add_line(**changes: Any) -> bytes:
    body = {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1, **changes}
    return json.dumps({"add": body}).encode()


MANY = [encode_action(AddFile(path=f"{i}", size=i, partition_values={}, modification_time=0))
        for i in range(100)]  # fmt: skip


def decoded_among_many(*lines: bytes) -> json_codec.CommitActions:
    """The actions of a commit that is large enough for the bulk, with these lines in its middle."""
    before, after = ("\n".join(part).encode() for part in (MANY[:50], MANY[50:]))
    (decoded,) = decode_commits([b"\n".join([before, *lines, after])])
    return decoded


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(add_line(novelty={"x": [1]}), id="an unknown field"),
        pytest.param(add_line(size=7).replace(b'{"add":', b'{ "add" : '), id="spaces"),
        pytest.param(add_line() + b"\r", id="a line end of Windows"),
        pytest.param(add_line(tags={"t": "1"}), id="a tag that the first line has not"),
        pytest.param(add_line(partitionValues={"z": "1"}), id="a key that the first line has not"),
        pytest.param(add_line(stats="x" * 5_000_000), id="a line longer than a block"),
        pytest.param(add_line(path="\\u00e9\U0001f600"), id="escapes"),
        pytest.param(add_line().replace(b'"size": 1', b'"size": 1, "size": 2'), id="a name twice"),
        pytest.param(add_line()[:-1] + b',"remove":null,"txn":null}', id="actions of nulls"),
        pytest.param(add_line()[:-1] + b',"novelty":{"x":1}}', id="an unknown action beside it"),
    ],
)
def test_odd_lines_among_many_are_read(line: bytes) -> None:
    adds = decoded_among_many(line, b"", b'{"txn":{"appId":"a","version":1}}').adds
    assert len(adds) == 101
    expected = json_codec._decode_lines(line, 0).adds
    assert said(adds.slice(50, 1)) == said(expected)


def test_other_actions_keep_their_order_wherever_they_stand() -> None:
    txns = [f'{{"txn":{{"appId":"a","version":{n}}}}}'.encode() for n in range(3)]
    before, after = ("\n".join(part).encode() for part in (MANY[:50], MANY[50:]))
    (decoded,) = decode_commits([b"\n".join([txns[0], before, txns[1], after, txns[2]])])
    versions = [each.version for each in decoded.others if isinstance(each, SetTransaction)]
    assert versions == [0, 1, 2]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"add":{"path":"x"', id="truncated"),
        pytest.param(b'{"add":{"size":1}}', id="no path"),
        pytest.param(b'{"add":{"path":"x"}}', id="no size"),
        pytest.param(b'{"add":{"path":"x","size":1.5}}', id="a fraction"),
        pytest.param(b'{"add":{"path":"\xff","size":1}}', id="bytes that are no text"),
        pytest.param(b'{"add":{"path":"\\ud800","size":1}}', id="half a surrogate pair"),
        pytest.param(add_line(size=2**70), id="a size beyond 64 bits"),
        pytest.param(add_line(size=-1), id="a negative size"),
        pytest.param(add_line()[:-1] + b',"txn":{"appId":"a","version":1}}', id="two actions"),
        pytest.param(add_line()[:-1] + b',"remove":{"path":"y"}}', id="an add and a remove"),
        pytest.param(add_line(novelty=1).replace(b"nov", b"\xff"), id="a name that is no text"),
        pytest.param(add_line(stats={"numRecords": 1}), id="statistics that are no text"),
    ],
)
def test_a_malformed_line_among_many_is_named(line: bytes) -> None:
    with pytest.raises(LineError) as raised:
        decoded_among_many(line)
    assert raised.value.line == 51
