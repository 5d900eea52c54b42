"""Changes request: the arguments of `read_changes`, and the error for versions without the feed.

The feed is on or off by the metadata of the table, so a period with the feed begins and ends with a
commit that changes the metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Literal, NamedTuple, TypedDict

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.option_words import option
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.properties.known import CHANGE_DATA_FEED
from delta_ops.protocol.properties.property import is_on


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


class FeedPeriod(NamedTuple):
    """Consecutive versions with the feed."""

    first: int
    last: int | None
    """None: the feed is still on."""

    @property
    def text(self) -> str:
        """A clause for a message."""
        if self.last is None:
            return f"the feed has been on since version {self.first}"
        if self.last == self.first:
            return f"the feed was on in version {self.first} only"
        return f"the feed was on from version {self.first} to {self.last}"

    def meets(self, versions: range) -> bool:
        """Whether a version of the range is in the period."""
        return self.first < versions.stop and (self.last is None or self.last >= versions.start)


def feed_periods(log: DeltaLog, first: int) -> list[FeedPeriod]:
    """Return the periods from a version on, oldest first."""
    is_first_on = is_on(CHANGE_DATA_FEED, log.snapshot(first).metadata.configuration)
    begun = first if is_first_on else None
    periods = []
    for commit in log.commits(first + 1):
        if commit.metadata is None:
            continue
        if is_on(CHANGE_DATA_FEED, commit.metadata.configuration):
            begun = commit.version if begun is None else begun
        elif begun is not None:
            periods.append(FeedPeriod(begun, commit.version - 1))
            begun = None
    return periods if begun is None else [*periods, FeedPeriod(begun, None)]


def error_without_feed(
    log: DeltaLog, number: int, versions: range, *, is_stream: bool
) -> InvalidRequestError:
    """Return the error for a range with a version that the feed does not cover.

    Args:
        number: That version.
        versions: The range.
        is_stream: Whether a stream reads the range, so that its caller chooses no end.
    """
    periods = feed_periods(log, versions.start)
    if is_stream:
        reason = _reason_in_stream(periods, number)
    elif periods:
        reason = _reason_with_periods(periods, versions)
    else:
        reason = _reason_without_periods(versions.start)
    return InvalidRequestError(
        f"{log.uri}: the changes of version {number} cannot be read, because {reason}",
        "DELTA_MISSING_CHANGE_DATA",
    )


def _reason_without_periods(first: int) -> str:
    since = "was never on" if first == 0 else f"has been off since version {first} or earlier"
    return f"the change data feed {since}; {_switch_on()}"


def _switch_on() -> str:
    return (
        f"set {CHANGE_DATA_FEED.name}=true with {option('ddl.set_properties')} to record the "
        "changes of later commits"
    )


def _reason_with_periods(periods: list[FeedPeriod], versions: range) -> str:
    read = [each for each in periods if each.meets(versions)]
    chosen = (read or periods)[-1]
    begin, ends = [], []
    if chosen.first > versions.start:
        begin.append(f"begin with {option('start_version', chosen.first)}")
    if chosen.last is not None and (not read or chosen.last < versions.stop - 1):
        ends.append(f"end with {option('end_version', chosen.last)}")
    elif not read:
        ends.append("end with that version or a later one")
    text, cure = chosen.text, " and ".join((*begin, *ends))
    earlier = read[0] if read else chosen
    if earlier != chosen and earlier.first == versions.start and earlier.last is not None:
        text = f"{earlier.text}, and {text}"
        cure = f"end with {option('end_version', earlier.last)}, or {cure}"
    return f"{CHANGE_DATA_FEED.name} was off; {text}, so {cure}"


def _reason_in_stream(periods: list[FeedPeriod], number: int) -> str:
    later = [each for each in periods if each.first > number and each.last is None]
    if not later:
        return (
            f"{CHANGE_DATA_FEED.name} was off; {_switch_on()}, and start a stream with another "
            "checkpoint from there"
        )
    return (
        f"{CHANGE_DATA_FEED.name} was off; {later[0].text}, so start again with "
        f"{option('starting_version', later[0].first)} and another checkpoint"
    )
