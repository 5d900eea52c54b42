"""Commit info: the `commitInfo` action, which describes a commit.

Source: PROTOCOL.md, "Commit Provenance Information". Names, order and shapes follow the reference.
`loop` adds the values of each attempt and makes it the first action of the commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from delta_ops.protocol.actions import AddFile, FileAction, RemoveFile
from delta_ops.protocol.row_tracking import ROW_TRACKING_PRESERVED, tracks_rows
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction.races.conflicts import Footprint

_ENGINE = "delta_ops"
RESERVED_NAMES = frozenset(
    {
        "operation",
        "operationParameters",
        "isolationLevel",
        "isBlindAppend",
        "operationMetrics",
        "userMetadata",
        "tags",
        "engineInfo",
        "timestamp",
        "inCommitTimestamp",
        "readVersion",
        "txnId",
    }
)
"""Names in `commitInfo` that a commit sets itself."""


def commit_info(
    operation: str,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int],
    footprint: Footprint,
    user_metadata: str | None,
    definition: TableDefinition,
    texts: Mapping[str, str],
) -> dict[str, Any]:
    """The body of `commitInfo`, without the values that change with each attempt.

    Args:
        definition: The table after the commit.
        texts: More fields, by names that are not in `RESERVED_NAMES`.
    """
    info: dict[str, Any] = {
        **texts,
        "operation": operation,
        "operationParameters": {k: _parameter(v) for k, v in parameters.items()},
        "isolationLevel": footprint.isolation,
        "isBlindAppend": not (footprint.reads or footprint.removed_paths or footprint.named_again),
        "operationMetrics": {name: str(count) for name, count in metrics.items()},
    }
    if user_metadata is not None:
        info["userMetadata"] = user_metadata
    if tracks_rows(definition):
        # All our operations keep the ids of copied and updated rows.
        info["tags"] = {ROW_TRACKING_PRESERVED: "true"}
    return {**info, "engineInfo": engine_info()}


def file_metrics(files: Sequence[FileAction], num_rows: int) -> dict[str, int]:
    """The `operationMetrics` of every commit: files, rows and bytes.

    Args:
        num_rows: Rows of the added files.
    """
    adds = [action for action in files if isinstance(action, AddFile)]
    removes = [action for action in files if isinstance(action, RemoveFile)]
    metrics = {
        "numFiles": len(adds),
        "numOutputRows": num_rows,
        "numOutputBytes": sum(add.size for add in adds),
    }
    if removes:
        metrics["numRemovedFiles"] = len(removes)
        metrics["numRemovedBytes"] = sum(remove.size or 0 for remove in removes)
    return metrics


@cache
def engine_info() -> str:
    """`commitInfo.engineInfo`."""
    found = installed_version()
    return _ENGINE if found is None else f"{_ENGINE}/{found}"


@cache
def installed_version() -> str | None:
    """The version of this package; None if it is not installed, such as a source checkout."""
    from importlib.metadata import PackageNotFoundError, version  # imports the package email

    try:
        return version(_ENGINE)
    except PackageNotFoundError:
        return None


def is_ours(engine: str | None) -> bool:
    """Whether an `engineInfo` names delta_ops, in any version."""
    return engine is not None and engine.partition("/")[0] == _ENGINE


def _parameter(value: Any) -> str | int | None:
    """Encode an operation parameter: lists and objects as JSON text, other values unchanged."""
    simple = isinstance(value, str | int | None)
    return value if simple else json.dumps(value, separators=(",", ":"))
