"""Changes request: the arguments of `read_changes`, the same for both engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Literal, TypedDict

from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate


class ChangesOptions(TypedDict, total=False):
    """Options of `read_changes` in both engines, which also have `predicate`.

    Args:
        start_version: The first commit to read. Excludes `start_timestamp`.
        end_version: The last commit to read; the latest version if not given or greater.
        start_timestamp: Read from the first commit at or after this time. A time without a zone is
            in UTC.
        end_timestamp: Read up to the last commit at or before this time. A range of two
            times is valid even if it contains no commit.
        columns: Names in the wanted order; by default the table's columns, then `_change_type`
            (insert, delete, update_preimage, update_postimage), `_commit_version` and
            `_commit_timestamp`.
        schema: The version whose columns are returned: "end" for the last version of the range,
            "latest" for the latest version of the table. A column or field that is newer than a row
            is null in it.

    Raises:
        InvalidRequestError: The range is invalid, the feed was off for one of its versions, column
            mapping was removed in it, or a column does not exist or had another type.
        VersionNotFoundError: A version of the range does not exist, or was cleaned up.
        OutsideFileError: A file lies outside of the table, and reading it there is not allowed.
        UnsupportedFeatureError: The rows are stored in a way that this engine cannot read.
    """

    start_timestamp: str | date | None
    end_timestamp: str | date | None
    columns: Sequence[str] | None
    schema: Literal["end", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRequest:
    """A request for the changes of a range of versions."""

    options: ClassVar[tuple[type, ...]] = (ChangesOptions,)

    start_version: int | None = None
    end_version: int | None = None
    start_timestamp: str | date | None = None
    end_timestamp: str | date | None = None
    columns: Sequence[str] | None = None
    """Names in the wanted order; None means all."""
    predicate: Predicate | Expression | str | None = None
    schema: Literal["end", "latest"] = "end"
    """The version whose columns are returned."""
