"""Refs of an earlier time: each entry of the journal shows the refs after it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS
from delta_ops.errors import InvalidRequestError, VersionNotFoundError
from delta_ops.log.refs.refs import refs_journal
from delta_ops.versioning import (
    begin_session,
    create_branch,
    create_tag,
    delete_branch,
    delete_tag,
    list_branches,
    list_sessions,
    list_tags,
)


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    da.write(tmp_path / "t", pa.table({"id": [1]}))
    return DeltaLog(tmp_path / "t")


def on_day(number: int) -> dict[str, datetime]:
    return {"timestamp": datetime.fromtimestamp(number * 86_400, UTC)}


def test_refs_are_listed_as_they_were(log: DeltaLog) -> None:
    create_tag(log, "a", clock=lambda: 1 * DAY_MS)
    create_branch(log, "b", clock=lambda: 3 * DAY_MS)
    session = begin_session(log, clock=lambda: 5 * DAY_MS)
    delete_tag(log, "a", clock=lambda: 7 * DAY_MS)
    delete_branch(log, "b", clock=lambda: 9 * DAY_MS)
    session.abandon()
    found = [
        (
            [each.name for each in list_tags(log, **on_day(day))],
            [each.name for each in list_branches(log, **on_day(day))],
            [each.id for each in list_sessions(log, **on_day(day))],
        )
        for day in (0, 1, 2, 4, 6, 8, 10)
    ]
    assert found == [
        ([], [], []),
        (["a"], [], []),
        (["a"], [], []),
        (["a"], ["b"], []),
        (["a"], ["b"], [session.id]),
        ([], ["b"], [session.id]),
        ([], [], []),
    ]
    assert (list_tags(log), list_branches(log), list_sessions(log)) == ([], [], [])


def test_a_time_before_the_kept_entries_is_an_error(log: DeltaLog) -> None:
    for day in (1, 2):
        create_tag(log, f"t{day}", clock=partial(int, day * DAY_MS))
    directory = Path(log.uri, refs_journal(log.storage).directory)
    (directory / f"{1:020}.json").unlink()
    assert [each.name for each in list_tags(log, timestamp="1970-01-03")] == ["t1", "t2"]
    with pytest.raises(VersionNotFoundError, match="has later entries only"):
        list_tags(log, timestamp="1970-01-02")


def test_a_text_that_is_no_time_is_rejected(log: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match="is not a timestamp"):
        list_branches(log, timestamp="last week")
