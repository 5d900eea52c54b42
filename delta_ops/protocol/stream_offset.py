"""The offset of a stream: how far into a table's versions a query has read.

The text is that of the reference's Delta source, so that a query goes on from its checkpoint
whichever of the two wrote it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from delta_ops.errors import InvalidRequestError

_WRITTEN, _KNOWN = 1, (1, 3)
"""Versions of the text: 3 adds places before a change of columns, at which no file was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """All files before it were read, and those behind it were not."""

    table_id: str
    """`metaData.id`."""
    version: int
    index: int = -1
    """The last file of the version that was read, by its number from 0; -1: none of them yet.

    Of a commit these are the files added that change data, in the order of its lines; of the first
    snapshot all files, by their modification times and then by their paths."""
    is_starting_version: bool = False
    """Whether it is a place in the first snapshot, not in the commit of that version."""

    @property
    def place(self) -> tuple[int, bool, int]:
        """The key by which offsets of one stream are in order."""
        return self.version, not self.is_starting_version, self.index

    def next_version(self) -> StreamOffset:
        """The place before the first file of the next version's commit."""
        return StreamOffset(table_id=self.table_id, version=self.version + 1)

    def to_json(self) -> str:
        """The offset as a checkpoint of Spark keeps it."""
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
    """The offset that a checkpoint keeps.

    Raises:
        InvalidRequestError: It is not one of a Delta table, or of a later version.
    """
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, dict) or not _is_offset(said):
        raise InvalidRequestError(
            f"the checkpoint has the offset {text[:200]!r}, which is none of a Delta table; it is "
            "of another source, so give this query a checkpoint_location of its own"
        )
    if said["sourceVersion"] not in _KNOWN:
        raise InvalidRequestError(
            f"the checkpoint has an offset of version {said['sourceVersion']}, which this version "
            "of delta_ops does not know; continue the query with the engine that wrote it"
        )
    return StreamOffset(
        table_id=said["reservoirId"],
        version=said["reservoirVersion"],
        index=max(said["index"], -1),
        is_starting_version=said["isStartingVersion"],
    )


def _is_offset(said: dict[str, Any]) -> bool:
    numbers = ("sourceVersion", "reservoirVersion", "index")
    return (
        all(type(said.get(name)) is int for name in numbers)
        and said["reservoirVersion"] >= 0
        and isinstance(said.get("reservoirId"), str)
        and isinstance(said.get("isStartingVersion"), bool)
    )
