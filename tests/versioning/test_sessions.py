"""Sessions: rows of several writers that become one commit, or nothing."""

from __future__ import annotations

import json
import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.engine import ARROW
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.ddl import add_columns, add_constraint, drop_table, set_properties
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    SessionConflictError,
    SessionEndedError,
    SessionTokenError,
    TableBusyError,
    VersionNotFoundError,
)
from delta_ops.log.refs.refs import refs_journal
from delta_ops.maintenance import clean_up_log, create_checkpoint, optimize, vacuum
from delta_ops.maintenance.backfill_statistics.act import backfill_statistics
from delta_ops.storage import FileInfo
from delta_ops.transaction import NewColumn
from delta_ops.versioning import (
    WriteSession,
    begin_session,
    create_branch,
    join_session,
    list_sessions,
    open_branch,
    open_session,
)
from tests.maintenance.aged_tables import Table, overwritten
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows_by_deltalake

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids_of(source: Any, **options: Any) -> list[int]:
    return sorted(da.to_table(source, **options)["id"].to_pylist())


def made(root: Path, *ids: int, **configuration: str) -> DeltaLog:
    """A table with a file for each row."""
    for number in ids:
        da.write(root, rows_of(number), configuration=configuration or None)
    return DeltaLog(root)


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """Rows 1 to 3, each in its own file; version 2."""
    return made(tmp_path / "t", 1, 2, 3)


def test_the_rows_of_all_writers_become_one_commit(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4))
    da.write(session.fork("b"), rows_of(5, 6))
    da.delete(session.fork("c"), "id IN (1, 4)")
    assert ids_of(log) == [1, 2, 3]
    result = session.commit(user_metadata="nightly")
    assert (result.version, result.steps) == (3, ("a", "b", "c"))
    assert (result.added_files, result.removed_files) == (1, 1)
    assert ids_of(log) == [2, 3, 5, 6]
    assert sorted(row["id"] for row in rows_by_deltalake(Path(log.uri))) == [2, 3, 5, 6]
    (entry,) = log.history(1)
    assert (entry.operation, entry.user_metadata) == ("COMMIT SESSION", "nightly")
    assert entry.operation_parameters == {
        "sessionId": session.id,
        "baseVersion": 2,
        "numSteps": 3,
    }


def test_main_stays_byte_for_byte_until_the_commit(log: DeltaLog) -> None:
    def files() -> dict[str, bytes]:
        directory = Path(log.uri) / "_delta_log"
        return {path.name: path.read_bytes() for path in directory.iterdir()}

    before = files()
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4), mode="overwrite")
    session.abandon()
    assert files() == before


@pytest.mark.parametrize("configuration", [{}, VECTORS], ids=["files", "deletion vectors"])
def test_every_verb_writes_into_a_session_and_sees_its_rows(
    tmp_path: Path, configuration: dict[str, str]
) -> None:
    da.write(tmp_path / "t", rows_of(1, 2, 3), configuration=configuration)
    session = begin_session(tmp_path / "t")
    step = session.fork("one")
    da.write(step, rows_of(4, 5))
    da.update(step, {"id": "id * 10"}, "id IN (1, 5)")
    assert ids_of(step) == [2, 3, 4, 10, 50]
    da.delete(session.fork("two"), "id = 10")
    merge = da.merge(session.fork("three"), rows_of(50, 60), "source.id = target.id")
    merge.when_matched_delete().when_not_matched_insert_all().execute()
    da.write(session.fork("four"), rows_of(2), mode="overwrite", replace_where="id = 2")
    assert ids_of(session.snapshot()) == [2, 3, 4, 60]
    assert ids_of(tmp_path / "t", ref=session.ref) == [2, 3, 4, 60]
    assert da.count_rows(tmp_path / "t", ref=session.ref) == 4
    assert ids_of(tmp_path / "t") == [1, 2, 3]
    session.commit()
    assert ids_of(tmp_path / "t") == [2, 3, 4, 60]


def test_an_append_reads_no_fragment_of_another_writer(log: DeltaLog) -> None:
    calls: list[str] = []

    def count(_number: int, method: str, _path: str, moment: str) -> None:
        calls.extend([method] if moment == "before" else [])

    session = begin_session(DeltaLog(log.uri, storage=CountingStorage(log.storage, count)))
    for number in range(3):
        step = session.fork()
        calls.clear()
        da.write(step, rows_of(number))
        assert sorted(calls) == ["create", "create_from_stream", *["list_from"] * 3]


def test_each_step_costs_the_same_calls_whatever_steps_came_before(log: DeltaLog) -> None:
    calls: Counter[str] = Counter()

    def note(_number: int, method: str, path: str, when: str) -> None:
        calls.update([f"{method} {path.split('/')[1:2]}"] if when == "before" else [])

    counted = DeltaLog(log.uri, storage=CountingStorage(log.storage, note))
    session = begin_session(counted)
    found = []
    for number in range(12):
        calls.clear()
        da.write(session.fork(f"step {number}"), rows_of(number))
        found.append(dict(calls))
    assert found[2:] == [found[1]] * 10
    assert found[1] == {
        "list_tree ['sessions']": 1,  # the files of all steps
        "read ['sessions']": 2,  # the new step and its fragment
        "create ['sessions']": 2,
        "create_from_stream []": 1,
        "list_from ['sessions']": 3,  # our own log, and before and after the fragment is created
    }
    calls.clear()
    session.commit()
    assert calls["read ['sessions']"] <= 8


