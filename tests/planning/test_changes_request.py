"""The error for changes of versions without the feed: when it was on, and what to do."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, ddl
from delta_ops.errors import InvalidRequestError, VersionNotFoundError
from delta_ops.maintenance import create_checkpoint
from delta_ops.option_words import Surface, speaking
from delta_ops.planning.changes_request import FeedPeriod, error_without_feed, feed_periods

FEED = "delta.enableChangeDataFeed"


def table_of(folder: Path, switches: str) -> DeltaLog:
    """A table with a commit for each letter, which the feed is on (+) or off (-) after."""
    log = DeltaLog(folder / "t")
    da.write(log, pa.table({"x": [0]}), configuration={FEED: str(switches[0] == "+").lower()})
    for before, after in pairwise(switches):
        if before == after:
            da.write(log, pa.table({"x": [0]}), hooks=())
        else:
            ddl.set_properties(log, {FEED: str(after == "+").lower()})
    return log


@pytest.mark.parametrize(
    ("switches", "first", "periods"),
    [
        ("--", 0, []),
        ("++", 0, [FeedPeriod(0, None)]),
        ("-++--+", 0, [FeedPeriod(1, 2), FeedPeriod(5, None)]),
        ("-++--+", 2, [FeedPeriod(2, 2), FeedPeriod(5, None)]),
    ],
)
def test_periods_begin_and_end_with_changes_of_the_property(
    tmp_path: Path, switches: str, first: int, periods: list[FeedPeriod]
) -> None:
    assert feed_periods(table_of(tmp_path, switches), first) == periods


@pytest.mark.parametrize(
    ("switches", "first", "last", "version", "text"),
    [
        pytest.param(
            "--", 0, None, 0,
            "the change data feed was never on; set delta.enableChangeDataFeed=true with "
            "ddl.set_properties to record the changes of later commits",
            id="never on",
        ),
        pytest.param(
            "++--", 2, None, 2,
            "the change data feed has been off since version 2 or earlier; set "
            "delta.enableChangeDataFeed=true with ddl.set_properties to record the changes of "
            "later commits",
            id="off before the range",
        ),
        pytest.param(
            "-++", 0, None, 0,
            "delta.enableChangeDataFeed was off; the feed has been on since version 1, so begin "
            "with start_version=1",
            id="on later",
        ),
        pytest.param(
            "-++", 0, 0, 0,
            "delta.enableChangeDataFeed was off; the feed has been on since version 1, so begin "
            "with start_version=1 and end with that version or a later one",
            id="on after the range",
        ),
        pytest.param(
            "++--", 0, None, 3,
            "delta.enableChangeDataFeed was off; the feed was on from version 0 to 1, so end with "
            "end_version=1",
            id="off later",
        ),
        pytest.param(
            "-+-", 0, None, 0,
            "delta.enableChangeDataFeed was off; the feed was on in version 1 only, so begin with "
            "start_version=1 and end with end_version=1",
            id="on in the middle",
        ),
        pytest.param(
            "+-+", 0, None, 1,
            "delta.enableChangeDataFeed was off; the feed was on in version 0 only, and the feed "
            "has been on since version 2, so end with end_version=0, or begin with "
            "start_version=2",
            id="off in the middle",
        ),
    ],
)  # fmt: skip
def test_the_error_says_which_range_can_be_read(
    tmp_path: Path, switches: str, first: int, last: int | None, version: int, text: str
) -> None:
    log = table_of(tmp_path, switches)
    with pytest.raises(InvalidRequestError) as error:
        da.read_changes(log, first, last).read_all()
    assert str(error.value) == (
        f"{log.uri}: the changes of version {version} cannot be read, because {text}"
    )


@pytest.mark.parametrize(
    ("surface", "words"),
    [
        (Surface.TERMINAL, ("delta-ops properties", "--from-version 1", "--to-version 1")),
        (
            Surface.DATAFRAME,
            (
                "ALTER TABLE ... SET TBLPROPERTIES",
                'option("startingVersion", "1")',
                'option("endingVersion", "1")',
            ),
        ),
        (Surface.SQL, ("ALTER TABLE ... SET TBLPROPERTIES", "start=1", "end=1")),
    ],
)
def test_the_error_has_the_words_of_the_caller(
    tmp_path: Path, surface: Surface, words: tuple[str, ...]
) -> None:
    never, middle = table_of(tmp_path / "never", "--"), table_of(tmp_path / "middle", "-+-")
    with speaking(surface):
        texts = [
            str(error_without_feed(never, 0, range(2), is_stream=False)),
            str(error_without_feed(middle, 0, range(3), is_stream=False)),
        ]
    assert [word for word in words if word not in "; ".join(texts)] == []


@pytest.mark.parametrize(
    ("switches", "cure"),
    [
        ("+-", "set delta.enableChangeDataFeed=true .* start a stream with another checkpoint"),
        ("+-+", "start again with starting_version=2 and another checkpoint"),
    ],
)
def test_the_error_of_a_stream_names_no_end(tmp_path: Path, switches: str, cure: str) -> None:
    log = table_of(tmp_path, switches)
    error = error_without_feed(log, 1, range(2), is_stream=True)
    with pytest.raises(InvalidRequestError, match=cure) as raised:
        raise error
    assert "end" not in str(raised.value).replace("enable", "").split("because")[1]


def test_a_commit_that_was_cleaned_up_names_the_first_commit_that_is_left(tmp_path: Path) -> None:
    log = table_of(tmp_path, "++")
    create_checkpoint(log)
    da.write(log, pa.table({"x": [1]}))
    for version in (0, 1):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(VersionNotFoundError, match="the first commit that is left is version 2"):
        da.read_changes(log, 1)
