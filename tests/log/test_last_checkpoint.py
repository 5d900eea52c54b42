"""The hint that says where a listing begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.last_checkpoint import checksum_of, hint_from_json, load_hint
from tests.support.tables import SHARED, add, live_paths, needs_shared, write_log

SAMPLE = (
    b'{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], '
    b'{"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'
)
"""As in PROTOCOL.md, "JSON checksum"."""
TABLES = SHARED / "data" / "tables"


def test_the_checksum_follows_the_protocol() -> None:
    assert checksum_of(hint_from_json(SAMPLE)) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


@needs_shared
def test_checksums_of_the_reference_are_right() -> None:
    hints = [json.loads(p.read_text()) for p in TABLES.rglob("_last_checkpoint")]
    hints = [each for each in hints if "checksum" in each]
    found = [
        checksum_of(hint_from_json(json.dumps(each, ensure_ascii=False).encode())) for each in hints
    ]
    assert found == [each["checksum"] for each in hints]
    assert len(found) > 3


def table(root: Path) -> Path:
    """Six commits and a checkpoint of version 4; returns the path of its hint."""
    log = write_log(root, [[add(f"{v}.parquet")] for v in range(6)])
    write_checkpoint(log.snapshot(4), now_ms=0)
    return root / "_delta_log" / "_last_checkpoint"


def test_ours_has_a_checksum_and_is_used(tmp_path: Path) -> None:
    hint = json.loads(table(tmp_path).read_text())
    assert hint["checksum"] == checksum_of(hint_from_json(json.dumps(hint).encode()))
    assert load_hint(DeltaLog(tmp_path).storage, "_delta_log") == 4


@pytest.mark.parametrize(
    ("found", "replaced"),
    [
        pytest.param(b'"version":4', b'"version":5', id="another version"),
        pytest.param(b'"version":4', b'"version":4,"version":4', id="a name twice"),
        pytest.param(b'"checksum":"', b'"checksum":"0', id="another checksum"),
        pytest.param(b'"version":4', b'"version":-1', id="a negative version"),
        pytest.param(b'"version":4', b'"version":[4]', id="a list"),
    ],
)
def test_a_hint_that_is_not_right_is_none(tmp_path: Path, found: bytes, replaced: bytes) -> None:
    hint = table(tmp_path)
    content = hint.read_bytes()
    assert found in content
    hint.write_bytes(content.replace(found, replaced))
    log = DeltaLog(tmp_path)
    assert load_hint(log.storage, "_delta_log") is None
    assert live_paths(log) == {f"{v}.parquet" for v in range(6)}