def test_files_of_earlier_steps_are_listed_by_name_only(log: DeltaLog) -> None:
    looked_up: list[str] = []

    class NoteStorage(CountingStorage):
        def list_tree(self, *args: Any, **options: Any) -> Iterator[FileInfo]:
            for each in super().list_tree(*args, **options):
                looked_up.append(each.path)
                yield each

    session = begin_session(DeltaLog(log.uri, storage=NoteStorage(log.storage, lambda *_: None)))
    for number in range(5):
        looked_up.clear()
        step = session.fork(f"step {number}")
        # Only the fragment of the step before is new.
        assert len(looked_up) == min(number, 1)
        da.write(step, rows_of(number))


def test_a_writer_sees_what_was_there_when_it_began(log: DeltaLog) -> None:
    session = begin_session(log)
    first = session.fork("a")
    da.write(session.fork("b"), rows_of(4))
    da.write(first, rows_of(5))
    assert ids_of(first) == [1, 2, 3, 5]
    assert ids_of(session.snapshot()) == [1, 2, 3, 4, 5]


def test_a_session_without_rows_commits_nothing(log: DeltaLog) -> None:
    session = begin_session(log)
    session.fork("a")
    assert session.commit().version is None
    assert (log.snapshot().version, list_sessions(log)) == (2, [])
    with pytest.raises(SessionEndedError, match="had nothing to commit"):
        session.rebase()


# --- steps and attempts -----------------------------------------------------------------------


def test_the_newest_attempt_of_a_step_counts(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("load"), rows_of(4))
    da.write(session.fork("load"), rows_of(4, 5))
    assert ids_of(session.snapshot()) == [1, 2, 3, 4, 5]
    assert [(each.step, each.attempt) for each in session.steps()] == [("load", 2)]
    session.commit()
    assert ids_of(log) == [1, 2, 3, 4, 5]


def test_a_new_attempt_undoes_the_removals_of_the_earlier_one(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("load"), rows_of(4), mode="overwrite")
    session.fork("load")
    assert ids_of(session.snapshot()) == [1, 2, 3]


@pytest.mark.full
def test_an_attempt_that_was_repeated_takes_no_more_rows(log: DeltaLog) -> None:
    session = begin_session(log)
    old = session.fork("load")
    da.write(session.fork("load"), rows_of(5))
    with pytest.raises(SessionEndedError, match="later attempt of this step"):
        da.write(old, rows_of(4))
    assert ids_of(session.snapshot()) == [1, 2, 3, 5]


@pytest.mark.parametrize("attempt", [0, 1, 2])
def test_an_attempt_is_begun_once(log: DeltaLog, attempt: int) -> None:
    session = begin_session(log)
    session.fork("load", attempt=2)
    with pytest.raises(InvalidRequestError, match="attempt"):
        session.fork("load", attempt=attempt)
    session.fork("load", attempt=7)
    session.fork("load")
    assert session.steps()[0].attempt == 8


def test_steps_with_similar_names_are_different_steps(log: DeltaLog) -> None:
    session = begin_session(log)
    names = ["load[1]", "load[2]", "load 1", "load/1", "ladung ä", "x" * 300]
    for number, name in enumerate(names, 10):
        da.write(session.fork(name), rows_of(number))
    assert session.commit().steps == tuple(names)
    assert len(ids_of(log)) == 3 + len(names)


@pytest.mark.full
def test_steps_without_a_name_are_different_steps(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork(), rows_of(4))
    da.write(session.fork(), rows_of(4))
    session.commit()
    assert ids_of(log) == [1, 2, 3, 4, 4]


@pytest.mark.parametrize("name", ["", "x" * 501])
def test_names_of_steps_are_limited(log: DeltaLog, name: str) -> None:
    with pytest.raises(InvalidRequestError, match="cannot name a step"):
        begin_session(log).fork(name)


def test_only_the_expected_steps_are_committed(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4))
    with pytest.raises(InvalidRequestError, match="no rows of 'b'"):
        session.commit(expected_steps=["a", "b"])
    step = session.fork("b")  # a step that fails now has begun, and its rows are missing
    with pytest.raises(InvalidRequestError, match="no rows of 'b'"):
        session.commit(expected_steps=["a", "b"])
    da.write(step, rows_of(5))
    with pytest.raises(InvalidRequestError, match="has rows of 'b', which were not expected"):
        session.commit(expected_steps=["a"])
    assert session.commit(expected_steps=["b", "a"]).version == 3


