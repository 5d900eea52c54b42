"""The offset of a stream: a query's position in a table's versions.

The JSON text equals the text of the reference's Delta source. A query therefore continues from a
checkpoint of either implementation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option

_WRITTEN, _KNOWN = 1, (1, 3)
"""Versions of the text. Version 3 adds positions before a schema change, where no file was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """A position in a stream: all files before it were read, no file after it."""

    table_id: str
    """`metaData.id`."""
    version: int
    index: int = -1
    """The last file that was read in the version, numbered from 0; -1: no file yet.

    In a commit, the numbered files are its adds that change data, in line order. In the first
    snapshot, they are all files, by modification time and then by path.
    """
    is_starting_version: bool = False
    """Whether the position is in the first snapshot, not in the commit of that version."""

    @property
    def place(self) -> tuple[int, bool, int]:
        """Sort key of offsets of one stream."""
        return self.version, not self.is_starting_version, self.index

    def next_version(self) -> StreamOffset:
        """The position before the first file of the next version's commit."""
        return StreamOffset(table_id=self.table_id, version=self.version + 1)

    def to_json(self) -> str:
        """Encode the offset as in a Spark checkpoint."""
        return json.dumps(
            {
                "sourceVersion": _WRITTEN,
                "reservoirId": self.table_id,
                "reservoirVersion": self.version,
                "index": self.index,
                "isStartingVersion": self.is_starting_version,
            },
            separators=(",", ":"),
        )


def stream_offset_from_json(text: str) -> StreamOffset:
    """Parse the offset in a checkpoint.

    Raises:
        InvalidRequestError: The text is not an offset of a Delta table, or has a later version.
    """
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or not _is_offset(fields):
        raise InvalidRequestError(
            f"the checkpoint has the offset {text[:200]!r}, which does not come from a Delta "
            "table but from another source; give this query its own "
            f"{option('checkpoint_location')}"
        )
    if fields["sourceVersion"] not in _KNOWN:
        raise InvalidRequestError(
            f"the checkpoint has an offset of format version {fields['sourceVersion']}, which "
            "this version of delta_ops does not know; continue the query with the engine that "
            "wrote it"
        )
    return StreamOffset(
        table_id=fields["reservoirId"],
        version=fields["reservoirVersion"],
        index=max(fields["index"], -1),
        is_starting_version=fields["isStartingVersion"],
    )


def _is_offset(fields: dict[str, Any]) -> bool:
    numbers = ("sourceVersion", "reservoirVersion", "index")
    return (
        all(type(fields.get(name)) is int for name in numbers)
        and fields["reservoirVersion"] >= 0
        and isinstance(fields.get("reservoirId"), str)
        and isinstance(fields.get("isStartingVersion"), bool)
    )
