"""Invalid lines of a commit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import CommitInfo
from delta_ops.protocol.json.codec import LineError, decode_commits, encode_commit

ADD = {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
METADATA = {"id": "i", "schemaString": "{}", "partitionColumns": []}


@pytest.mark.parametrize(
    "action",
    [
        pytest.param({"add": {**ADD, "size": 2**70}}, id="a size beyond 64 bits"),
        pytest.param({"add": {**ADD, "path": "\ud800"}}, id="half a surrogate pair in a path"),
        pytest.param({"add": {**ADD, "partitionValues": []}}, id="partition values in a list"),
        pytest.param({"add": {**ADD, "deletionVector": 3}}, id="a deletion vector of a number"),
        pytest.param({"add": {**ADD, "deletionVector": {}}}, id="a deletion vector of nothing"),
        pytest.param(
            {"add": {**ADD, "deletionVector": {"storageType": "u", "pathOrInlineDv": None}}},
            id="a deletion vector that is nowhere",
        ),
        pytest.param({"add": [1]}, id="a body that is a list"),
        pytest.param({"add": {**ADD, "size": -1}}, id="a negative size"),
        pytest.param({"add": {**ADD, "size": True}}, id="a size that is true"),
        pytest.param({"add": ADD, "txn": {"appId": "a", "version": 1}}, id="two actions"),
        pytest.param({"txn": {"appId": "a", "version": 1.5}}, id="a version of a fraction"),
        pytest.param({"txn": {"appId": "a", "version": "1"}}, id="a version of digits"),
        pytest.param({"metaData": {**METADATA, "partitionColumns": "ab"}}, id="a text as a list"),
        pytest.param({"metaData": {**METADATA, "configuration": ["ab"]}}, id="a list as an object"),
        pytest.param({"metaData": {**METADATA, "format": "parquet"}}, id="a format of text"),
        pytest.param(
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": "ab"}},
            id="features of text",
        ),
        pytest.param({"domainMetadata": {"domain": "a", "removed": "false"}}, id="a flag of text"),
        pytest.param({"commitInfo": [["a", 1]]}, id="a commitInfo of pairs"),
        pytest.param({"cdc": {"path": 1, "size": 1}}, id="a path that is a number"),
        pytest.param({"txn": {"appId": 5, "version": 1}}, id="an application that is a number"),
        pytest.param({"txn": {"appId": "\ud800", "version": 1}}, id="half a pair in an id"),
        pytest.param({"txn": {"appId": "a", "version": 2**64}}, id="a version beyond 64 bits"),
        pytest.param({"metaData": {**METADATA, "configuration": {"a": 5}}}, id="a number property"),
        pytest.param({"metaData": {"schemaString": "{}"}}, id="no table id"),
        pytest.param({"protocol": {"minReaderVersion": "x"}}, id="a version of text"),
        pytest.param({"domainMetadata": {}}, id="a domain without its name"),
    ],
)
def test_a_malformed_action_is_an_error_of_its_line(action: dict[str, Any]) -> None:
    data = b'{"commitInfo":{}}\n' + json.dumps(action).encode()
    with pytest.raises(LineError) as raised:
        decode_commits([data])[0]
    assert raised.value.line == 2


def test_a_line_nested_beyond_all_measure_is_an_error_of_its_line() -> None:
    with pytest.raises(LineError, match="not valid JSON"):
        decode_commits([b'{"novelty":' + b"[" * 200_000])[0]


@pytest.mark.parametrize("place", [0, 1])
def test_invalid_utf8_is_an_error_of_its_line_at_any_position(place: int) -> None:
    lines = [json.dumps({"add": ADD}).encode()]
    lines.insert(place, b'{"commitInfo":{},"n\xff":1}')
    with pytest.raises(LineError) as raised:
        decode_commits([b"\n".join(lines)])[0]
    assert raised.value.line == place + 1


def test_a_property_that_is_null_is_not_set() -> None:
    line = {"metaData": {**METADATA, "configuration": {"a": None, "b": "1"}}}
    (metadata,) = decode_commits([json.dumps(line).encode()])[0].others
    assert getattr(metadata, "configuration") == {"b": "1"}  # noqa: B009


def test_a_text_that_has_no_utf8_cannot_be_committed() -> None:
    with pytest.raises(InvalidRequestError, match="cannot be written as JSON") as refused:
        encode_commit([CommitInfo(values={"userMetadata": "a note \ud800"})])
    assert r"a note \ud800' has half of a surrogate pair" in str(refused.value)


KEYS = st.sampled_from(
    ["add", "remove", "metaData", "protocol", "txn", "commitInfo", "cdc", "domainMetadata"]
)
FIELDS = st.sampled_from(
    ["path", "size", "partitionValues", "stats", "deletionVector", "tags", "appId", "version"]
) | st.sampled_from(
    ["id", "schemaString", "configuration", "minReaderVersion", "readerFeatures", "domain"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=6,
)


def line_of_error(data: bytes) -> int | None:
    """The line that cannot be decoded, from 1."""
    try:
        decode_commits([data])[0]
    except LineError as error:
        return error.line
    return None


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=2), max_size=4))
def test_any_json_is_decoded_or_an_error_of_a_line(lines: list[dict[str, Any]]) -> None:
    data = "\n".join(map(json.dumps, lines)).encode()
    assert line_of_error(data) in {None, *range(1, len(lines) + 1)}


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_an_error_of_a_line(data: bytes) -> None:
    assert line_of_error(data) in {None, *range(1, data.count(b"\n") + 2)}
