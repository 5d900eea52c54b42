"""Sessions in a graph: ops stage rows, and one op commits them."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log.history.history import HistoryEntry
from delta_ops.maintenance import vacuum
from delta_ops.orchestration import DeltaLogResource, DeltaSessionResource, StagedStep
from delta_ops.versioning import list_sessions, open_session
from tests.orchestration import session_jobs
from tests.orchestration.session_jobs import (
    AFTER_COMMIT,
    AFTER_ROWS,
    BEFORE_COMMIT,
    BEFORE_ROWS,
    WITHIN_COMMIT,
)
from tests.support.tables import rows_by_deltalake

IN_PROCESS: dict[str, Any] = {"in_process": {}}
IN_PROCESSES: dict[str, Any] = {
    "multiprocess": {
        "max_concurrent": 2,
        "start_method": {"forkserver": {"preload_modules": [session_jobs.__name__]}},
    }
}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


class Load:
    """Runs of a job that loads orders in parts, over a table that has row 0."""

    def __init__(self, lake: Path, instance: dg.DagsterInstance) -> None:
        da.write(lake / "orders", rows_of(0))
        self.lake, self.instance, self.log = lake, instance, DeltaLog(lake / "orders")

    def run(
        self,
        fail_at: str = "",
        *,
        failures: int = 2,
        parts: int = 3,
        again: dg.ReexecutionOptions | None = None,
        job: Callable[[], dg.JobDefinition] = session_jobs.load_orders,
        executor: dict[str, Any] = IN_PROCESS,
        tags: dict[str, str] | None = None,
    ) -> dg.JobExecutionResult:
        given = {
            "test/lake": str(self.lake),
            "test/fail_at": fail_at,
            "test/failures": str(failures),
            "test/parts": str(parts),
        }
        config = {
            "execution": {"config": executor},
            "resources": {"lake": {"config": {"root": str(self.lake)}}},
        }
        return dg.execute_job(
            dg.reconstructable(job),
            self.instance,
            run_config=config if again is None else None,
            tags=given | (tags or {}),
            reexecution_options=again,
        )

    def run_rest(self, failed: dg.JobExecutionResult, fail_at: str = "") -> dg.JobExecutionResult:
        again = dg.ReexecutionOptions.from_failure(failed.run_id, self.instance)
        return self.run(fail_at, failures=4, again=again)

    def run_all(self, failed: dg.JobExecutionResult) -> dg.JobExecutionResult:
        return self.run(again=dg.ReexecutionOptions(failed.run_id))

    def failure(self, result: dg.JobExecutionResult) -> str:
        (entry,) = self.instance.all_logs(result.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
        data = entry.get_dagster_event().step_failure_data
        return f"{data.user_failure_data and data.user_failure_data.description} {data.error}"

    @property
    def newest(self) -> HistoryEntry:
        (entry,) = self.log.history(1)
        return entry

    @property
    def ids(self) -> list[int]:
        return sorted(row["id"] for row in rows_by_deltalake(self.lake / "orders"))


@pytest.fixture
def loading(tmp_path: Path, instance_on_disk: dg.DagsterInstance) -> Load:
    return Load(tmp_path, instance_on_disk)


@pytest.mark.full
def test_the_rows_of_all_ops_become_one_commit(loading: Load) -> None:
    result = loading.run()
    assert result.success
    assert loading.ids == [0, 1, 2, 3]
    entry = loading.newest
    assert (entry.version, entry.operation) == (1, "COMMIT SESSION")
    assert entry.operation_parameters["numSteps"] == 3
    assert f'"dagster/run_id":"{result.run_id}"' in str(entry.user_metadata)
    assert list_sessions(loading.log) == []


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param(IN_PROCESS, marks=pytest.mark.full, id="a process"),
        pytest.param(IN_PROCESSES, marks=pytest.mark.long, id="processes"),
    ],
)
def test_a_hundred_ops_commit_once(loading: Load, executor: dict[str, Any]) -> None:
    assert loading.run(parts=100, executor=executor).success
    assert loading.ids == list(range(101))
    assert loading.log.snapshot().version == 1


@pytest.mark.full
@pytest.mark.parametrize("executor", [IN_PROCESS, IN_PROCESSES], ids=["a process", "processes"])
@pytest.mark.parametrize("point", [BEFORE_ROWS, AFTER_ROWS, BEFORE_COMMIT, AFTER_COMMIT])
def test_a_retried_op_does_not_double_its_rows(
    loading: Load, point: str, executor: dict[str, Any]
) -> None:
    assert loading.run(point, failures=1, executor=executor).success
    assert loading.ids == [0, 1, 2, 3]
    assert loading.log.snapshot().version == 1


@pytest.mark.parametrize(
    "executor",
    [IN_PROCESS, pytest.param(IN_PROCESSES, marks=pytest.mark.full)],
    ids=["a process", "processes"],
)
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(BEFORE_ROWS, marks=pytest.mark.full),
        AFTER_ROWS,
        pytest.param(BEFORE_COMMIT, marks=pytest.mark.full),
    ],
)
def test_a_failed_run_changes_nothing_and_its_rest_completes_its_session(
    loading: Load, point: str, executor: dict[str, Any]
) -> None:
    failed = loading.run(point, executor=executor)
    assert not failed.success
    assert (loading.ids, loading.log.snapshot().version) == ([0], 0)
    (session,) = list_sessions(loading.log)
    da.write(loading.log, rows_of(9))
    assert loading.run_rest(failed).success
    assert loading.ids == [0, 1, 2, 3, 9]
    entry = loading.newest
    assert entry.operation_parameters["sessionId"] == session.id


@pytest.mark.full
def test_the_rest_of_a_rest_completes_the_session_of_the_first_run(loading: Load) -> None:
    first = loading.run(AFTER_ROWS)
    (session,) = list_sessions(loading.log)
    second = loading.run_rest(first, AFTER_ROWS)
    assert not second.success
    assert loading.run_rest(second).success
    assert loading.ids == [0, 1, 2, 3]
    assert loading.newest.operation_parameters["sessionId"] == session.id


@pytest.mark.full
def test_a_repetition_of_all_steps_has_a_session_of_its_own(loading: Load) -> None:
    failed = loading.run(AFTER_ROWS)
    (session,) = list_sessions(loading.log)
    assert loading.run_all(failed).success
    assert loading.ids == [0, 1, 2, 3]
    assert [each.id for each in list_sessions(loading.log)] == [session.id]


@pytest.mark.full
@pytest.mark.parametrize("again", [Load.run_rest, Load.run_all], ids=["the rest", "all steps"])
def test_a_run_that_failed_after_its_commit_is_not_committed_again(
    loading: Load, again: Callable[[Load, dg.JobExecutionResult], dg.JobExecutionResult]
) -> None:
    failed = loading.run(AFTER_COMMIT)
    assert not failed.success
    assert loading.ids == [0, 1, 2, 3]
    assert again(loading, failed).success
    assert (loading.ids, loading.log.snapshot().version) == ([0, 1, 2, 3], 1)
    assert list_sessions(loading.log) == []


@pytest.mark.full
@pytest.mark.parametrize(
    "executor",
    [IN_PROCESS, pytest.param(IN_PROCESSES, marks=pytest.mark.long)],
    ids=["a process", "processes"],
)
@pytest.mark.parametrize("point", WITHIN_COMMIT)
def test_a_commit_that_was_killed_is_finished_by_the_next_attempt(
    loading: Load, point: str, executor: dict[str, Any]
) -> None:
    assert loading.run(point, failures=1, executor=executor).success
    assert (loading.lake / f"{point} 0.failed").exists()
    assert (loading.ids, loading.log.snapshot().version) == ([0, 1, 2, 3], 1)
    assert list_sessions(loading.log) == []


@pytest.mark.full
def test_a_new_run_commits_again(loading: Load) -> None:
    loading.run()
    assert loading.run().success
    assert loading.ids == [0, 1, 1, 2, 2, 3, 3]


@pytest.mark.full
@pytest.mark.parametrize("is_cleaned", [False, True], ids=["abandoned", "cleaned up"])
def test_the_rest_of_a_run_whose_session_was_abandoned_commits_nothing(
    loading: Load, is_cleaned: bool
) -> None:
    failed = loading.run(AFTER_ROWS)
    (session,) = list_sessions(loading.log)
    open_session(loading.log, session.id).abandon()
    if is_cleaned:
        later = system_clock() + timedelta(days=60).total_seconds() * 1000
        vacuum(loading.log, clock=lambda: int(later))
    result = loading.run_rest(failed)
    assert not result.success
    text = loading.failure(result)
    assert "'load[part_1]', 'load[part_3]' are not in session" in text
    assert "re-execute all steps of the run" in text
    assert loading.ids == [0]


@pytest.mark.full
def test_an_attempt_that_has_begun_elsewhere_is_not_committed(loading: Load) -> None:
    failed = loading.run(BEFORE_COMMIT)
    (session,) = list_sessions(loading.log)
    da.write(open_session(loading.log, session.id).fork("load[part_1]"), rows_of(7))
    result = loading.run_rest(failed)
    assert not result.success
    assert "another attempt has begun" in loading.failure(result)
    assert loading.ids == [0]


def test_a_graph_asset_reports_the_version_of_the_commit(loading: Load) -> None:
    tags = {"dagster/partition": "monday"}
    result = loading.run(job=session_jobs.materialize_orders, tags=tags)
    assert result.success
    (entry,) = loading.instance.all_logs(
        result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    event = entry.asset_materialization
    assert event is not None
    assert (event.partition, event.metadata["delta/version"].value) == ("monday", 1)
    assert '"dagster/asset":"orders"' in str(loading.newest.user_metadata)


@pytest.mark.full
def test_ops_that_stage_no_rows_commit_nothing(loading: Load) -> None:
    assert loading.run(parts=0).success
    assert loading.log.snapshot().version == 0


@pytest.mark.full
def test_a_reproduction_stages_nothing(loading: Load) -> None:
    first = loading.run()
    result = loading.run(tags={"delta_ops/reproduce": first.run_id})
    assert not result.success
    assert loading.log.snapshot().version == 1


# --- within one op ----------------------------------------------------------------------------


def run_op(loading: Load, body: Callable[[dg.OpExecutionContext], Any]) -> bool:
    """Run a job with one op."""

    @dg.op
    def act(context: dg.OpExecutionContext) -> None:
        body(context)

    @dg.job
    def job() -> None:
        act()

    return job.execute_in_process(instance=loading.instance).success


def session_of(loading: Load, **fields: Any) -> DeltaSessionResource:
    lake = DeltaLogResource(root=str(loading.lake))
    return DeltaSessionResource(lake=lake, table="orders", **fields)


def test_a_conflict_with_the_table_says_what_to_run_again(loading: Load) -> None:
    def delete(context: dg.OpExecutionContext) -> None:
        session = session_of(loading)
        da.delete(session.fork(context), "id = 0")
        da.update(loading.log, {"id": "5"}, "id = 0")
        session.commit(context, [session.staged_step(context)])

    with pytest.raises(dg.Failure, match="re-execute all steps of the run"):
        run_op(loading, delete)
    assert loading.ids == [5]


@pytest.mark.full
def test_one_run_can_have_two_sessions(loading: Load) -> None:
    def write(context: dg.OpExecutionContext) -> None:
        one, two = session_of(loading), session_of(loading, name="late")
        da.write(one.fork(context), rows_of(1))
        da.write(two.fork(context), rows_of(2))
        for each in (one, two):
            each.commit(context, [each.staged_step(context)])

    assert run_op(loading, write)
    assert (loading.ids, loading.log.snapshot().version) == ([0, 1, 2], 2)


@pytest.mark.full
def test_another_program_writes_with_the_token(loading: Load) -> None:
    def write(context: dg.OpExecutionContext) -> None:
        session = session_of(loading)
        token = session.session(context).token
        da.write(open_session(loading.log, token).fork("script"), rows_of(1))
        session.fork(context)  # writes nothing
        session.commit(context, [session.staged_step(context), "script"])

    assert run_op(loading, write)
    assert loading.ids == [0, 1]


def test_rows_that_nobody_has_reported_are_not_committed(loading: Load) -> None:
    def write(context: dg.OpExecutionContext) -> None:
        session = session_of(loading)
        da.write(session.fork(context), rows_of(1))
        session.commit(context, [])

    with pytest.raises(InvalidRequestError, match="has rows of 'act', which were not expected"):
        run_op(loading, write)
    assert loading.ids == [0]


def test_an_op_reports_only_what_it_has_staged(loading: Load) -> None:
    with pytest.raises(InvalidRequestError, match="the op act has staged nothing"):
        run_op(loading, lambda context: session_of(loading).staged_step(context))


def test_an_op_without_a_run_has_no_session(loading: Load) -> None:
    with pytest.raises(InvalidRequestError, match="called without a run"):
        session_of(loading).fork(dg.build_op_context())
    staged = StagedStep("id", "load", 1)
    with pytest.raises(InvalidRequestError, match="called without a run"):
        session_of(loading).commit(dg.build_op_context(), [staged])


def test_fields_are_checked(tmp_path: Path) -> None:
    lake = DeltaLogResource(root=str(tmp_path))
    with pytest.raises(InvalidRequestError, match="has no field tabel"):
        DeltaSessionResource(lake=lake, tabel="orders")


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0.0001, "not for 0:00:00.360000: give a longer expires_in_hours"),
        (1000.0, "give a shorter expires_in_hours, or use a branch"),
        (167.0, "give expires_in_hours and enforce_retention=False"),
    ],
)
def test_a_wrong_lifetime_names_the_field(loading: Load, hours: float, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        run_op(loading, lambda context: session_of(loading, expires_in_hours=hours).fork(context))