@pytest.mark.full
def test_a_fan_out_of_writers_does_not_wait_for_each_other(log: DeltaLog) -> None:
    session = begin_session(log)

    def load(number: int) -> None:
        da.write(session.fork(f"load[{number}]"), rows_of(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(load, range(100, 200)))
    result = session.commit(expected_steps=[f"load[{number}]" for number in range(100, 200)])
    assert (result.version, result.added_files) == (3, 100)
    assert ids_of(log) == [1, 2, 3, *range(100, 200)]


# --- conflicts within a session ---------------------------------------------------------------


def test_writers_that_changed_the_same_rows_conflict(log: DeltaLog) -> None:
    session = begin_session(log)
    one, two = session.fork("one"), session.fork("two")
    da.delete(one, "id = 1")
    with pytest.raises(SessionConflictError, match="step 'two' cannot be added") as raised:
        da.update(two, {"id": "id + 10"}, "id = 1")
    assert (raised.value.steps, raised.value.kind) == (("two",), "delete read")
    assert ids_of(session.snapshot()) == [2, 3]
    da.update(session.fork("two"), {"id": "id + 10"}, "id = 2")
    session.commit()
    assert ids_of(log) == [3, 12]


def test_writers_that_changed_different_rows_do_not_conflict(log: DeltaLog) -> None:
    session = begin_session(log)
    one, two = session.fork("one"), session.fork("two")
    da.delete(one, "id = 1")
    da.update(two, {"id": "id + 10"}, "id = 2")
    session.commit()
    assert ids_of(log) == [3, 12]


def test_an_append_beside_a_deletion_comes_after_it(log: DeltaLog) -> None:
    session = begin_session(log)
    one, two = session.fork("one"), session.fork("two")
    da.write(one, rows_of(4))
    da.delete(two, "id > 0")
    assert ids_of(session.snapshot()) == [4]
    assert session.commit().steps == ("two", "one")
    assert ids_of(log) == [4]


def test_a_conflict_that_two_writers_did_not_notice_stops_the_commit(log: DeltaLog) -> None:
    session = begin_session(log)
    one, two = session.fork("one"), session.fork("two")
    da.delete(one, "id = 1")
    place = Path(log.uri, one.log_directory)
    hidden = place.rename(place.with_name("hidden"))
    da.delete(two, "id < 3")
    hidden.rename(place)
    with pytest.raises(SessionConflictError, match="did not see the rows of step") as raised:
        session.commit()
    with pytest.raises(SessionConflictError):
        session.snapshot()
    (step,) = raised.value.steps
    da.delete(session.fork(step), "id = 3")
    session.commit()
    assert set(ids_of(log)) in ({2}, {1})


def test_a_step_that_read_rows_of_a_repeated_attempt_must_run_again(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("load"), rows_of(4))
    da.delete(session.fork("clean"), "id = 4")
    da.write(session.fork("load"), rows_of(4, 5))
    with pytest.raises(SessionConflictError, match="step 'load' that no longer") as raised:
        session.commit()
    assert raised.value.steps == ("clean",)
    da.delete(session.fork("clean"), "id = 4")
    session.commit()
    assert ids_of(log) == [1, 2, 3, 5]


def test_the_same_txn_in_two_steps_is_a_conflict(log: DeltaLog) -> None:
    session = begin_session(log)
    one, two = session.fork("one"), session.fork("two")
    da.write(one, rows_of(4), txn=("nightly", 1))
    with pytest.raises(SessionConflictError, match="txn of the same application"):
        da.write(two, rows_of(4), txn=("nightly", 1))
    assert da.write(session.fork("two"), rows_of(4), txn=("nightly", 1)).already_committed
    session.commit()
    assert da.write(log, rows_of(4), txn=("nightly", 1)).already_committed
    assert ids_of(log) == [1, 2, 3, 4]


# --- sessions with a name ---------------------------------------------------------------------


def test_writers_join_a_session_by_its_name(log: DeltaLog) -> None:
    da.write(join_session(log, "nightly").fork("a"), rows_of(4))
    da.write(join_session(log.uri, "nightly").fork("b"), rows_of(5))
    da.write(join_session(log, "hourly").fork("a"), rows_of(6))
    assert sorted(each.name or "" for each in list_sessions(log)) == ["hourly", "nightly"]
    join_session(log, "nightly").commit(expected_steps=["a", "b"])
    assert ids_of(log) == [1, 2, 3, 4, 5]
    assert join_session(log, "nightly").steps() == []


def test_a_rebased_session_keeps_its_name(log: DeltaLog) -> None:
    session = join_session(log, "nightly")
    da.write(log, rows_of(4))
    session.rebase()
    assert join_session(log, "nightly").id == session.id


def test_a_name_begins_another_session_when_the_first_has_expired(log: DeltaLog) -> None:
    first = join_session(log, "nightly", expires_in=timedelta(hours=1))
    in_two_hours = int((datetime.now(UTC) + timedelta(hours=2)).timestamp() * 1000)
    second = join_session(log, "nightly", clock=lambda: in_two_hours)
    assert second.id != first.id
    assert join_session(log, "nightly", clock=lambda: in_two_hours + 1).id == second.id


def test_writers_that_join_at_once_get_one_session(log: DeltaLog) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: join_session(log, "nightly").id, range(16)))
    assert len(set(ids)) == len(list_sessions(log)) == 1


@pytest.mark.parametrize("name", ["", "x" * 501])
def test_names_of_sessions_are_limited(log: DeltaLog, name: str) -> None:
    with pytest.raises(InvalidRequestError, match="cannot name a session"):
        join_session(log, name)


# --- sessions with a txn ----------------------------------------------------------------------


