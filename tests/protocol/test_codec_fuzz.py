"""Damaged commits: decoding many commits at once equals decoding line by line."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

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
from delta_ops.protocol.arrow_schemas import ADD, REMOVE
from delta_ops.protocol.json.codec import LineError, decode_commits, encode_commit
from tests.support.mutations import mutate
from tests.support.tiers import seeded

ENDS = (b"\n", b"\n", b"\r\n", b"\n\n")
BOM = b"\xef\xbb\xbf"
KNOWN = {"add", "remove", "metaData", "protocol", "txn", "domainMetadata", "commitInfo", "cdc"}


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
    return encode_commit([rnd.choice(actions)]).removesuffix(b"\n")


def commit(rnd: random.Random) -> bytes:
    """A commit that may be damaged."""
    lines = [line(rnd) for _ in range(rnd.randint(1, 6))]
    whole = rnd.choice(ENDS).join(lines) + rnd.choice([b"", b"\n"])
    return rnd.choice([b"", b"", b"", BOM]) + mutate(whole, rnd)


def said(table: pa.Table, schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows; a key without a value equals a missing key."""
    rows: list[dict[str, Any]] = table.select(schema.names).to_pylist()
    for row in rows:
        for name in ("partitionValues", "tags"):
            if row[name] is not None:
                row[name] = {key: value for key, value in row[name] if value is not None}
    return rows


Outcome = tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]


def decoded(commits: Sequence[bytes]) -> list[Outcome] | tuple[int, int]:
    """Adds, removes and other actions of each commit, or the commit and line of the error."""
    try:
        return [
            (said(each.adds, ADD), said(each.removes, REMOVE), list(map(repr, each.others)))
            for each in decode_commits(commits)
        ]
    except LineError as error:
        return error.commit, error.line


def decoded_line(text: bytes) -> Outcome | None:
    """The decoded form of one line; None if it is invalid."""
    # A BOM would be allowed on the first line, so this is the second.
    found = decoded([b"\n" + text])
    return found[0] if isinstance(found, list) else None


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a commit."""
    return data.removeprefix(BOM).split(b"\n")


def line_by_line(data: bytes) -> Outcome | None:
    """The lines of a commit, each decoded alone; None if one is invalid."""
    adds, removes, others = [], [], []
    for text in lines_of(data):
        found = decoded_line(text)
        if found is None:
            return None
        assert_as_reported(text, found)
        adds += found[0]
        removes += found[1]
        others += found[2]
    return adds, removes, others


def assert_as_reported(text: bytes, found: Outcome) -> None:
    """Assert that a decoded line equals the standard library's result."""
    if not text.strip():
        assert found == ([], [], [])
        return
    (line,) = [json.loads(text)]
    actions = {name: body for name, body in line.items() if name in KNOWN and body is not None}
    assert len(actions) <= 1
    for rows, name in zip(found[:2], ("add", "remove"), strict=True):
        assert len(rows) == (name in actions)
        for row in rows:
            for field in ("path", "size", "deletionTimestamp", "stats", "dataChange"):
                assert row.get(field) == (actions[name].get(field) if field in row else None)
            values = actions[name].get("partitionValues") or {}
            of_row = row["partitionValues"] or {}
            assert of_row == {key: value for key, value in values.items() if value is not None}
    assert len(found[2]) == len(actions.keys() - {"add", "remove"})


def check_codec(seed: int, cases: int) -> None:
    """Raises AssertionError if many commits together decode differently than line by line."""
    rnd = seeded(seed)
    many = b"\n".join([line(rnd) for _ in range(200)])
    of_many = line_by_line(many)
    for _ in range(cases):
        commits = [*(commit(rnd) for _ in range(rnd.randint(1, 3))), many]
        expected = [*map(line_by_line, commits[:-1]), of_many]
        match decoded(commits):
            case int(i), int(number):
                assert decoded_line(lines_of(commits[i])[number - 1]) is None, commits[i]
            case found:
                assert found == expected, commits[:-1]


@pytest.mark.parametrize("seed", range(2))
def test_a_line_with_any_bytes_is_decoded_the_same_among_others(seed: int) -> None:
    check_codec(seed, 150)


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
    adds = (
        AddFile(path=str(i), size=i, partition_values={}, modification_time=0) for i in range(100)
    )
    many = encode_commit(adds).splitlines()
    deep = b'{"add":{"path":"z","size":1,"novelty":' + nested + b"}}"
    many.insert(0 if place == "first" else 100, deep)
    with pytest.raises(LineError) as raised:
        decode_commits([b"\n".join(many)])
    assert raised.value.line == (1 if place == "first" else 101)
