"""Vacuum on real tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from deltalake import DeltaTable

from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import (
    CommitConflictError,
    DataFileError,
    DeltaOpsError,
    InvalidRequestError,
    UnsupportedFeatureError,
)
from delta_ops.events import Committed, Event, Progress
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import clean_up_log, create_checkpoint, vacuum
from delta_ops.protocol.actions import Action, Metadata, Protocol
from tests.maintenance.aged_tables import NOW, Table, overwritten
from tests.support.counting_storage import CountingStorage
from tests.support.tables import add, metadata, remove, rows_by_deltalake, write_log


def test_removed_files_go_when_their_retention_is_over_and_not_before(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    table.pass_time(days=-2)
    assert vacuum(table.log, clock=table.clock).deleted_files == 0
    assert len(table.rows(1)) == 2
    table.pass_time(days=2)
    result = vacuum(table.log, clock=table.clock)
    assert (result.deleted_files, result.failures) == (2, ())
    assert result.deleted_bytes == result.plan.size_bytes > 0
    assert len(table.data_files()) == 1
    assert table.rows() == rows_by_deltalake(table.root) == [{"id": 3, "p": "c"}]
    with pytest.raises(DataFileError):
        table.rows(1)


def test_it_chooses_what_deltalake_chooses(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    table.put("orphan.parquet")
    table.put("p=a/other orphan%.parquet")
    table.put("_hidden/x.parquet")
    table.pass_time(days=8)
    theirs = DeltaTable(str(table.root)).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=True, full=True
    )
    ours = vacuum(table.log, clock=table.clock, dry_run=True)
    assert {info.path for info in ours.plan.files} == {path.removeprefix("/") for path in theirs}


def test_a_dry_run_deletes_nothing(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    before = table.files()
    result = vacuum(table.log, clock=table.clock, dry_run=True)
    assert (len(result.plan.files), result.deleted_files, table.files()) == (2, 0, before)


def test_a_second_vacuum_has_nothing_to_do(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    vacuum(table.log, clock=table.clock)
    version = table.log.snapshot().version
    again = vacuum(table.log, clock=table.clock)
    assert not again.plan.has_work
    assert table.log.snapshot().version == version


def test_files_written_recently_stay_since_they_may_be_about_to_be_committed(
    tmp_path: Path,
) -> None:
    table = overwritten(tmp_path / "t")
    place = table.put("p=c/new.parquet")
    assert vacuum(table.log, clock=table.clock).plan.kept["young"] == 1
    assert place.exists()


def test_files_kept_on_request_stay(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    table.put("keep me.parquet")
    table.pass_time(days=8)
    vacuum(table.log, clock=table.clock, keep=["keep me.parquet"])
    assert "keep me.parquet" in table.files()


def test_unfinished_files_and_checksums_of_deleted_files_go(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    staged = [table.put(f"{where}.staged-{'a' * 32}") for where in ("", "p=a/", "_delta_log/")]
    orphan = table.put("orphan.parquet")
    checksum = table.put(".orphan.parquet.crc")
    table.pass_time(days=8)
    result = vacuum(table.log, clock=table.clock)
    assert len(result.plan.leftovers) == 3
    assert not any(place.exists() for place in (*staged, orphan, checksum))


def test_links_are_not_followed(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    outside = tmp_path / "outside" / "x.parquet"
    outside.parent.mkdir()
    outside.write_bytes(b"theirs")
    os.utime(outside, (0, 0))
    (table.root / "linked").symlink_to(outside.parent)
    (table.root / "linked.parquet").symlink_to(outside)
    vacuum(table.log, clock=table.clock)
    assert outside.exists()
    assert (table.root / "linked").is_symlink()


@pytest.mark.parametrize(
    "log_path",
    [
        pytest.param(lambda root, name: quote(name), id="relative"),
        pytest.param(lambda root, name: f"./{quote(name)}", id="with a dot"),
        pytest.param(lambda root, name: f"file:{root}/{quote(name)}", id="as file:"),
        pytest.param(lambda root, name: f"file://{root}/{quote(name)}", id="as file://"),
        pytest.param(lambda root, name: f"{root}/{quote(name)}", id="from the root"),
        pytest.param(
            lambda root, name: f"/mnt/elsewhere/{root.name}/{quote(name)}",
            id="by another name of the same place",
        ),
    ],
)
def test_a_live_file_stays_however_the_log_names_it(
    tmp_path: Path, log_path: Callable[[Path, str], str]
) -> None:
    name = "a b 100% ü=#?.parquet"
    table = Table(tmp_path / "t")
    write_log(table.root, [[add(log_path(table.root, name))]])
    live, orphan = table.put(name), table.put("orphan.parquet")
    table.pass_time(days=8)
    vacuum(table.log, clock=table.clock)
    assert (live.exists(), orphan.exists()) == (True, False)


def test_a_live_file_stays_though_its_path_was_not_encoded(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    write_log(table.root, [[add("a%20b.parquet")]])
    raw, decoded = table.put("a%20b.parquet"), table.put("a b.parquet")
    table.pass_time(days=8)
    vacuum(table.log, clock=table.clock)
    assert (raw.exists(), decoded.exists()) == (True, True)


OTHER_LETTERS = [
    pytest.param("p=A/x.parquet", "p=a/x.parquet", id="of another case"),
    pytest.param("\u00fc.parquet", "u\u0308.parquet", id="with its accent apart"),
    pytest.param("U\u0308.parquet", "\u00fc.parquet", id="with its accent joined, of another case"),
]


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(("logged", "listed"), OTHER_LETTERS)
def test_a_file_stays_that_a_disk_may_take_for_a_live_one(
    tmp_path: Path, logged: str, listed: str, mode: Any
) -> None:
    log = write_log(tmp_path, [[add(listed)], [remove(listed)], [add(logged)]])
    for path in (listed, "orphan"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"rows")
        os.utime(tmp_path / path, (0, 0))
    vacuum(log, mode=mode, clock=lambda: system_clock() + 30 * DAY_MS)
    assert ((tmp_path / listed).exists(), (tmp_path / "orphan").exists()) == (True, mode == "lite")


@pytest.mark.parametrize(("logged", "listed"), OTHER_LETTERS)
def test_a_file_stays_that_a_disk_may_take_for_one_committed_meanwhile_or_kept(
    tmp_path: Path, logged: str, listed: str
) -> None:
    log = write_log(tmp_path, [[add("live")]])
    for path in (listed, "kept", "orphan"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"rows")
        os.utime(tmp_path / path, (0, 0))

    def commit_late(event: Event) -> None:
        if isinstance(event, Committed) and event.version == 1:  # VACUUM START
            create_commit(log.storage, log.log_directory, 2, [add(logged)])

    result = vacuum(log, keep=["KEPT"], on_event=commit_late)
    assert (result.deleted_files, result.needed_after_all) == (1, 1)
    assert (tmp_path / listed).exists()
    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("deletion_timestamp", "stays"),
    [
        pytest.param(NOW + DAY_MS, True, id="removed exactly at the horizon"),
        pytest.param(NOW + DAY_MS - 1, False, id="removed before it"),
        pytest.param(None, False, id="removed who knows when"),
    ],
)
def test_tombstones(tmp_path: Path, deletion_timestamp: int | None, stays: bool) -> None:
    table = Table(tmp_path / "t")
    tombstone = remove("x.parquet", deletion_timestamp=deletion_timestamp)
    write_log(table.root, [[add("x.parquet")], [tombstone]])
    place = table.put("x.parquet")
    table.pass_time(days=8)
    vacuum(table.log, clock=table.clock)
    assert place.exists() is stays


class Meddling(CountingStorage):
    """Lets a test act when vacuum has listed files or is about to delete them."""

    def __init__(self, inner: Any, meddle: Callable[[str], None]) -> None:
        super().__init__(
            inner, lambda _n, method, _p, when: meddle(method) if when == "after" else None
        )


@pytest.mark.parametrize("moment", ["list_tree", "delete_many"])
def test_an_old_file_that_is_committed_meanwhile_stays(tmp_path: Path, moment: str) -> None:
    table = overwritten(tmp_path / "t")
    late = [table.put(f"z-late-{n}.parquet") for n in range(3)]
    table.pass_time(days=30)
    committed: list[int] = []

    def commit(method: str) -> None:
        version = table.log.snapshot().version
        if method == moment and not committed:
            adds = [add(place.name, partition_values={"p": "z"}) for place in late]
            create_commit(table.log.storage, table.log.log_directory, version + 1, adds)
            committed.append(version + 1)

    log = DeltaLog("", storage=Meddling(table.log.storage, commit))
    result = vacuum(log, clock=table.clock, batch_files=1)
    assert all(place.exists() for place in late)
    assert result.deleted_files == 2
    assert result.needed_after_all == (3 if moment == "delete_many" else 0)


UNHEARD_OF = Protocol(
    min_reader_version=1, min_writer_version=7, writer_features=("appendOnly", "filesElsewhere")
)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param(UNHEARD_OF, UnsupportedFeatureError, id="a feature nobody has heard of"),
        pytest.param(
            metadata(
                partition_columns=("p",),
                configuration={"delta.deletedFileRetentionDuration": "interval 60 days"},
            ),
            CommitConflictError,
            id="a longer promise",
        ),
        pytest.param(
            metadata(partition_columns=("id",)), CommitConflictError, id="another partitioning"
        ),
    ],
)
def test_a_table_that_changes_its_rules_meanwhile_is_left_alone(
    tmp_path: Path, change: Action, error: type[DeltaOpsError]
) -> None:
    table = overwritten(tmp_path / "t")
    before = table.data_files()
    same_id = table.log.snapshot().metadata.id
    action = replace(change, id=same_id) if isinstance(change, Metadata) else change

    def alter(method: str) -> None:
        if method == "list_tree":
            create_commit(table.log.storage, table.log.log_directory, 3, [action])

    log = DeltaLog("", storage=Meddling(table.log.storage, alter))
    with pytest.raises(error):
        vacuum(log, clock=table.clock)
    assert table.data_files() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"retention": timedelta(hours=-1)}, "cannot be negative", id="a negative retention"
        ),
        pytest.param(
            {"retention": timedelta(hours=-1), "enforce_retention": False},
            "cannot be negative",
            id="a negative retention that is not enforced",
        ),
        pytest.param(
            {"retention": timedelta(days=6)},
            "6 days is less than the table's delta.deletedFileRetentionDuration, 7 days",
            id="a retention shorter than the table's",
        ),
        pytest.param({"retention": 168}, "give a duration", id="a number for a retention"),
        pytest.param({"keep": "a.parquet"}, "give a list of strings", id="one path for a list"),
        pytest.param({"keep": ["/t/a.parquet"]}, "cannot be kept", id="an absolute path to keep"),
        pytest.param({"keep": ["./a.parquet"]}, "cannot be kept", id="a path to keep with a dot"),
    ],
)
def test_requests_that_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    table = overwritten(tmp_path / "t")
    before = table.files()
    with pytest.raises(InvalidRequestError, match=message):
        vacuum(table.log, clock=table.clock, **options)
    assert table.files() == before


def test_a_short_retention_is_taken_where_it_is_not_enforced(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    table.pass_time(days=-7)
    result = vacuum(
        table.log, retention=timedelta(hours=1), enforce_retention=False, clock=table.clock
    )
    assert result.deleted_files == 2


def test_a_long_retention_protects_what_the_checkpoint_has_forgotten(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    table.write([4], "d")
    written = create_checkpoint(table.log, clock=table.clock).written
    assert written is not None
    assert written.expired_tombstones == 2
    table.date()
    rows = table.rows(1)
    vacuum(table.log, retention=timedelta(days=30), clock=table.clock)
    assert table.rows(1) == rows
    vacuum(table.log, clock=table.clock)
    assert len(table.data_files()) == 2


def test_a_retention_that_the_log_does_not_remember_is_refused(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    table.write([4], "d")
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    table.pass_time(days=31)
    assert clean_up_log(table.log, clock=table.clock).deleted_files == 6
    before = table.files()
    with pytest.raises(InvalidRequestError, match="knows removed files for only 168 hours"):
        vacuum(table.log, retention=timedelta(days=60), clock=table.clock)
    assert table.files() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b'{"version": 7}', "version 7", id="a number"),
        pytest.param(b'{"version": [7]}', "version unknown", id="no number"),
        pytest.param(b"{", "version unknown", id="malformed"),
    ],
)
def test_a_table_with_a_format_of_the_future_is_refused(
    tmp_path: Path, text: bytes, message: str
) -> None:
    table = overwritten(tmp_path / "t")
    table.put("_delta_ops/format.json", text)
    with pytest.raises(UnsupportedFeatureError, match=message):
        vacuum(table.log, clock=table.clock)


def test_a_format_of_the_future_that_comes_between_two_batches_stops_it(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    before = len(table.data_files())

    def put_format(event: Event) -> None:
        if isinstance(event, Progress) and (event.operation, event.done) == ("vacuum", 1):
            table.put("_delta_ops/format.json", b'{"version": 7}')

    with pytest.raises(UnsupportedFeatureError, match="version 7 of _delta_ops"):
        vacuum(table.log, clock=table.clock, batch_files=1, log_commits=False, on_event=put_format)
    assert len(table.data_files()) == before - 1


def test_files_that_cannot_be_deleted_are_reported_and_the_others_deleted(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    stuck = min(path for path in table.data_files() if path.startswith("p=a"))

    class Stuck(CountingStorage):
        def delete_many(self, paths: Iterable[str]) -> list[str]:
            chosen = list(paths)
            return [*super().delete_many(p for p in chosen if p != stuck), stuck]

    log = DeltaLog("", storage=Stuck(table.log.storage, lambda *_: None))
    result = vacuum(log, clock=table.clock)
    assert (result.failures, result.deleted_files) == ((stuck,), 1)


def test_progress_is_reported(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    events: list[Event] = []
    vacuum(table.log, clock=table.clock, log_commits=False, on_event=events.append)
    assert events == [Progress(table=table.log.uri, operation="vacuum", done=2, total=2)]