@pytest.mark.parametrize("begun", ["before", "after"])
def test_a_txn_is_committed_by_one_of_two_sessions(log: DeltaLog, begun: str) -> None:
    one = begin_session(log)
    early = begin_session(log) if begun == "before" else None
    da.write(one.fork("a"), rows_of(4))
    assert one.commit(txn=("nightly", 1)).version == 3
    two = early or begin_session(log)
    da.write(two.fork("a"), rows_of(4))
    result = two.commit(txn=("nightly", 1))
    assert (result.version, result.already_committed) == (3, True)
    assert (ids_of(log), list_sessions(log)) == ([1, 2, 3, 4], [])
    assert log.snapshot().transactions()["nightly"].version == 1


def test_a_commit_that_was_killed_keeps_its_txn(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4))

    def kill(_number: int, method: str, path: str, moment: str) -> None:
        if (method, moment) == ("create", "before") and path.endswith("sealed.json"):
            raise RuntimeError("killed")

    killed = DeltaLog(log.uri, storage=CountingStorage(log.storage, kill))
    with pytest.raises(RuntimeError, match="killed"):
        open_session(killed, session.token).commit(txn=("nightly", 1))
    with pytest.raises(InvalidRequestError, match=r"begun with the txn \('nightly', 1\)"):
        session.commit(txn=("nightly", 2))
    session.commit()
    assert log.snapshot().transactions()["nightly"].version == 1


def test_a_repeated_commit_reports_the_txn_of_another_session(log: DeltaLog) -> None:
    one, two = begin_session(log), begin_session(log)
    da.write(one.fork("a"), rows_of(4))
    da.write(two.fork("a"), rows_of(4))
    one.commit(txn=("nightly", 1))
    results = [two.commit(txn=("nightly", 1)), two.commit(txn=("nightly", 1)), two.commit()]
    assert [(each.version, each.already_committed) for each in results] == [(3, True)] * 3
    shutil.rmtree(Path(log.uri) / "_delta_ops" / "sessions")  # as a vacuum does some time later
    assert two.commit(txn=("nightly", 1)) == results[0]
    with pytest.raises(SessionEndedError):
        two.commit(txn=("nightly", 2))


def test_a_txn_that_the_table_holds_is_found_before_any_reason_to_reject(log: DeltaLog) -> None:
    one, two = begin_session(log), begin_session(log)
    da.write(one.fork("a"), rows_of(4))
    da.delete(two.fork("clean"), "id < 5")
    assert one.commit(txn=("nightly", 1)).version == 3
    assert two.commit(txn=("nightly", 1), expected_steps=["other"]).version == 3
    assert (ids_of(log), list_sessions(log)) == ([1, 2, 3, 4], [])


def test_a_conflict_does_not_hide_a_txn_that_was_committed_at_the_same_time(log: DeltaLog) -> None:
    one, two = begin_session(log), begin_session(log)
    da.write(one.fork("a"), rows_of(4))
    da.delete(two.fork("clean"), "id < 5")

    def commit_first(_number: int, method: str, path: str, moment: str) -> None:
        if (method, moment) == ("create", "after") and path.endswith("sealed.json"):
            da.write(log, rows_of(3))  # the conflict
            one.commit(txn=("nightly", 1))

    slow = DeltaLog(log.uri, storage=CountingStorage(log.storage, commit_first))
    result = open_session(slow, two.token).commit(txn=("nightly", 1))
    assert (result.version, result.already_committed) == (4, True)
    assert (ids_of(log), list_sessions(log)) == ([1, 2, 3, 3, 4], [])


def test_a_session_without_rows_is_committed_twice(log: DeltaLog) -> None:
    session = begin_session(log)
    assert (session.commit().version, session.commit().version) == (None, None)
    assert session.commit().already_committed


@pytest.mark.parametrize("end", ["commit", "abandon", "vacuum"])
def test_a_killed_commit_ends_once_another_session_has_its_txn(table: Table, end: str) -> None:
    session = begin_session(table.log, clock=table.clock)
    write(table, session.fork("a"), 4)
    state = session._state()  # a committer that was killed after its decision
    state.decide_end("commit", table.clock, ("nightly", 1))
    other = begin_session(table.log, clock=table.clock)
    write(table, other.fork("a"), 4)
    version = other.commit(txn=("nightly", 1)).version
    table.date()
    if end == "commit":
        assert open_session(table.log, session.id).commit().version == version
    elif end == "abandon":
        session.abandon()
    else:
        table.pass_time(days=40)
        assert vacuum(table.log, clock=table.clock).expired_sessions == (session.id,)
    assert (ids_of(table.log), list_sessions(table.log)) == ([3, 4], [])


def test_a_txn_whose_commit_was_cleaned_up_is_no_empty_session(log: DeltaLog) -> None:
    one, two = begin_session(log), begin_session(log)
    da.write(one.fork("a"), rows_of(4))
    da.write(two.fork("a"), rows_of(4))
    one.commit(txn=("nightly", 1))
    create_checkpoint(log)
    (Path(log.uri) / "_delta_log" / f"{3:020}.json").unlink()
    result = two.commit(txn=("nightly", 1))
    assert (result.version, result.already_committed) == (None, True)
    assert refs_journal(log.storage).load().change.endswith("its txn is in an earlier version")


