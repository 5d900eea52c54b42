"""Log clean-up on real tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import (
    InvalidRequestError,
    LogCorruptError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.events import Event, Progress
from delta_ops.maintenance import clean_up_log, create_checkpoint
from delta_ops.protocol.file_names import checkpoint_name, commit_name
from tests.maintenance.aged_tables import Table
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows_by_deltalake


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Twelve commits, five days apart, with a checkpoint at every third commit."""
    table = Table(tmp_path_factory.mktemp("template") / "t")
    for number in range(12):
        table.write([number], configuration={"delta.checkpointInterval": "3"})
        table.pass_time(days=5)
    return table


@pytest.fixture
def old_table(template: Table, tmp_path: Path) -> Table:
    """A copy of it, of the same age."""
    return template.copy(tmp_path / "t")


def set_property(table: Table, name: str, value: str) -> None:
    """Change the first commit in a way that our writers do not allow."""
    place = table.root / "_delta_log" / commit_name(0)
    lines = [json.loads(line) for line in place.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"][name] = value
    place.write_text("\n".join(map(json.dumps, lines)))
    table.date()


def test_versions_from_the_boundary_on_have_their_rows_and_earlier_versions_are_gone(
    old_table: Table,
) -> None:
    rows = {version: old_table.rows(version) for version in range(12)}
    result = clean_up_log(old_table.log, clock=old_table.clock)
    boundary = result.plan.boundary_version
    assert boundary == 3
    assert len(result.plan.commits) == len(result.plan.checksums) == 3
    assert result.deleted_files == len(result.plan.files) == 6
    assert {v: old_table.rows(v) for v in range(boundary, 12)} == {v: rows[v] for v in range(3, 12)}
    with pytest.raises(VersionNotFoundError, match="the earliest version that can be read is 3"):
        old_table.log.snapshot(2)
    assert rows_by_deltalake(old_table.root) == rows[11]


def test_the_table_can_be_written_and_cleaned_up_again(old_table: Table) -> None:
    clean_up_log(old_table.log, clock=old_table.clock)
    assert not clean_up_log(old_table.log, clock=old_table.clock).plan.has_work
    old_table.write([99])
    old_table.pass_time(days=60)
    assert clean_up_log(old_table.log, clock=old_table.clock).plan.boundary_version == 12
    assert len(old_table.rows()) == 13
    assert old_table.rows() == rows_by_deltalake(old_table.root)


def test_a_dry_run_deletes_nothing(old_table: Table) -> None:
    before = old_table.files()
    result = clean_up_log(old_table.log, clock=old_table.clock, dry_run=True)
    assert result.plan.has_work
    assert (result.deleted_files, old_table.files()) == (0, before)


def test_an_explicit_request_overrides_the_property_and_the_plan_says_so(
    tmp_path: Path,
) -> None:
    table = Table(tmp_path / "t")
    properties = {"delta.enableExpiredLogCleanup": "false", "delta.checkpointInterval": "1"}
    table.write([1], configuration=properties)
    table.write([2])
    table.pass_time(days=40)
    result = clean_up_log(table.log, clock=table.clock)
    assert not result.plan.is_enabled
    assert result.deleted_files == 2  # version 0 and its checksum


def test_a_kept_version_stays_readable(old_table: Table) -> None:
    old_table.pass_time(days=100)
    rows = old_table.rows(7)
    result = clean_up_log(old_table.log, clock=old_table.clock, keep_versions=[7])
    assert result.plan.boundary_version == 6
    assert old_table.rows(7) == rows


class Pins(list[int]):
    """A list of pinned versions that grows by one with each iteration."""

    def __iter__(self) -> Iterator[int]:
        self.append(11 - len(self))
        return super().__iter__()


def test_kept_paths_are_checked_again_before_deletion(old_table: Table) -> None:
    old_table.pass_time(days=100)
    result = clean_up_log(old_table.log, clock=old_table.clock, keep_versions=Pins())
    assert result.plan.boundary_version is None  # until no version is left to pin
    assert len(old_table.rows(0)) == 1


def test_in_commit_timestamps_count_and_not_the_times_of_the_files(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    properties = {"delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "2"}
    for number in range(7):
        table.write([number], configuration=properties)
        table.pass_time(days=10)
    for place in (tmp_path / "t" / "_delta_log").iterdir():
        os.utime(place, (0, 0))
    result = clean_up_log(table.log, clock=table.clock)
    assert result.plan.boundary_version == 2  # of day 20; the cutoff is just before day 40
    reads: list[str] = []
    log = DeltaLog(
        "", storage=CountingStorage(table.log.storage, lambda _, m, p, __: reads.append(m))
    )
    clean_up_log(log, clock=table.clock, dry_run=True)
    assert reads.count("read_ranges") <= 2 * 3  # of three commits, found by halving


def test_a_hint_that_others_may_go_by_goes_though_it_is_wrong(old_table: Table) -> None:
    old_table.pass_time(days=100)
    hint = old_table.root / "_delta_log" / "_last_checkpoint"
    hint.write_text('{"version":3,"size":1,"checksum":"wrong"}')
    old_table.date()
    clean_up_log(old_table.log, clock=old_table.clock)
    assert not hint.exists()


def test_a_boundary_that_contradicts_its_checksum_stops_it(old_table: Table) -> None:
    checksum = old_table.root / "_delta_log" / f"{3:020d}.crc"
    recorded = json.loads(checksum.read_text())
    checksum.write_text(json.dumps({**recorded, "numFiles": recorded["numFiles"] + 1}))
    old_table.date()
    before = old_table.files()
    with pytest.raises(LogCorruptError, match="numFiles"):
        clean_up_log(old_table.log, clock=old_table.clock)
    assert old_table.files() == before


def test_progress_is_reported(old_table: Table) -> None:
    events: list[Event] = []
    clean_up_log(old_table.log, clock=old_table.clock, on_event=events.append)
    assert isinstance(events[-1], Progress)
    assert (events[-1].done, events[-1].total) == (6, 6)


def test_a_hint_that_would_dangle_goes(old_table: Table) -> None:
    old_table.pass_time(days=100)
    hint = old_table.root / "_delta_log" / "_last_checkpoint"
    hint.write_text('{"version":3,"size":1}')
    old_table.date()
    clean_up_log(old_table.log, clock=old_table.clock)
    assert not hint.exists()
    assert len(old_table.rows()) == 12
    assert old_table.rows() == rows_by_deltalake(old_table.root)


def test_a_boundary_that_cannot_be_read_stops_it_before_anything_is_deleted(
    old_table: Table,
) -> None:
    place = old_table.root / "_delta_log" / checkpoint_name(3)
    place.write_bytes(place.read_bytes()[:-100])
    old_table.date()
    before = old_table.files()
    with pytest.raises(LogCorruptError, match="cannot be read"):
        clean_up_log(old_table.log, clock=old_table.clock)
    assert old_table.files() == before


@pytest.mark.parametrize(
    "column", ["add.path", "add.stats", "add.modificationTime", "remove.path", "txn.appId"]
)
def test_a_boundary_with_a_damaged_column_stops_it_before_anything_is_deleted(
    tmp_path: Path, column: str
) -> None:
    table = Table(tmp_path / "t")
    for number in range(3):
        table.write([number], mode="overwrite", txn=("app", number))
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    table.pass_time(days=100)
    table.write([3])
    for place in (table.root / "_delta_log").glob("*.crc"):
        place.unlink()
    damage_column(table.root / "_delta_log" / checkpoint_name(2), column)
    before = table.files()
    with pytest.raises(LogCorruptError):
        clean_up_log(table.log, clock=table.clock)
    assert table.files() == before


def damage_column(place: Path, column: str) -> None:
    """Change the bytes of one column of a Parquet file, but not its modification time."""
    group = pq.read_metadata(place).row_group(0)
    chunks = (group.column(number) for number in range(group.num_columns))
    (chunk,) = (each for each in chunks if each.path_in_schema == column)
    first = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(place.read_bytes())
    for position in range(first + 4, first + chunk.total_compressed_size):
        content[position] ^= 0x5A
    status = place.stat()
    place.write_bytes(content)
    os.utime(place, (status.st_atime, status.st_mtime))


def test_a_format_of_the_future_that_comes_between_two_batches_stops_it(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(11):
        table.write([number])
    table.pass_time(days=100)
    before = table.files()

    def put_format(event: Event) -> None:
        if isinstance(event, Progress) and event.operation == "clean up log":
            table.put("_delta_ops/format.json", b'{"version": 7}')

    with pytest.raises(UnsupportedFeatureError, match="version 7 of _delta_ops"):
        clean_up_log(table.log, clock=table.clock, on_event=put_format)
    gone = set(before) - set(table.files())
    assert gone == {f"_delta_log/{0:020}.json"}


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        pytest.param(
            lambda t: set_property(t, "delta.logRetentionDuration", "interval 1 month"),
            InvalidRequestError,
            "delta.logRetentionDuration",
            id="a retention that cannot be understood",
        ),
        pytest.param(
            lambda t: t.put("_delta_ops/format.json", b'{"version": 2}'),
            UnsupportedFeatureError,
            "version 2 of _delta_ops/format.json",
            id="a format of delta_ops from the future",
        ),
        pytest.param(
            lambda t: t.put("_delta_ops/format.json", b"["),
            UnsupportedFeatureError,
            "version unknown",
            id="a format file that cannot be read",
        ),
    ],
)
def test_refused_before_anything_is_deleted(
    tmp_path: Path, spoil: Callable[[Table], object], error: type[Exception], message: str
) -> None:
    table = Table(tmp_path / "t")
    for number in range(3):
        table.write([number])
    spoil(table)
    before = table.files()
    table.pass_time(days=100)
    with pytest.raises(error, match=message):
        clean_up_log(table.log, clock=table.clock)
    assert table.files() == before


def demand(table: Table, *features: str) -> None:
    """Add writer features to the first commit's protocol."""
    place = table.root / "_delta_log" / commit_name(0)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    lines = [json.loads(line) for line in place.read_text().splitlines()]
    changed = [{"protocol": protocol} if "protocol" in line else line for line in lines]
    place.write_text("\n".join(map(json.dumps, changed)))


@pytest.mark.parametrize("feature", ["coordinatedCommits-preview", "invented"])
def test_a_feature_with_unknown_traces_is_refused_by_name(tmp_path: Path, feature: str) -> None:
    table = Table(tmp_path / "t")
    table.write([1])
    demand(table, "appendOnly", feature)
    before = table.files()
    with pytest.raises(UnsupportedFeatureError, match=feature):
        clean_up_log(table.log, clock=table.clock)
    assert table.files() == before


def test_the_log_of_a_table_whose_rows_we_do_not_write_is_cleaned_up(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(3):
        table.write([number], configuration={"delta.checkpointInterval": "2"})
    demand(table, "appendOnly", "invariants", "checkConstraints", "identityColumns")
    set_property(table, "delta.constraints.positive", "id > 0")
    table.pass_time(days=100)
    assert clean_up_log(table.log, clock=table.clock).plan.boundary_version == 2
    assert len(table.rows()) == 3


def test_a_file_that_cannot_be_deleted_is_reported_and_stops_the_cleanup(old_table: Table) -> None:
    old_table.pass_time(days=100)
    stuck = f"_delta_log/{checkpoint_name(3)}"

    class Stuck(CountingStorage):
        def delete_many(self, paths: object) -> list[str]:
            chosen = list(paths)  # type: ignore[call-overload]
            return [*super().delete_many(p for p in chosen if p != stuck), *({stuck} & {*chosen})]

    log = DeltaLog("", storage=Stuck(old_table.log.storage, lambda *_: None))
    result = clean_up_log(log, clock=old_table.clock)
    assert result.failures == (stuck,)
    assert result.deleted_files < len(result.plan.files)
    assert result.earliest_version == 9  # version 3 can be read, and not all after it
    assert len(old_table.rows(3)) == 4


def test_after_a_checkpoint_on_request_clean_up_goes_as_far_as_that(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(5):
        table.write([number])
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    table.pass_time(days=40)
    result = clean_up_log(table.log, clock=table.clock)
    assert (result.plan.earliest_before, result.plan.earliest_after) == (0, 4)
    assert len(table.rows()) == 5


def test_a_machine_whose_clock_is_ahead_cleans_up_nothing_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = system_clock()
    table = Table(tmp_path / "t", now_ms=now_ms)
    for number in range(3):
        table.write([number])
    create_checkpoint(table.log)
    before = {path for path in table.files() if path.startswith("_delta_log/")}
    monkeypatch.setattr(
        "delta_ops.maintenance.log_cleanup.act.system_clock", lambda: now_ms + 100 * DAY_MS
    )
    assert not clean_up_log(table.log).plan.has_work
    assert before <= table.files()


def test_the_clock_of_the_store_is_used_only_if_something_will_be_deleted(old_table: Table) -> None:
    requests: list[str] = []
    storage = CountingStorage(
        old_table.log.storage, lambda _n, method, path, when: requests.append(f"{method} {path}")
    )
    log = DeltaLog("", storage=storage)
    assert clean_up_log(log).deleted_files
    probes = [each for each in requests if "_delta_ops/.staged-" in each]
    assert [each.partition(" ")[0] for each in probes[::2]] == ["replace", "stat", "delete"]
    requests.clear()
    assert not clean_up_log(log).plan.has_work
    assert not [each for each in requests if "_delta_ops/.staged-" in each]
