"""Hint of the scan cache: names the cache file of one version, and what the version looked like.

The hint is in `_delta_ops/planning/hint.json`. A copy is a tag of `_last_checkpoint`, which every
reader opens first, so that a table without a cache costs no call. Neither is trusted as a fact: the
digest finds damage, and a reader compares the table's id, the commit file of the version and the
table's columns with the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from delta_ops.protocol.actions import Metadata
from delta_ops.protocol.file_names import commit_name
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.paths import OWN_DIRECTORY

PLANNING_DIRECTORY = f"{OWN_DIRECTORY}/planning"
HINT_PATH = f"{PLANNING_DIRECTORY}/hint.json"
TAG = "delta_ops.scanCache"
"""Name of the hint among the tags of `_last_checkpoint`."""
_FORMAT = 1
_SUFFIX = ".files.parquet"
_FOOTER_SUFFIX = ".footer.zst"
MAX_FOOTER_BYTES = 512 << 20
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class DamagedHintError(ValueError):
    """A hint that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheHint:
    """The scan cache of one version."""

    table_id: str
    """`metaData.id`."""
    version: int
    commit: FileInfo
    """The commit file of the version, as listed."""
    columns: str
    """`digest_of_columns` of the version."""
    file: str
    """Name of the cache file in `PLANNING_DIRECTORY`."""
    size: int
    """Bytes of the cache file."""
    footer_size: int
    """Bytes of the file with the compressed footer."""
    footer_digest: str
    """`digest` of the file with the compressed footer."""
    may_have_indexes: bool = True
    """Whether plans look for inverted indexes. False: the table had none when this was written."""

    @property
    def path(self) -> str:
        """The cache file, relative to the table's root."""
        return f"{PLANNING_DIRECTORY}/{self.file}"

    @property
    def footer_path(self) -> str:
        """The file with the compressed footer, relative to the table's root."""
        return f"{self.path}{_FOOTER_SUFFIX}"


def digest(data: bytes | memoryview) -> str:
    """A digest that finds any damage."""
    return blake2b(data, digest_size=16).hexdigest()


def digest_of_columns(metadata: Metadata) -> str:
    """A digest of the table's columns: a cache is used only while they stay the same."""
    mapping = metadata.configuration.get("delta.columnMapping.mode", "none")
    parts = [metadata.schema_string, list(metadata.partition_columns), mapping]
    return digest(json.dumps(parts).encode())


def cache_file_name(version: int, unique: str) -> str:
    """Name of a new cache file."""
    return f"{version:020d}.{unique}{_SUFFIX}"


def is_cache_file(path: str) -> bool:
    """Whether a path is that of a cache file, or of its compressed footer."""
    return path.removesuffix(_FOOTER_SUFFIX).endswith(_SUFFIX)


def text_of_hint(hint: CacheHint) -> str:
    """The hint as JSON, with its own digest."""
    body = {
        "format": _FORMAT,
        "tableId": hint.table_id,
        "version": hint.version,
        "commitSize": hint.commit.size,
        "commitModificationTime": hint.commit.modified_ms,
        "commitEtag": hint.commit.etag,
        "columns": hint.columns,
        "file": hint.file,
        "size": hint.size,
        "footerSize": hint.footer_size,
        "footerDigest": hint.footer_digest,
        "mayHaveIndexes": hint.may_have_indexes,
    }
    return json.dumps({**body, "digest": _digest_of_body(body)}, separators=(",", ":"))


def hint_from_text(text: str | bytes, log_directory: str) -> CacheHint:
    """Parse a hint.

    Args:
        text: JSON.
        log_directory: Relative to the table's root.

    Raises:
        DamagedHintError: The hint is malformed, or of a format that is unknown here.
    """
    try:
        stored = json.loads(text)
        body = {name: value for name, value in stored.items() if name != "digest"}
        if stored["digest"] != _digest_of_body(body):
            raise DamagedHintError("its digest does not match")
        if body["format"] != _FORMAT:
            raise DamagedHintError(f"its format is {body['format']}, which is unknown here")
        version, etag = int(body["version"]), body["commitEtag"]
        hint = CacheHint(
            table_id=str(body["tableId"]),
            version=version,
            commit=FileInfo(
                f"{log_directory}/{commit_name(version)}",
                int(body["commitSize"]),
                int(body["commitModificationTime"]),
                None if etag is None else str(etag),
            ),
            columns=str(body["columns"]),
            file=str(body["file"]),
            size=int(body["size"]),
            footer_size=int(body["footerSize"]),
            footer_digest=str(body["footerDigest"]),
            may_have_indexes=bool(body.get("mayHaveIndexes", True)),
        )
        if min(version, hint.size, hint.footer_size) < 0 or hint.footer_size > MAX_FOOTER_BYTES:
            raise DamagedHintError("its numbers are impossible")
        return hint
    except DamagedHintError:
        raise
    except _MALFORMED as error:
        raise DamagedHintError("it cannot be parsed") from error


def load_cache_hint(storage: Storage, log_directory: str) -> CacheHint | None:
    """Load the hint of a table; None if the table has no scan cache.

    Raises:
        DamagedHintError: The hint is malformed.
        StorageError: The store failed.
    """
    try:
        content = storage.read(HINT_PATH)
    except FileNotFoundError:
        return None
    return hint_from_text(content, log_directory)


def _digest_of_body(body: Mapping[str, Any]) -> str:
    return digest(json.dumps(body, sort_keys=True).encode())