def test_a_txn_of_a_step_is_not_a_txn_of_the_commit(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4), txn=("nightly", 1))
    with pytest.raises(InvalidRequestError, match="give the commit another application id"):
        session.commit(txn=("nightly", 2))
    assert session.status().state == "open"


# --- two sessions, and other commits ----------------------------------------------------------


@pytest.mark.full
def test_two_sessions_without_conflict(log: DeltaLog) -> None:
    one, two = begin_session(log), begin_session(log)
    da.delete(one.fork("a"), "id = 1")
    da.delete(two.fork("a"), "id = 2")
    da.write(two.fork("b"), rows_of(4))
    assert (one.commit().version, two.commit().version) == (3, 4)
    assert ids_of(log) == [3, 4]


def test_two_sessions_with_conflict(log: DeltaLog) -> None:
    one, two = begin_session(log), begin_session(log)
    da.delete(one.fork("a"), "id = 1")
    da.update(two.fork("a"), {"id": "id + 10"}, "id = 1")
    da.write(two.fork("b"), rows_of(4))
    one.commit()
    with pytest.raises(SessionConflictError, match="version 3 was committed to main") as raised:
        two.commit()
    assert (raised.value.version, raised.value.kind) == (3, "delete read")
    assert pickle.loads(pickle.dumps(raised.value)).args == raised.value.args
    assert ids_of(two.snapshot()) == [2, 3, 4, 11]
    with pytest.raises(SessionConflictError, match="version 3 was committed to main"):
        two.commit()
    assert (ids_of(log), log.snapshot().version) == ([2, 3], 3)


def test_rollback_of_a_failed_write(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4))
    with pytest.raises(InvalidRequestError):
        da.write(session.fork("b"), pa.table({"other": [1]}))
    session.abandon()
    assert (ids_of(log), log.snapshot().version) == ([1, 2, 3], 2)
    with pytest.raises(SessionEndedError, match="was abandoned"):
        session.fork("c")


def test_cooperative_job(log: DeltaLog) -> None:
    token = begin_session(log).token

    def work(number: int) -> str:
        session = open_session(log.uri, token)
        da.write(session.fork(f"part {number}"), rows_of(number))
        return f"part {number}"

    with ThreadPoolExecutor(4) as pool:
        steps = list(pool.map(work, range(10, 20)))
    assert open_session(log.uri, token).commit(expected_steps=steps).version == 3
    assert ids_of(log) == [1, 2, 3, *range(10, 20)]


@pytest.mark.full
def test_forked_sessions_equal_serial_ones(tmp_path: Path) -> None:
    changes: list[Callable[[DeltaLog], object]] = [
        lambda log: da.write(log, rows_of(7, 8)),
        lambda log: da.delete(log, "id = 1"),
        lambda log: da.update(log, {"id": "id + 100"}, "id = 2"),
        lambda log: da.write(log, rows_of(9)),
    ]
    serial, forked = made(tmp_path / "s", 1, 2, 3), made(tmp_path / "f", 1, 2, 3)
    for change in changes:
        change(serial)
    session = begin_session(forked)
    forks = [session.fork(f"step {number}") for number in range(len(changes))]
    for change, fork in zip(changes, forks, strict=True):
        change(fork)
    session.commit()
    assert ids_of(forked) == ids_of(serial)


def test_a_session_follows_commits_that_do_not_contradict_it(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4))
    da.write(log, rows_of(5))
    optimize(log)
    assert session.commit().version == 5
    assert ids_of(log) == [1, 2, 3, 4, 5]


def test_rows_that_a_step_has_read_must_not_change(log: DeltaLog) -> None:
    session = begin_session(log)
    da.delete(session.fork("a"), "id < 2")
    da.write(log, rows_of(0))
    with pytest.raises(SessionConflictError, match="added rows to what this operation has read"):
        session.commit()


def test_read_foo_write_bar(tmp_path: Path) -> None:
    foo, bar = made(tmp_path / "foo", 1), made(tmp_path / "bar", 1)
    read = foo.snapshot().version
    session = begin_session(bar)
    da.write(session.fork("a"), rows_of(*ids_of(foo)))
    optimize(foo)
    da.write(foo, rows_of(2))
    with pytest.raises(SessionConflictError, match="depends on version 0 of this table"):
        session.commit(depends_on={foo: read})
    da.write(session.fork("a"), rows_of(*ids_of(foo)))
    read = foo.snapshot().version
    optimize(foo)
    session.commit(depends_on={str(tmp_path / "foo"): read})
    assert ids_of(bar) == [1, 1, 2]


# --- rebase -----------------------------------------------------------------------------------


def test_a_rebase_shows_new_rows_of_main_and_keeps_the_steps(log: DeltaLog) -> None:
    session = begin_session(log)
    old = session.fork("a")
    da.write(old, rows_of(4))
    da.write(log, rows_of(5))
    session.rebase()
    assert ids_of(session.snapshot()) == [1, 2, 3, 4, 5]
    with pytest.raises(SessionEndedError, match="was rebased"):
        da.write(old, rows_of(6))
    da.delete(open_session(log, session.token).fork("b"), "id IN (4, 5)")
    session.commit()
    assert ids_of(log) == [1, 2, 3]


