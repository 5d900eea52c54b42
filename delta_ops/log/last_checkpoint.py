"""`_last_checkpoint`: a hint where to begin listing, never a fact.

Source: PROTOCOL.md, "Last Checkpoint File". Missing, empty, malformed, dangling or with a checksum
that is not its own, it is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from delta_ops.errors import DeltaOpsError
from delta_ops.protocol.file_names import LAST_CHECKPOINT
from delta_ops.protocol.schema import StructType, schema_to_json
from delta_ops.storage import Storage

_SCHEMA_CHARS = 20_000
"""As in the reference."""
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    """What the file says of the newest checkpoint."""

    version: int
    size: int
    """Actions in the checkpoint."""
    size_in_bytes: int | None = None
    parts: int | None = None
    """Files of a multi-part checkpoint; None of another."""
    num_of_add_files: int | None = None
    checkpoint_schema: StructType | None = None
    """Schema of a checkpoint in Parquet."""


def load_hint(storage: Storage, directory: str) -> int | None:
    """The version that the hint names; None if there is no usable hint."""
    try:
        hint = hint_from_json(storage.read(f"{directory}/{LAST_CHECKPOINT}"))
        stored = hint.get("checksum")
        if stored is not None and stored != checksum_of(hint):
            return None
        version = int(hint["version"])
    except (FileNotFoundError, DeltaOpsError, *_MALFORMED):
        return None
    return version if version >= 0 else None


def load_named_version(storage: Storage, directory: str) -> int | None:
    """The version that the hint names, be the rest of it right or not; others may go by it."""
    try:
        return int(hint_from_json(storage.read(f"{directory}/{LAST_CHECKPOINT}"))["version"])
    except (FileNotFoundError, DeltaOpsError, *_MALFORMED):
        return None


def write_hint(storage: Storage, directory: str, hint: LastCheckpoint) -> None:
    """Point at this checkpoint, unless the hint points at a later one already."""
    stored = load_hint(storage, directory)
    if stored is not None and stored >= hint.version:
        return
    body = {
        "version": hint.version,
        "size": hint.size,
        "parts": hint.parts,
        "sizeInBytes": hint.size_in_bytes,
        "numOfAddFiles": hint.num_of_add_files,
        "checkpointSchema": _short_schema(hint.checkpoint_schema),
    }
    present: dict[str, Any] = {n: value for n, value in body.items() if value is not None}
    present["checksum"] = checksum_of(present)
    storage.replace(
        f"{directory}/{LAST_CHECKPOINT}", json.dumps(present, separators=(",", ":")).encode()
    )


def _short_schema(schema: StructType | None) -> Any:
    """The schema as JSON; None if it is so long that every reader would pay for it."""
    text = "" if schema is None else schema_to_json(schema)
    return json.loads(text) if 0 < len(text) <= _SCHEMA_CHARS else None


def checksum_of(hint: Mapping[str, Any]) -> str:
    """The MD5 of the canonical form of a hint, its own `checksum` aside.

    Source: PROTOCOL.md, "JSON checksum".
    """
    leaves: list[tuple[str, str]] = []
    for name, value in hint.items():
        if name != "checksum":
            _collect_leaves(value, _quote(name), leaves)
    canonical = ",".join([f"{path}={text}" for path, text in sorted(leaves)])
    return hashlib.md5(canonical.encode(), usedforsecurity=False).hexdigest()


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def hint_from_json(data: bytes) -> dict[str, Any]:
    """The fields of `_last_checkpoint`, with numbers as they are written."""
    return json.loads(  # type: ignore[no-any-return]
        data, parse_int=_Number, parse_float=_Number, object_pairs_hook=_refuse_duplicates
    )


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _collect_leaves(value: Any, path: str, into: list[tuple[str, str]]) -> None:
    """Paths and texts; each table that is opened pays for this, and a schema has hundreds."""
    kind = type(value)
    if kind is dict:
        for name, inner in value.items():
            _collect_leaves(inner, f"{path}+{_quote(name)}", into)
    elif kind is list:
        for i, inner in enumerate(value):
            _collect_leaves(inner, f"{path}+{i}", into)
    elif kind is str:
        into.append((path, _quote(value)))
    elif kind is bool:
        into.append((path, "true" if value else "false"))
    else:
        into.append((path, str(value) if kind is _Number else json.dumps(value)))


@lru_cache(maxsize=1024)  # a schema has few names, hundreds of times
def _quote(text: str) -> str:
    return f'"{quote(text, safe="")}"'
