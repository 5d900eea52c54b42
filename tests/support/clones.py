"""Shallow clones in delta-spark's form: the log names another table's files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from delta_ops import DeltaLog, Snapshot
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import AddFile, CommitInfo
from delta_ops.protocol.deletion_vectors import stored_path
from delta_ops.protocol.file_paths import encode_path

Naming = Callable[[str], str]
"""Takes a file's path in the source's log; returns its path in the clone's log."""


def prefix_naming(prefix: str) -> Naming:
    return lambda log_path: f"{prefix}/{log_path}"


def shallow_clone(source: Snapshot, clone: DeltaLog, name: Naming, **metadata: Any) -> DeltaLog:
    """Make `clone` a table of the source's files, in one commit."""
    adds = [_rename(add, source, name) for add in source.add_files()]
    info = CommitInfo(values={"timestamp": 0, "operation": "CLONE", "operationParameters": {}})
    defined = replace(source.metadata, id="c" * 36, **metadata)
    create_commit(clone.storage, clone.log_directory, 0, [info, source.protocol, defined, *adds])
    return clone


def _rename(add: AddFile, source: Snapshot, name: Naming) -> AddFile:
    vector = add.deletion_vector
    if vector is not None and (path := stored_path(vector, source.uri)) is not None:
        place = name(encode_path(path))
        vector = replace(vector, storage_type="p", path_or_inline_dv=place)
    return replace(add, path=name(add.path), deletion_vector=vector)


def content_of(root: Path) -> dict[str, str]:
    """Hash and time of every file below a directory."""
    return {
        str(path.relative_to(root)): (
            hashlib.sha256(path.read_bytes()).hexdigest() + str(path.stat().st_mtime_ns)
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