def test_after_a_conflict_steps_that_fit_stay_and_others_run_again(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("load"), rows_of(4))
    da.delete(session.fork("clean"), "id < 2")
    da.write(log, rows_of(0))
    with pytest.raises(SessionConflictError):
        session.commit()
    with pytest.raises(SessionConflictError, match="cannot be rebased") as raised:
        session.rebase()
    assert raised.value.steps == ("clean",)
    with pytest.raises(InvalidRequestError, match="has no step 'other'"):
        session.rebase(drop_steps=["other"])
    session.rebase(drop_steps=raised.value.steps)
    assert ids_of(session.snapshot()) == [0, 1, 2, 3, 4]
    da.delete(session.fork("clean"), "id < 2")
    session.commit()
    assert ids_of(log) == [2, 3, 4]


@pytest.mark.full
def test_a_step_that_read_rows_of_a_dropped_step_must_be_dropped_too(log: DeltaLog) -> None:
    session = begin_session(log)
    da.update(session.fork("one"), {"id": "id + 10"}, "id = 1")
    da.delete(session.fork("two"), "id = 11")
    da.write(log, rows_of(1))
    with pytest.raises(SessionConflictError) as raised:
        session.rebase(drop_steps=["one"])
    assert raised.value.steps == ("two",)
    session.rebase(drop_steps=["one", "two"])
    assert ids_of(session.snapshot()) == [1, 1, 2, 3]


@pytest.mark.full
def test_a_rebase_can_be_repeated_several_times(log: DeltaLog) -> None:
    session = begin_session(log)
    for number in range(4, 8):
        da.write(session.fork(f"step {number}"), rows_of(number))
        da.write(log, rows_of(number + 100))
        session.rebase()
    da.write(session.fork("step 4"), rows_of(44))
    session.commit()
    assert ids_of(log) == [1, 2, 3, 5, 6, 7, 44, 104, 105, 106, 107]


def test_appends_are_rebased_over_new_columns(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("load"), rows_of(4))
    da.delete(session.fork("clean"), "id = 1")
    add_columns(log, [NewColumn(name="note", data_type="string")])
    with pytest.raises(SessionConflictError, match="changed the schema"):
        session.commit()
    with pytest.raises(SessionConflictError, match="columns or properties") as raised:
        session.rebase()
    session.rebase(drop_steps=raised.value.steps)
    session.commit()
    assert ids_of(log) == [1, 2, 3, 4]
    assert da.to_table(log).column_names == ["id", "note"]


def test_appends_are_not_rebased_over_a_constraint_that_was_not_checked(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("load"), rows_of(-4))
    add_constraint(log, "positive", "id > 0", engine=ARROW)
    with pytest.raises(SessionConflictError, match="CHECK constraint positive"):
        session.rebase()
    session.rebase(drop_steps=["load"])
    with pytest.raises(InvalidRequestError, match="positive"):
        da.write(session.fork("load"), rows_of(-4))


def test_a_committed_or_abandoned_session_is_not_rebased(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4))
    session.commit()
    with pytest.raises(SessionEndedError, match="was committed as version 3"):
        session.rebase()
    other = begin_session(log)
    other.abandon()
    with pytest.raises(SessionEndedError, match="was abandoned"):
        other.rebase()


# --- tokens -----------------------------------------------------------------------------------


def test_a_token_holds_no_secret(tmp_path: Path) -> None:
    made(tmp_path / "t", 1)
    log = DeltaLog(tmp_path / "t")
    token = json.loads(begin_session(log).token)
    assert set(token) == {"format", "session", "table_id", "base_version", "expires_ms"}


@pytest.mark.parametrize(
    "text", ["{}", '{"format":1}', '{"\ud800'], ids=["no fields", "one field", "a surrogate"]
)
def test_a_damaged_token_is_rejected(log: DeltaLog, text: str) -> None:
    with pytest.raises(SessionTokenError, match="the token of a session was damaged"):
        open_session(log, text)


@pytest.mark.parametrize(
    "text",
    ["", "x", "[1]", "\ud800", "é"],
    ids=["empty", "text", "a list", "a surrogate", "not ASCII"],
)
def test_other_text_than_a_token_or_an_id_is_rejected(log: DeltaLog, text: str) -> None:
    with pytest.raises(SessionTokenError, match="neither the token of a session nor its id"):
        open_session(log, text)


@pytest.mark.parametrize("begin", [begin_session, lambda log: join_session(log, "nightly")])
def test_a_session_of_a_branch_or_a_session_is_rejected(log: DeltaLog, begin: Any) -> None:
    create_branch(log, "audit")
    for handle in (open_branch(log, "audit"), begin_session(log).fork()):
        with pytest.raises(InvalidRequestError, match="begin it on the table itself"):
            begin(handle)


@pytest.mark.parametrize("version", [-1, 3])
def test_a_dependency_on_a_version_that_does_not_exist_is_rejected(
    log: DeltaLog, version: int
) -> None:
    session = begin_session(log)
    with pytest.raises(InvalidRequestError, match=f"version {version}, and the latest .* is 2"):
        session.commit(depends_on={log: version})
    assert session.status().state == "open"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session", "../../x"),
        ("base_version", -1),
        ("expires_ms", "soon"),
        ("format", 0),
        ("table_id", None),
    ],
)
def test_a_token_with_a_changed_field_is_rejected(log: DeltaLog, field: str, value: Any) -> None:
    token = {**json.loads(begin_session(log).token), field: value}
    with pytest.raises(SessionTokenError):
        open_session(log, json.dumps(token))


