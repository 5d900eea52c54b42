"""Several writers find no table, and all of them create it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import CommitConflictError
from delta_ops.events import CommitAttempted, Event, OnEvent
from tests.support.tables import rows


def data(*values: int, day: str = "monday") -> pa.Table:
    return pa.table({"id": list(values), "day": [day] * len(values)})


def overtaken_by(others: Callable[[], object]) -> OnEvent:
    """Let others commit right before the first attempt."""
    pending = [others]

    def on_event(event: Event) -> None:
        if isinstance(event, CommitAttempted) and pending:
            pending.pop()()

    return on_event


def ids(root: Path) -> list[int]:
    return [row["id"] for row in rows(da.to_table(DeltaLog(root), ["id"]))]


def files(root: Path) -> int:
    return len(list(root.rglob("*.parquet")))


def test_an_append_joins_the_table(tmp_path: Path) -> None:
    result = da.write(
        tmp_path, data(1), on_event=overtaken_by(lambda: da.write(tmp_path, data(100)))
    )
    assert result.version == 1
    assert ids(tmp_path) == [1, 100]


def test_an_append_that_its_twin_has_done_is_not_done_again(tmp_path: Path) -> None:
    def others() -> None:
        da.write(tmp_path, data(100))
        da.write(tmp_path, data(1), txn=("run", 0))

    result = da.write(tmp_path, data(1), txn=("run", 0), on_event=overtaken_by(others))
    assert (result.version, result.already_committed) == (1, True)
    assert ids(tmp_path) == [1, 100]
    assert files(tmp_path) == 2


def overwrite(root: Path, day: str, value: int, on_event: OnEvent) -> int | None:
    return da.write(
        root,
        data(value, day=day),
        mode="overwrite",
        partition_by=["day"],
        replace_where=col("day") == day,
        on_event=on_event,
    ).version


def ignore(_event: Event) -> None:
    """Nothing."""


def test_overwrites_of_different_days_join(tmp_path: Path) -> None:
    def others() -> None:
        overwrite(tmp_path, "tuesday", 2, ignore)
        overwrite(tmp_path, "wednesday", 3, ignore)

    assert overwrite(tmp_path, "monday", 1, overtaken_by(others)) == 2
    assert ids(tmp_path) == [1, 2, 3]


def test_overwrites_of_one_day_conflict(tmp_path: Path) -> None:
    def others() -> None:
        overwrite(tmp_path, "tuesday", 2, ignore)
        overwrite(tmp_path, "monday", 3, ignore)

    with pytest.raises(CommitConflictError, match="version 1 was committed first and added"):
        overwrite(tmp_path, "monday", 1, overtaken_by(others))
    assert ids(tmp_path) == [2, 3]
    assert files(tmp_path) == 2


def test_the_creation_itself_counts_among_what_was_written(tmp_path: Path) -> None:
    with pytest.raises(CommitConflictError, match="version 0 was committed first and added"):
        overwrite(
            tmp_path,
            "monday",
            1,
            overtaken_by(lambda: overwrite(tmp_path, "monday", 2, ignore)),
        )
    assert ids(tmp_path) == [2]


def test_a_table_of_another_schema_is_not_joined(tmp_path: Path) -> None:
    other = pa.table({"id": ["text"]})
    with pytest.raises(CommitConflictError, match="created the table"):
        da.write(tmp_path, data(1), on_event=overtaken_by(lambda: da.write(tmp_path, other)))
    assert rows(da.to_table(DeltaLog(tmp_path))) == [{"id": "text"}]
    assert files(tmp_path) == 1


@pytest.mark.parametrize("ours", [None, ["day"]])
def test_a_table_of_another_partitioning_is_not_joined(
    tmp_path: Path, ours: list[str] | None
) -> None:
    theirs = ["day"] if ours is None else None
    other = overtaken_by(lambda: da.write(tmp_path, data(1), partition_by=theirs))
    with pytest.raises(CommitConflictError, match="created the table"):
        da.write(tmp_path, data(2), partition_by=ours, on_event=other)
    assert ids(tmp_path) == [1]
    assert files(tmp_path) == 1


def test_a_writer_that_joins_a_table_keeps_its_rules(tmp_path: Path) -> None:
    timed = {"delta.enableInCommitTimestamps": "true"}
    other = overtaken_by(lambda: da.write(tmp_path, data(1), configuration=timed))
    assert da.write(tmp_path, data(2), on_event=other).version == 1
    second, first = (entry.commit_info for entry in DeltaLog(tmp_path).history())
    assert second["inCommitTimestamp"] > first["inCommitTimestamp"]


def test_a_table_with_a_constraint_that_the_rows_were_not_held_against_is_not_joined(
    tmp_path: Path,
) -> None:
    checked = {"delta.constraints.positive": "id > 0"}

    def others() -> None:
        da.write(tmp_path, data(100), configuration=checked)

    with pytest.raises(CommitConflictError, match="created the table"):
        da.write(tmp_path, data(-1), on_event=overtaken_by(others))
    assert ids(tmp_path) == [100]
    assert files(tmp_path) == 1


def test_a_table_with_the_same_constraint_is_joined(tmp_path: Path) -> None:
    checked = {"delta.constraints.positive": "id > 0"}

    def others() -> None:
        da.write(tmp_path, data(100), configuration=checked)

    da.write(tmp_path, data(1), configuration=checked, on_event=overtaken_by(others))
    assert ids(tmp_path) == [1, 100]
