"""The change data feed of tables changed by deltalake, row by row as deltalake reads it."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from tests.support.tables import rows

_IN_UTC = {"_commit_timestamp": pa.timestamp("us", "UTC")}
FEED = {"delta.enableChangeDataFeed": "true"}


def theirs(table: Path, first: int, last: int | None = None) -> list[dict[str, Any]]:
    found = pa.table(DeltaTable(str(table)).load_cdf(first, last))
    # Its times are in UTC, without a time zone.
    schema = pa.schema([each.with_type(_IN_UTC.get(each.name, each.type)) for each in found.schema])
    return rows(found.cast(schema))


def data(*values: int, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64()), "p": [p] * len(values)})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table changed in every way that deltalake offers; the log gives each commit's time too."""
    place = tmp_path / "t"
    write_deltalake(place, data(1, 2, 3, 4), partition_by=["p"], configuration=FEED)
    write_deltalake(place, data(5, 6, p="b"), mode="append")
    opened = DeltaTable(str(place))
    opened.update({"id": "id + 100"}, predicate="id < 3")
    opened.delete("id = 3")
    source = data(4, 6, 7, p="new")
    merge = opened.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update({"p": "'moved'"}).when_not_matched_insert_all().execute()
    write_deltalake(place, data(9, p="moved"), mode="overwrite", predicate="p = 'moved'")
    opened.update_incremental()
    opened.delete()
    write_deltalake(place, data(10, 11, p="c"), mode="append")
    return place


def test_every_operation_has_the_same_changes(table: Path) -> None:
    last = DeltaLog(table).snapshot().version
    in_log = {entry.version: entry.commit_info["timestamp"] for entry in DeltaLog(table).history()}
    for version, moment in in_log.items():
        nanoseconds = moment * 1_000_000
        os.utime(table / "_delta_log" / f"{version:020}.json", ns=(nanoseconds, nanoseconds))
    found = da.read_changes(DeltaLog(table), 0)
    assert rows(found.read_all()) == theirs(table, 0)
    for first in range(last + 1):
        part = da.read_changes(DeltaLog(table), first, first + 1).read_all()
        assert rows(part) == theirs(table, first, min(first + 1, last))


def test_all_changes_add_up_to_the_rows(table: Path) -> None:
    added: Counter[tuple[Any, ...]] = Counter()
    removed: Counter[tuple[Any, ...]] = Counter()
    for row in da.read_changes(DeltaLog(table), 0).read_all().to_pylist():
        is_new = row["_change_type"] in ("insert", "update_postimage")
        (added if is_new else removed)[row["id"], row["p"]] += 1
    live = da.to_table(DeltaLog(table)).to_pylist()
    assert added - removed == Counter((row["id"], row["p"]) for row in live)
    assert not removed - added
    assert len(live) == 2


def test_a_feed_that_came_later_has_no_changes_before(tmp_path: Path) -> None:
    place = tmp_path / "t"
    write_deltalake(place, data(1))
    DeltaTable(str(place)).alter.set_table_properties(FEED)
    write_deltalake(place, data(2), mode="append")
    with pytest.raises(InvalidRequestError, match="version 0 cannot be read, because"):
        da.read_changes(DeltaLog(place), 0)
    (row,) = da.read_changes(DeltaLog(place), 1).read_all().to_pylist()
    assert (row["id"], row["_change_type"], row["_commit_version"]) == (2, "insert", 2)
    assert row["_commit_timestamp"] <= datetime.now(UTC)
