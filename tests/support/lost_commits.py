"""Logs with an acknowledged commit that was replaced, as by a rename over its file."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from delta_ops import DeltaLog, begin
from delta_ops.protocol.actions import Action, CommitInfo
from delta_ops.protocol.file_names import commit_name
from delta_ops.protocol.json.codec import encode_commit
from delta_ops.transaction import write_checksum
from tests.support.tables import add, stage_files

FUTURE = 2**42
"""Milliseconds: later than any checkpoint of a test."""
SPARK = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"


def append(log: DeltaLog, path: str, **options: Any) -> None:
    """Append a file of one byte, with everything that our commits leave."""
    txn = begin(log, **options)
    txn.stage(stage_files(add(path, modification_time=FUTURE)))
    assert txn.commit(operation="WRITE").failed_hooks == ()


def commit_to_be_lost(log: DeltaLog) -> int:
    """Commit a version whose checksum has facts of this commit only; return the version."""
    txn = begin(log)
    txn.stage(stage_files(add("lost", size=7, modification_time=FUTURE)))
    txn.set_properties({"lost": "true"})
    txn.set_transaction(("lost", 1))
    done = txn.commit(operation="WRITE", hooks=[write_checksum])
    assert done.version is not None
    return done.version


def replace_commit(log: DeltaLog, version: int, *actions: Action, **info: Any) -> str:
    """Replace a version's commit by another writer's commit; return its `txnId`."""
    txn_id = str(uuid.uuid4())
    values = {"timestamp": 0, "operation": "WRITE", "engineInfo": SPARK, "txnId": txn_id, **info}
    body = {name: value for name, value in values.items() if value is not None}
    directory = Path(log.uri) / log.log_directory
    staged_place = directory / f".{uuid.uuid4()}.tmp"
    staged_place.write_bytes(encode_commit([CommitInfo(values=body), *actions]))
    os.replace(staged_place, directory / commit_name(version))
    return txn_id
