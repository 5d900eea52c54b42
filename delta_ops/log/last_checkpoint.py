"""`_last_checkpoint`: a hint where to start listing, never trusted as a fact.

Source: PROTOCOL.md, "Last Checkpoint File". The file is ignored if it is missing, empty, malformed
or dangling, or if its checksum is wrong.
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
    """The content of `_last_checkpoint`."""

    version: int
    size: int
    """Number of actions in the checkpoint."""
    size_in_bytes: int | None = None
    parts: int | None = None
    """Number of files of a multi-part checkpoint; None for other kinds."""
    num_of_add_files: int | None = None
    checkpoint_schema: StructType | None = None
    """Schema of a Parquet checkpoint."""


def load_hint(storage: Storage, directory: str) -> int | None:
    """The version in the hint; None without a usable hint."""
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
    """The version in the hint, even in a malformed hint, which other readers may use."""
    try:
        return int(hint_from_json(storage.read(f"{directory}/{LAST_CHECKPOINT}"))["version"])
    except (FileNotFoundError, DeltaOpsError, *_MALFORMED):
        return None


def write_hint(storage: Storage, directory: str, hint: LastCheckpoint) -> None:
    """Point the hint at this checkpoint, unless it already points at a later one."""
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
    """The schema as JSON; None if it is so long that it would slow down every reader."""
    text = "" if schema is None else schema_to_json(schema)
    return json.loads(text) if 0 < len(text) <= _SCHEMA_CHARS else None


def checksum_of(hint: Mapping[str, Any]) -> str:
    """The MD5 of a hint's canonical form, without its `checksum` field.

    Source: PROTOCOL.md, "JSON checksum".
    """
    leaves: list[tuple[str, str]] = []
    for name, value in hint.items():
        if name != "checksum":
            _collect_leaves(value, _quote(name), leaves)
    canonical = ",".join([f"{path}={text}" for path, text in sorted(leaves)])
    return hashlib.md5(canonical.encode(), usedforsecurity=False).hexdigest()


class _Number(str):
    """A number in its original notation."""

    __slots__ = ()


def hint_from_json(data: bytes) -> dict[str, Any]:
    """The fields of `_last_checkpoint`; numbers keep their original notation."""
    return json.loads(  # type: ignore[no-any-return]
        data, parse_int=_Number, parse_float=_Number, object_pairs_hook=_refuse_duplicates
    )


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _collect_leaves(value: Any, path: str, into: list[tuple[str, str]]) -> None:
    """Collect paths and values as strings; fast, as it runs each time a table is opened."""
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


@lru_cache(maxsize=1024)  # a schema has few distinct names, each used hundreds of times
def _quote(text: str) -> str:
    return f'"{quote(text, safe="")}"'
