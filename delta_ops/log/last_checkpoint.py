"""`_last_checkpoint`: a hint where to start listing, never trusted as a fact.

Source: PROTOCOL.md, "Last Checkpoint File". The file is ignored if it is missing, empty, malformed
or dangling, or if its checksum is wrong. Its tags may name the table's scan cache, see
`scan_cache.hint`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from delta_ops.errors import DeltaOpsError
from delta_ops.log.scan_cache.hint import TAG, CacheHint, DamagedHintError, hint_from_text
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


class Hints(NamedTuple):
    """What `_last_checkpoint` says."""

    version: int
    """The version of the checkpoint."""
    scan_cache: CacheHint | None
    """The table's scan cache, if a tag names it."""


def load_hint(storage: Storage, directory: str) -> int | None:
    """The version in the hint; None without a usable hint."""
    hints = load_hints(storage, directory)
    return None if hints is None else hints.version


def load_hints(storage: Storage, directory: str) -> Hints | None:
    """The version and the scan cache in the hint; None without a usable hint."""
    hint = _load(storage, directory)
    if hint is None:
        return None
    cache = None
    with suppress(DamagedHintError, *_MALFORMED):
        cache = hint_from_text(hint["tags"][TAG], directory)
    return Hints(int(hint["version"]), cache)


def _load(storage: Storage, directory: str) -> dict[str, Any] | None:
    """The fields of a usable hint."""
    try:
        hint = hint_from_json(storage.read(f"{directory}/{LAST_CHECKPOINT}"))
        stored = hint.get("checksum")
        if stored is not None and stored != checksum_of(hint):
            return None
        version = int(hint["version"])
    except (FileNotFoundError, DeltaOpsError, *_MALFORMED):
        return None
    return hint if version >= 0 else None


def load_named_version(storage: Storage, directory: str) -> int | None:
    """The version in the hint, even in a malformed hint, which other readers may use."""
    try:
        return int(hint_from_json(storage.read(f"{directory}/{LAST_CHECKPOINT}"))["version"])
    except (FileNotFoundError, DeltaOpsError, *_MALFORMED):
        return None


def write_hint(storage: Storage, directory: str, hint: LastCheckpoint) -> None:
    """Point the hint at this checkpoint, unless it already points at a later one."""
    stored = _load(storage, directory)
    if stored is not None and int(stored["version"]) >= hint.version:
        return
    tags = (stored or {}).get("tags")
    body = {
        "version": hint.version,
        "size": hint.size,
        "parts": hint.parts,
        "sizeInBytes": hint.size_in_bytes,
        "numOfAddFiles": hint.num_of_add_files,
        "checkpointSchema": _short_schema(hint.checkpoint_schema),
        # Other tags are about the checkpoint that the hint named before.
        "tags": {TAG: tags[TAG]} if isinstance(tags, dict) and TAG in tags else None,
    }
    _replace(storage, directory, {n: value for n, value in body.items() if value is not None})


def tag_scan_cache(storage: Storage, directory: str, text: str) -> None:
    """Name a scan cache in the hint, unless there is no usable hint or it has the same tag.

    Args:
        text: From `scan_cache.hint.text_of_hint`.
    """
    if _load(storage, directory) is None:
        return
    try:
        stored = json.loads(storage.read(f"{directory}/{LAST_CHECKPOINT}"))
        tags = stored.get("tags") or {}
        if tags.get(TAG) != text:
            _replace(storage, directory, {**stored, "tags": {**tags, TAG: text}})
            # Another process may have replaced the table since the hint was read. Readers fail on
            # a hint without its checkpoint.
            first = f"{int(stored['version']):020}.checkpoint"
            newer = storage.list_from(directory, first)
            if not any(first in info.path for info in newer):
                storage.delete(f"{directory}/{LAST_CHECKPOINT}")
    except (FileNotFoundError, *_MALFORMED):
        return


def _replace(storage: Storage, directory: str, fields: Mapping[str, Any]) -> None:
    body = {name: value for name, value in fields.items() if name != "checksum"}
    body["checksum"] = checksum_of(body)
    storage.replace(
        f"{directory}/{LAST_CHECKPOINT}", json.dumps(body, separators=(",", ":")).encode()
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
