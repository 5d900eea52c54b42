"""Decoded lines equal the standard library's result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.protocol.actions import (
    AddFile,
    CommitInfo,
    DeletionVector,
    RemoveFile,
    SetTransaction,
)
from delta_ops.protocol.arrow_schemas import ADD, DELETION_VECTOR, REMOVE, add_path_hash
from delta_ops.protocol.json import file_actions as json_file_actions
from delta_ops.protocol.json.codec import (
    CommitActions,
    LineError,
    decode_commits,
    encode_commit,
)

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


def expected(action: AddFile | RemoveFile) -> dict[str, Any]:
    """The row of an action, by the standard library's parser."""
    (body,) = json.loads(encode_commit([action])).values()
    schema = ADD if isinstance(action, AddFile) else REMOVE
    row = {field.name: body.get(field.name) for field in schema}
    if row["deletionVector"] is not None:
        row["deletionVector"] = {f.name: row["deletionVector"].get(f.name) for f in DELETION_VECTOR}
    return row


def assert_decoded(decoded: CommitActions, actions: Sequence[AddFile | RemoveFile]) -> None:
    for table, schema, kind in (
        (decoded.adds, ADD, AddFile),
        (decoded.removes, REMOVE, RemoveFile),
    ):
        assert table.schema == add_path_hash(schema)
        rows = table.select(schema.names).to_pylist(maps_as_pydicts="strict")
        assert rows == [expected(action) for action in actions if isinstance(action, kind)]


@given(st.lists(LINES, min_size=1, max_size=4), st.integers(1, 40))
@settings(max_examples=80, deadline=None)
def test_commits_that_are_decoded_together_stay_separate(commits: list[Any], many: int) -> None:
    datas = [encode_commit([CommitInfo(values={"n": i}), *c]) for i, c in enumerate(commits)]
    with (
        mock.patch.object(json_file_actions, "_TEXT_BYTES", 30 * many),
        mock.patch.object(json_file_actions, "_BLOCK_BYTES", 20 * many),
    ):
        together = decode_commits(datas)
    for i, (decoded, actions) in enumerate(zip(together, commits, strict=True)):
        assert decoded.others == (CommitInfo(values={"n": i}),)
        assert_decoded(decoded, actions)


def add_line(**changes: Any) -> bytes:
    body = {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1, **changes}
    return json.dumps({"add": body}).encode()


MANY = encode_commit(
    AddFile(path=f"{i}", size=i, partition_values={}, modification_time=0) for i in range(100)
).splitlines()


def decoded_among_many(*lines: bytes) -> CommitActions:
    """The actions of a commit large enough for bulk decoding, with these lines in its middle."""
    before, after = (b"\n".join(part) for part in (MANY[:50], MANY[50:]))
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
    decoded = decoded_among_many(line, b"", b'{"txn":{"appId":"a","version":1}}')
    assert decoded.others == (SetTransaction(app_id="a", version=1),)
    assert len(decoded.adds) == 101
    body = json.loads(line)["add"]
    row = decoded.adds.slice(50, 1).to_pylist()[0]
    assert {name: row[name] for name in ("path", "size", "stats")} == {
        name: body.get(name) for name in ("path", "size", "stats")
    }
    for name in ("partitionValues", "tags"):
        assert dict(row[name] or {}) == (body.get(name) or {})


def test_other_actions_keep_their_order_at_any_position() -> None:
    txns = [f'{{"txn":{{"appId":"a","version":{n}}}}}'.encode() for n in range(3)]
    before, after = (b"\n".join(part) for part in (MANY[:50], MANY[50:]))
    (decoded,) = decode_commits([b"\n".join([txns[0], before, txns[1], after, txns[2]])])
    assert [each.version for each in decoded.others if isinstance(each, SetTransaction)] == [
        0,
        1,
        2,
    ]


@pytest.mark.some_cases(12)
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"add":{"path":"x"', id="truncated"),
        pytest.param(add_line() + add_line(), id="two objects"),
        pytest.param(add_line() + b" " + add_line(), id="two objects and a space"),
        pytest.param(b'{"add":{"size":1}}', id="no path"),
        pytest.param(b'{"add":{"path":"x"}}', id="no size"),
        pytest.param(b'{"add":{"path":"x","size":1.5}}', id="a fraction"),
        pytest.param(b'{"add":{"path":"\xff","size":1}}', id="bytes that are no text"),
        pytest.param(b'{"add":{"path":"\\ud800","size":1}}', id="half a surrogate pair"),
        pytest.param(add_line(size=2**70), id="a size beyond 64 bits"),
        pytest.param(add_line(size=-1), id="a negative size"),
        pytest.param(add_line(size="1"), id="a size of digits"),
        pytest.param(add_line(baseRowId=1.5), id="a row id of a fraction"),
        pytest.param(add_line(deletionVector={"offset": "1"}), id="an offset of digits"),
        pytest.param(add_line(dataChange="true"), id="a flag of text"),
        pytest.param(add_line(partitionValues={"p": 1}), id="a partition value that is a number"),
        pytest.param(
            add_line(partitionValues={"p": "1", "q": "2"}).replace(b'"q"', b'"p"'),
            id="a partition value twice",
        ),
        pytest.param(add_line().replace(b', "size"', b' "size"'), id="a comma less"),
        pytest.param(add_line().replace(b"}}", b"},}"), id="a comma too many"),
        pytest.param(add_line().replace(b'"size": 1', b'"size": 01'), id="a zero in front"),
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
