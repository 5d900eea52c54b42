"""Tags: names of versions, which vacuum and log clean-up keep."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS
from delta_ops.ddl import drop_table
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    LogCorruptError,
    TableBusyError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.events import Event, Progress
from delta_ops.log.refs.anchors import list_anchors
from delta_ops.log.refs.refs import begin_deletion, end_deletion, refs_journal
from delta_ops.maintenance import (
    clean_up_log,
    create_checkpoint,
    health,
    plan_maintenance,
    vacuum,
)
from delta_ops.maintenance.vacuum.candidates import VacuumMode
from delta_ops.storage import open_storage
from delta_ops.versioning import create_tag, delete_tag, list_branches, list_sessions, list_tags
from tests.maintenance.aged_tables import Table, overwritten
from tests.support.counting_storage import CountingStorage, recording
from tests.support.faulty_storage import Killed, MortalStorage
from tests.support.tables import rows, rows_by_deltalake


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Rows 1 and 2 at version 1, and 3 at version 2, whose old files may be deleted."""
    return overwritten(tmp_path / "t")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Nine commits, five days apart, with a checkpoint at every third commit."""
    table = Table(tmp_path_factory.mktemp("template") / "t")
    for number in range(9):
        table.write([number], configuration={"delta.checkpointInterval": "3"})
        table.pass_time(days=5)
    table.pass_time(days=40)
    return table


def at_tag(table: Table, name: str) -> list[dict[str, object]]:
    return rows(da.to_table(table.log.snapshot(ref=f"tag:{name}")))


@pytest.mark.parametrize("list_refs", [list_tags, list_branches, list_sessions])
@pytest.mark.parametrize("timestamp", [None, "2026-01-01"], ids=["latest", "earlier"])
def test_a_place_without_a_table_has_no_refs(
    tmp_path: Path, list_refs: Callable[..., object], timestamp: str | None
) -> None:
    with pytest.raises(TableNotFoundError):
        list_refs(tmp_path / "ordres", timestamp=timestamp)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_vacuum_keeps_the_files_of_a_tag_until_it_is_deleted(
    table: Table, mode: VacuumMode
) -> None:
    tagged = table.rows(1)
    create_tag(table.log, "reports/2026-11", version=1)
    table.put("orphan.parquet")
    table.pass_time(days=8)
    vacuum(table.log, clock=table.clock, mode=mode)
    assert at_tag(table, "reports/2026-11") == tagged
    delete_tag(table.log, "reports/2026-11")
    assert vacuum(table.log, clock=table.clock, mode=mode).deleted_files == 2
    assert table.rows() == rows_by_deltalake(table.root)


def test_a_tag_makes_no_vacuum_due(table: Table) -> None:
    def is_due() -> bool:
        return health(table.log, clock=table.clock).figures.expired_file_is_there

    assert is_due()
    tag = create_tag(table.log, "kept", version=1)
    assert not is_due()
    delete_tag(table.log, tag.name)
    assert is_due()


def test_log_clean_up_anchors_a_tagged_version_that_the_log_loses(
    template: Table, tmp_path: Path
) -> None:
    table = template.copy(tmp_path / "t")
    tagged = table.rows(4)
    create_tag(table.log, "kept", version=4)
    plan = clean_up_log(table.log, clock=table.clock, dry_run=True).plan
    assert (plan.boundary_version, plan.anchored, list(list_anchors(table.log.storage))) == (
        6,
        (4,),
        [],
    )
    result = clean_up_log(table.log, clock=table.clock)
    assert (result.plan.anchored, result.earliest_version) == ((4,), 6)
    assert at_tag(table, "kept") == tagged


def test_a_tag_is_of_the_latest_version_or_of_a_time(table: Table) -> None:
    assert create_tag(table.log, "now").version == 2
    times = {entry.version: entry.timestamp_ms for entry in table.log.history()}
    then = datetime.fromtimestamp(times[1] / 1000, UTC)
    assert create_tag(table.log, "then", timestamp=then).version == 1
    assert [tag.name for tag in list_tags(table.root)] == ["now", "then"]


def test_a_tag_is_created_once_and_never_changes(table: Table) -> None:
    first = create_tag(table.log, "a", version=1)
    assert create_tag(table.log, "a", version=1) == first
    with pytest.raises(InvalidRequestError, match="names version 1, and a tag never changes"):
        create_tag(table.log, "a")
    delete_tag(table.log, "a")
    with pytest.raises(InvalidRequestError, match="its name is never given again"):
        create_tag(table.log, "a", version=1)
    with pytest.raises(InvalidRequestError, match="there is no tag 'a'"):
        delete_tag(table.log, "a")
    with pytest.raises(
        VersionNotFoundError, match="at tag a: it was deleted; list_tags shows the names"
    ):
        at_tag(table, "a")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "a..b",
        "a//b",
        "/a",
        "a/",
        "-a",
        "a b",
        "ä",
        "a.lock",
        "a/.b",
        "a:b",
        "x" * 201,
        "a\n",
    ],
)
def test_a_name_that_git_would_reject_is_rejected(table: Table, name: str) -> None:
    before = table.files()
    with pytest.raises(InvalidRequestError, match="cannot name a tag"):
        create_tag(table.log, name)
    assert table.files() == before


@pytest.mark.parametrize(
    ("ref", "error", "message"),
    [
        pytest.param("2026", InvalidRequestError, "give tag:, branch: or session:", id="no kind"),
        pytest.param(
            "head:x", InvalidRequestError, "give tag:, branch: or session:", id="another kind"
        ),
        pytest.param("tag:", InvalidRequestError, "cannot name a tag", id="no name"),
        pytest.param("tag:x", VersionNotFoundError, "there is no such tag", id="an unknown tag"),
    ],
)
def test_a_ref_that_names_no_tag_is_an_error(
    table: Table, ref: str, error: type[DeltaOpsError], message: str
) -> None:
    with pytest.raises(error, match=message):
        table.log.snapshot(ref=ref)


def test_a_ref_and_a_version_are_not_given_together(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="not several of them"):
        table.log.snapshot(1, ref="tag:a")


def test_a_version_that_lost_its_files_cannot_be_tagged(table: Table) -> None:
    vacuum(table.log, clock=table.clock)
    with pytest.raises(VersionNotFoundError, match="version 1: 2 files of this version were"):
        create_tag(table.log, "a", version=1)
    assert create_tag(table.log, "b", version=2).version == 2  # version 3 has the same files
    assert [tag.name for tag in list_tags(table.log)] == ["b"]


def test_an_old_version_is_not_tagged_while_a_vacuum_runs_and_the_latest_version_is(
    table: Table,
) -> None:
    refused: list[str] = []

    def tag_both(event: Event) -> None:
        if isinstance(event, Progress) and (event.operation, event.done) == ("vacuum", 1):
            with pytest.raises(TableBusyError) as caught:
                create_tag(table.log, "old", version=1)
            refused.append(str(caught.value))
            create_tag(table.log, "new")

    vacuum(table.log, clock=table.clock, batch_files=1, on_event=tag_both)
    assert "may be deleting files of version 1. Wait until it ends, or tag version 2" in refused[0]
    assert at_tag(table, "new") == [{"id": 3, "p": "c"}]


def test_a_vacuum_that_was_killed_is_forgotten_by_a_vacuum_a_week_later(table: Table) -> None:
    for call in count(1):
        mortal = MortalStorage(open_storage(table.root), call, "before")
        with suppress(Killed):
            vacuum(DeltaLog(table.root, storage=mortal), clock=table.clock)
        if refs_journal(table.log.storage).load().state.deletions:
            break
    table.put("orphan.parquet")
    table.pass_time(days=8)
    vacuum(table.log, clock=table.clock)
    assert refs_journal(table.log.storage).load().state.deletions == ()


def test_a_killed_vacuum_is_remembered_by_the_version_whose_files_it_deleted(
    table: Table,
) -> None:
    begin_deletion(table.log.storage, 2, table.clock)  # and then killed, after some files
    for path in table.root.glob("p=[ab]/*.parquet"):
        path.unlink()
    table.pass_time(days=8)
    ended = begin_deletion(table.log.storage, 1, table.clock)
    end_deletion(table.log.storage, ended, table.clock)
    with pytest.raises(VersionNotFoundError, match="2 files of this version were deleted"):
        create_tag(table.log, "a", version=1, clock=table.clock)


@pytest.mark.parametrize("now_ms", [-DAY_MS, 300_000 * DAY_MS], ids=["before 1970", "after 9999"])
def test_a_wrong_clock_writes_refs_that_can_be_read(table: Table, now_ms: int) -> None:
    create_tag(table.log, "a", version=1, clock=lambda: now_ms)
    begin_deletion(table.log.storage, 1, lambda: now_ms)  # and then killed
    assert [each.name for each in list_tags(table.log)] == ["a"]
    ended = begin_deletion(table.log.storage, 1, table.clock)
    end_deletion(table.log.storage, ended, table.clock)
    assert refs_journal(table.log.storage).load().state.deletions == ()


def test_a_vacuum_of_more_than_a_week_still_blocks_tags_of_old_versions(table: Table) -> None:
    refused = []

    def wait(event: Event) -> None:
        if isinstance(event, Progress) and (event.operation, event.done) == ("vacuum", 1):
            table.pass_time(days=5)

    def create(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("delete_many", "before") and len(table.data_files()) == 2:
            table.pass_time(days=5)
            other = begin_deletion(table.log.storage, 1, table.clock)
            end_deletion(table.log.storage, other, table.clock)  # forgets killed vacuums
            with pytest.raises(TableBusyError):
                create_tag(table.log, "a", version=1, clock=table.clock)
            refused.append(path)

    log = DeltaLog(table.root, storage=CountingStorage(open_storage(table.root), create))
    vacuum(log, clock=table.clock, batch_files=1, on_event=wait)
    assert len(refused) == 1
    assert refs_journal(table.log.storage).load().state.deletions == ()


def test_a_lite_vacuum_goes_on_after_a_log_clean_up_beyond_a_tag(
    template: Table, tmp_path: Path
) -> None:
    table = template.copy(tmp_path / "t")
    for number in range(3):
        table.write([number], mode="overwrite")
    create_tag(table.log, "kept", version=9)
    tagged = table.rows(9)
    create_checkpoint(table.log)
    table.pass_time(days=40)
    vacuum(table.log, clock=table.clock)
    assert clean_up_log(table.log, clock=table.clock).plan.anchored == (9,)
    assert vacuum(table.log, clock=table.clock).failures == ()
    table.write([4], mode="overwrite")
    table.pass_time(days=8)
    assert vacuum(table.log, clock=table.clock, mode="lite").deleted_files == 1
    assert at_tag(table, "kept") == tagged
    delete_tag(table.log, "kept")
    assert vacuum(table.log, clock=table.clock, mode="lite").deleted_files == 0
    assert vacuum(table.log, clock=table.clock).deleted_files == 1


def test_a_lite_vacuum_finds_the_files_of_a_tag_that_is_deleted_while_a_vacuum_runs(
    table: Table,
) -> None:
    create_tag(table.log, "kept", version=1)
    table.put("orphan.parquet")
    table.pass_time(days=8)

    def release(event: Event) -> None:
        if isinstance(event, Progress) and event.operation == "vacuum":
            delete_tag(table.log, "kept")

    assert vacuum(table.log, clock=table.clock, on_event=release).deleted_files == 1
    assert vacuum(table.log, clock=table.clock, mode="lite").deleted_files == 2


def _vacuum(table: Table, log: DeltaLog) -> None:
    vacuum(log, clock=table.clock, batch_files=1)


def _clean_up(table: Table, log: DeltaLog) -> None:
    clean_up_log(log, clock=table.clock)


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "operate", "version"),
    [
        (overwritten, _vacuum, 1),
        pytest.param(None, _clean_up, 4, marks=pytest.mark.full),
    ],
    ids=["vacuum", "log clean-up"],
)
def test_a_tag_that_is_created_at_any_call_of_a_deletion_can_be_read(
    tmp_path: Path,
    template: Table,
    make: Callable[[Path], Table] | None,
    operate: Callable[[Table, DeltaLog], None],
    version: int,
) -> None:
    outcomes = set()
    for call in count(1):
        root = tmp_path / str(call)
        table = make(root) if make else template.copy(root)
        tagged, seen = table.rows(version), 0

        def create(number: int, _method: str, _path: str, when: str) -> None:
            nonlocal seen
            seen = number
            if (number, when) == (call, "before"):  # noqa: B023  # called within the turn
                try:
                    create_tag(table.log, "a", version=version)  # noqa: B023
                    outcomes.add("created")
                except (TableBusyError, VersionNotFoundError) as error:
                    outcomes.add(type(error).__name__)

        operate(table, DeltaLog(root, storage=CountingStorage(open_storage(root), create)))
        if list_tags(table.log):
            assert at_tag(table, "a") == tagged, call
        if call > seen:
            break
    assert outcomes == {"created", "TableBusyError", "VersionNotFoundError"}


def test_a_vacuum_at_any_call_of_a_creation_leaves_a_tag_that_can_be_read(tmp_path: Path) -> None:
    outcomes = set()
    for call in count(1):
        table = overwritten(tmp_path / str(call))
        tagged, seen = table.rows(1), 0

        def act(number: int, _method: str, _path: str, when: str) -> None:
            nonlocal seen
            seen = number
            if (number, when) == (call, "before"):  # noqa: B023  # called within the turn
                vacuum(table.log, clock=table.clock)  # noqa: B023

        log = DeltaLog(table.root, storage=CountingStorage(open_storage(table.root), act))
        try:
            create_tag(log, "a", version=1)
        except VersionNotFoundError:
            outcomes.add("rejected")
        else:
            outcomes.add("created")
            assert at_tag(table, "a") == tagged, call
        if call > seen:
            break
    assert outcomes == {"created", "rejected"}


def test_the_tags_of_a_dropped_table_are_not_those_of_the_next_table(table: Table) -> None:
    create_tag(table.log, "a")
    drop_table(table.log, "t")
    table.write([9])
    with pytest.raises(VersionNotFoundError, match="there is no such tag"):
        at_tag(table, "a")
    assert list_tags(table.log) == []


def test_a_tag_of_a_table_that_was_replaced_from_outside_is_an_error(table: Table) -> None:
    create_tag(table.log, "a")
    for place in (table.root / "_delta_log").iterdir():
        place.unlink()
    for number in range(3):
        table.write([number])
    with pytest.raises(VersionNotFoundError, match="another table was created here"):
        at_tag(table, "a")


def test_a_tag_whose_version_is_lost_stops_a_vacuum_by_name(
    template: Table, tmp_path: Path
) -> None:
    table = template.copy(tmp_path / "t")
    create_tag(table.log, "kept", version=1)
    for version in range(3):  # as another engine's clean-up deletes them
        (table.root / "_delta_log" / f"{version:020}.json").unlink()
    table.put("orphan.parquet")
    table.pass_time(days=8)
    before = table.data_files()
    with pytest.raises(VersionNotFoundError, match=r"version 1 \(tag kept\): .*delete the tag"):
        vacuum(table.log, clock=table.clock)
    assert table.data_files() == before


def test_a_tag_whose_version_is_lost_stops_no_other_maintenance(
    template: Table, tmp_path: Path
) -> None:
    table = template.copy(tmp_path / "t")
    create_tag(table.log, "kept", version=1)
    for version in range(3):  # as another engine's clean-up deletes them
        (table.root / "_delta_log" / f"{version:020}.json").unlink()
    table.write([9], mode="overwrite")
    table.pass_time(days=40)
    report = health(table.log, clock=table.clock)
    reason = ("tag kept, which cannot be read",)
    assert report.figures.refused == {"vacuum": reason, "clean_up_log": reason}
    plan = plan_maintenance(table.log, clock=table.clock)
    assert not {"vacuum", "clean_up_log"} & set(plan.operations)
    delete_tag(table.log, "kept")
    assert health(table.log, clock=table.clock).figures.refused == {}


@pytest.mark.parametrize(
    "state",
    [
        '{"tags": {"a": {"name": "a", "version": -1, "table_id": "x", "created_ms": 0}}}',
        '{"tags": {"a": {"name": "a", "version": 1, "table_id": "x", "created_ms": 1e17}}}',
        '{"deletions": [{"id": "x", "version": 9, "begun_ms": 100000000000000000}]}',
    ],
    ids=["a negative version", "a tag after the year 9999", "a deletion after the year 9999"],
)
def test_refs_that_cannot_be_right_are_an_error(table: Table, state: str) -> None:
    text = f'{{"format": 1, "number": 1, "id": "x", "time_ms": 0, "change": "", "state": {state}}}'
    table.put(f"_delta_ops/refs/{1:020}.json", text.encode())
    for operate in (list_tags, vacuum, lambda log: create_tag(log, "b", version=0)):
        with pytest.raises(LogCorruptError, match="restore the file from a backup"):
            operate(table.log)


def test_a_table_with_tags_of_a_later_format_is_left_alone(table: Table) -> None:
    (table.root / "_delta_ops").mkdir()
    (table.root / "_delta_ops" / "format.json").write_text('{"version": 2}')
    with pytest.raises(UnsupportedFeatureError, match=r"version 2 of _delta_ops/format\.json"):
        create_tag(table.log, "a")
    assert list_tags(table.log) == []


def test_creating_a_tag_takes_four_calls_more_than_opening(template: Table, tmp_path: Path) -> None:
    table = template.copy(tmp_path / "t")
    create_checkpoint(table.log)
    create_tag(table.log, "first")
    calls: list[str] = []
    storage = CountingStorage(open_storage(table.root), recording(calls))
    DeltaLog(table.root, storage=storage).snapshot()
    opening = list(calls)
    calls.clear()
    create_tag(DeltaLog(table.root, storage=storage), "second", clock=lambda: 9 * DAY_MS)
    assert calls[len(opening) :] == ["list_from", "read", "stat", "create"]


def test_reads_count_the_rows_of_a_tag(table: Table) -> None:
    create_tag(table.log, "a", version=1)
    assert da.to_table(table.root, ref="tag:a").num_rows == 2
    assert sum(batch.num_rows for batch in da.to_batches(table.root, ref="tag:a")) == 2
    assert da.count_rows(table.root, ref="tag:a") == 2
    with pytest.raises(InvalidRequestError, match="leave version, timestamp and ref out"):
        da.to_table(table.log.snapshot(), ref="tag:a")