def test_a_token_of_a_later_format_is_rejected(log: DeltaLog) -> None:
    token = {**json.loads(begin_session(log).token), "format": 2}
    with pytest.raises(SessionTokenError, match="format 2, which this version"):
        open_session(log, json.dumps(token))


def test_a_foreign_token_is_rejected(log: DeltaLog, tmp_path: Path) -> None:
    other = made(tmp_path / "other", 1)
    with pytest.raises(SessionTokenError, match="session of another table"):
        open_session(other, begin_session(log).token)


def test_an_expired_token_is_rejected(log: DeltaLog) -> None:
    session = begin_session(log, expires_in=timedelta(hours=1))
    late = lambda: system_clock() + 2 * 3_600_000  # noqa: E731
    with pytest.raises(SessionEndedError, match="has expired"):
        open_session(log, session.token, clock=late)
    expired = open_session(log, session.id, clock=late)
    for act in (lambda: expired.fork("a"), expired.commit, expired.rebase):
        with pytest.raises(SessionEndedError, match="has expired"):
            act()
    expired.abandon()
    assert list_sessions(log) == []


def test_an_unknown_id_is_rejected(log: DeltaLog) -> None:
    with pytest.raises(VersionNotFoundError, match="there is no such session"):
        open_session(log, "00000000-0000-4000-8000-000000000000")
    with pytest.raises(VersionNotFoundError, match="there is no such session"):
        log.snapshot(ref="session:00000000-0000-4000-8000-000000000000")


def test_a_session_is_pickled(log: DeltaLog) -> None:
    session: WriteSession = pickle.loads(pickle.dumps(begin_session(log)))
    fork: DeltaLog = pickle.loads(pickle.dumps(session.fork("a")))
    da.write(fork, rows_of(4))
    session.snapshot()
    pickle.loads(pickle.dumps(session)).commit()
    assert ids_of(log) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("life", "message"),
    [
        (timedelta(0), "at least 1 minute"),
        (timedelta(seconds=59), "at least 1 minute"),
        (timedelta(days=8), "at most 7 days"),
        (timedelta(days=7), "safe from vacuums of other engines for at most 6 days"),
    ],
)
def test_the_lifetime_is_limited(log: DeltaLog, life: timedelta, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        begin_session(log, expires_in=life)
    assert list_sessions(log) == []


def test_a_longer_lifetime_can_be_forced_up_to_seven_days(log: DeltaLog) -> None:
    session = begin_session(log, expires_in=timedelta(days=7), enforce_retention=False)
    (entry,) = list_sessions(log)
    assert entry.expires_ms - entry.created_ms == 7 * DAY_MS
    assert (entry.id, session.ref) == (session.id, f"session:{session.id}")


# --- what a session does not take -------------------------------------------------------------


def test_a_session_takes_rows_only(log: DeltaLog) -> None:
    session = begin_session(log)
    changes: list[Callable[[DeltaLog], object]] = [
        lambda fork: add_columns(fork, [NewColumn(name="note", data_type="string")]),
        lambda fork: set_properties(fork, {"delta.appendOnly": "true"}),
        lambda fork: da.write(fork, pa.table({"id": [9], "x": [1]}), merge_schema=True),
    ]
    for change in changes:
        with pytest.raises(InvalidRequestError, match="a session takes rows only"):
            change(session.fork("a"))
    assert ids_of(session.snapshot()) == [1, 2, 3]


@pytest.mark.parametrize(
    "act",
    [vacuum, clean_up_log],
    ids=["vacuum", "clean up"],
)
def test_maintenance_of_a_fork_is_rejected(
    log: DeltaLog, act: Callable[[DeltaLog], object]
) -> None:
    fork = begin_session(log).fork("a")
    da.write(fork, rows_of(4))
    with pytest.raises(InvalidRequestError, match="nothing was deleted"):
        act(fork)


def test_row_tracking_excludes_sessions(tmp_path: Path) -> None:
    log = made(tmp_path / "t", 1, **{"delta.enableRowTracking": "true"})
    with pytest.raises(InvalidRequestError, match="cannot have branches or sessions"):
        begin_session(log)


def test_appends_of_several_steps_are_committed_to_a_change_feed(tmp_path: Path) -> None:
    log = made(tmp_path / "t", 1, 2, **FEED)
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(3))
    da.write(session.fork("b"), rows_of(4))
    session.commit()
    assert sorted(da.read_changes(log, 2).read_all()["id"].to_pylist()) == [3, 4]


def test_what_a_change_feed_cannot_show_leaves_the_session_open(tmp_path: Path) -> None:
    da.write(tmp_path / "t", rows_of(1, 2), configuration=FEED)
    session = begin_session(tmp_path / "t")
    steps = session.fork("a"), session.fork("b")
    da.write(steps[0], rows_of(3))
    da.delete(steps[1], "id = 1")
    with pytest.raises(InvalidRequestError, match="the session has 2 commits that change files"):
        session.commit()
    session.fork("a")
    session.commit()
    assert ids_of(tmp_path / "t") == [2]


