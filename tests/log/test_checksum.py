"""Checksums of versions, and contradicting logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from delta_ops.errors import LogCorruptError
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.json.codec import json_body
from tests.support.tables import PROTOCOL, add, metadata, write_log


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return write_log(tmp_path, [[add("a", size=2), add("b", size=3)]]).snapshot()


def write_checksum(snapshot: Snapshot, content: bytes | dict[str, Any]) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    place = Path(snapshot.uri) / "_delta_log" / f"{snapshot.version:020d}.crc"
    place.write_bytes(data)


RIGHT: dict[str, Any] = {
    "numFiles": 2,
    "tableSizeBytes": 5,
    "protocol": json_body(PROTOCOL),
    "metadata": json_body(metadata()),
}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(RIGHT, id="complete"),
        pytest.param({"numFiles": 2}, id="incomplete"),
        pytest.param({**RIGHT, "metadata": {}}, id="malformed in part"),
        pytest.param(
            {**RIGHT, "protocol": {"minReaderVersion": 2**64, "minWriterVersion": 2}},
            id="a version beyond 64 bits",
        ),
    ],
)
def test_a_checksum_that_agrees(snapshot: Snapshot, content: dict[str, Any]) -> None:
    write_checksum(snapshot, content)
    assert validate_checksum(snapshot)


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_without_a_readable_checksum_there_is_nothing_to_compare(
    snapshot: Snapshot, content: bytes | None
) -> None:
    if content is not None:
        write_checksum(snapshot, content)
    assert not validate_checksum(snapshot)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"numFiles": 3}, "numFiles is 3, but the log's is 2", id="files"),
        pytest.param({"tableSizeBytes": 4}, "tableSizeBytes is 4", id="bytes"),
        pytest.param(
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}},
            "minWriterVersion is 1",
            id="protocol",
        ),
        pytest.param(
            {"metadata": json_body(metadata(id="another"))}, "metadata.id is another", id="metadata"
        ),
    ],
)
def test_a_checksum_that_the_log_contradicts_is_an_error_that_says_both(
    snapshot: Snapshot, changed: dict[str, Any], message: str
) -> None:
    write_checksum(snapshot, {**RIGHT, **changed})
    with pytest.raises(LogCorruptError, match=message):
        validate_checksum(snapshot)