@pytest.mark.full
def test_in_commit_timestamps_are_those_of_the_commit(tmp_path: Path) -> None:
    log = made(tmp_path / "t", 1, **{"delta.enableInCommitTimestamps": "true"})
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(2))
    da.delete(session.fork("b"), "id = 1")
    session.commit()
    times = [commit.in_commit_timestamp or 0 for commit in log.commits(0)]
    assert times[0] < times[1]
    assert ids_of(log) == [2]


def test_statistics_are_not_described_in_a_session(log: DeltaLog) -> None:
    fork = begin_session(log).fork("a")
    result = backfill_statistics(fork)
    assert result.version is None


# --- protection and clean-up ------------------------------------------------------------------


NOW: dict[str, Any] = {"retention": timedelta(0), "enforce_retention": False}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Rows 1 and 2 at version 1, and 3 at version 2, whose old files may be deleted."""
    return overwritten(tmp_path / "t")


def write(table: Table, log: DeltaLog, *ids: int, **options: Any) -> None:
    da.write(log, pa.table({"id": pa.array(ids, pa.int64()), "p": ["b"] * len(ids)}), **options)
    table.date()


def test_vacuum_and_clean_up_keep_what_a_session_needs(table: Table) -> None:
    session = begin_session(table.log, clock=table.clock)
    write(table, session.fork("a"), 4)
    write(table, session.fork("b"), 5, mode="overwrite")
    table.write([6], mode="overwrite")
    create_checkpoint(table.log)
    table.pass_time(days=0.9)
    table.date()
    before = table.data_files()
    vacuum(table.log, clock=lambda: table.now_ms + DAY_MS // 2, **NOW)
    clean_up_log(table.log, clock=lambda: table.now_ms + 90 * DAY_MS)
    assert ids_of(session.snapshot()) == [5]
    assert ids_of(table.log.snapshot(2)) == [3]
    assert len(before - table.data_files()) <= 2  # of version 1


def test_a_session_that_has_expired_is_ended_by_a_vacuum_and_its_files_go(table: Table) -> None:
    live = table.data_files()
    session = begin_session(table.log, clock=table.clock)
    fork = session.fork("a")
    write(table, fork, 4)
    table.pass_time(days=1.5)
    assert vacuum(table.log, clock=table.clock).expired_sessions == ()
    table.pass_time(days=1)
    assert vacuum(table.log, clock=table.clock).expired_sessions == (session.id,)
    assert list_sessions(table.log) == []
    with pytest.raises(SessionEndedError, match="has expired"):
        write(table, fork, 5)
    table.date()
    table.pass_time(days=9)
    vacuum(table.log, clock=table.clock)
    assert table.data_files() < live
    assert not any(path.startswith("_delta_ops/sessions/") for path in table.files())


def test_a_dry_run_of_a_vacuum_ends_no_session(table: Table) -> None:
    begin_session(table.log, clock=table.clock)
    table.pass_time(days=5)
    vacuum(table.log, clock=table.clock, dry_run=True)
    assert len(list_sessions(table.log)) == 1


def test_an_old_vacuum_keeps_a_session_whose_commit_has_no_outcome(table: Table) -> None:
    session = begin_session(table.log, clock=table.clock)
    write(table, session.fork("a"), 4)
    state = session._state()  # a committer that was killed after its decision
    state.decide_end("commit", table.clock)
    table.date()
    table.pass_time(days=40)
    assert vacuum(table.log, clock=table.clock).expired_sessions == ()
    with pytest.raises(TableBusyError, match="Repeat commit"):
        session.abandon()
    with pytest.raises(TableBusyError, match="Repeat commit"):
        session.rebase()
    assert open_session(table.log, session.id).commit().steps == ("a",)
    assert ids_of(table.log) == [3, 4]


def test_a_killed_commit_can_be_abandoned_by_force(table: Table) -> None:
    session = begin_session(table.log, clock=table.clock)
    write(table, session.fork("a"), 4)
    session._state().decide_end("commit", table.clock)
    session.abandon(committer_was_killed=True)
    with pytest.raises(SessionEndedError, match="was abandoned"):
        session.commit()
    assert ids_of(table.log) == [3]


def test_a_committed_session_is_not_abandoned(log: DeltaLog) -> None:
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4))
    session.commit()
    with pytest.raises(SessionEndedError, match="was committed as version 3"):
        session.abandon()
    other = begin_session(log)
    other.abandon()
    other.abandon()


def test_a_table_with_a_session_is_not_dropped(log: DeltaLog) -> None:
    session = begin_session(log)
    with pytest.raises(InvalidRequestError, match="sessions that have not ended"):
        drop_table(log, "t")
    session.abandon()
    drop_table(log, "t")


def test_a_session_of_a_table_that_was_replaced_is_not_committed(tmp_path: Path) -> None:
    import shutil

    log = made(tmp_path / "t", 1)
    session = begin_session(log)
    da.write(session.fork("a"), rows_of(4))
    shutil.rmtree(tmp_path / "t" / "_delta_log")
    made(tmp_path / "t", 7)
    with pytest.raises(DeltaOpsError, match="the current table has the id"):
        session.commit()
    assert ids_of(log) == [7]
    session.abandon()
