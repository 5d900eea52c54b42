"""Reruns with little information from Dagster: deleted runs, and repeated backfills."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager, SourcePart
from delta_ops.orchestration.dagster_versions import VERSION
from tests.support.tables import rows_by_deltalake

FAILS_BEFORE, FAILS_AFTER, SUCCEEDS = "fails before its commit", "fails after it", "succeeds"


PARTS = dg.StaticPartitionsDefinition(["a", "b"])


def lines(
    outcomes: Iterator[str], partitions_def: dg.PartitionsDefinition[Any] | None = None
) -> dg.AssetsDefinition:
    """An asset that appends a row."""

    @dg.multi_asset(
        outs={"log_lines": dg.AssetOut(metadata={"delta/mode": "append"})},
        partitions_def=partitions_def,
    )
    def log_lines() -> Iterator[dg.Output[pa.Table]]:
        outcome = next(outcomes)
        if outcome == FAILS_BEFORE:
            raise RuntimeError(outcome)
        yield dg.Output(pa.table({"x": [1]}), output_name="log_lines")
        if outcome == FAILS_AFTER:
            raise RuntimeError(outcome)

    return log_lines


def state(outcomes: Iterator[str]) -> dg.AssetsDefinition:
    """An asset that overwrites its table, unless a newer run has."""

    @dg.multi_asset(outs={"state": dg.AssetOut(metadata={"delta/idempotency": "partition"})})
    def state() -> Iterator[dg.Output[pa.Table]]:
        outcome = next(outcomes)
        if outcome == FAILS_BEFORE:
            raise RuntimeError(outcome)
        yield dg.Output(pa.table({"says": [outcome]}), output_name="state")
        if outcome == FAILS_AFTER:
            raise RuntimeError(outcome)

    return state


def job_of(asset: dg.AssetsDefinition, lake: Path) -> dg.JobDefinition:
    resources = {"io_manager": DeltaIOManager(root=str(lake))}
    return dg.Definitions(
        assets=[asset], resources=resources
    ).resolve_implicit_global_asset_job_def()


def execute(
    job: dg.JobDefinition, instance: dg.DagsterInstance, again: Sequence[str] = ()
) -> dg.ExecuteInProcessResult:
    """Run the job, as a re-execution of the last run in `again`; the first run is the root run."""
    ids = {"dagster/root_run_id": again[0], "dagster/parent_run_id": again[-1]} if again else {}
    return job.execute_in_process(instance=instance, tags=ids, raise_on_error=False)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("outcomes", "deleted", "num_rows"),
    [
        pytest.param([FAILS_AFTER], {0}, 1, id="the run before"),
        pytest.param([FAILS_AFTER, FAILS_BEFORE], {1}, 1, id="one in the middle"),
        pytest.param([FAILS_AFTER, FAILS_BEFORE], {0}, 1, id="the root"),
        pytest.param(
            [FAILS_AFTER, FAILS_BEFORE], {0, 1}, 1, id="all before", marks=pytest.mark.full
        ),
        pytest.param([FAILS_BEFORE, FAILS_AFTER], {1}, 1, id="one that did what the root was to"),
        pytest.param(
            [FAILS_BEFORE], {0}, 1, id="one that committed nothing", marks=pytest.mark.full
        ),
        pytest.param([SUCCEEDS, FAILS_AFTER], {1}, 2, id="a second that was wanted"),
        pytest.param([SUCCEEDS, FAILS_BEFORE], {1}, 2, id="a second that committed nothing"),
        pytest.param(
            [SUCCEEDS, FAILS_AFTER, FAILS_BEFORE], {2}, 2, id="one that continued a second"
        ),
        pytest.param(
            [SUCCEEDS, FAILS_AFTER, FAILS_BEFORE],
            {1, 2},
            2,
            id="a second and what continued it",
            marks=pytest.mark.full,
        ),
        pytest.param(
            [SUCCEEDS, FAILS_AFTER, FAILS_BEFORE], {0, 1, 2}, 2, id="all, the root did well"
        ),
        pytest.param([SUCCEEDS, FAILS_BEFORE], {0}, 1, id="a root that may have failed"),
    ],
)
def test_a_deleted_run_does_not_double_an_append(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    outcomes: list[str],
    deleted: set[int],
    num_rows: int,
) -> None:
    job = job_of(lines(iter([*outcomes, FAILS_AFTER, SUCCEEDS])), tmp_path)
    runs: list[str] = []
    for _ in outcomes:
        runs.append(execute(job, instance, runs).run_id)
    for number in deleted:
        instance.delete_run(runs[number])
    runs.append(execute(job, instance, runs).run_id)
    assert len(rows_by_deltalake(tmp_path / "log_lines")) == num_rows
    assert execute(job, instance, runs).success
    assert len(rows_by_deltalake(tmp_path / "log_lines")) == num_rows


def test_a_run_that_is_deleted_while_it_retries_does_not_append_twice(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata={"delta/mode": "append"}, retry_policy=dg.RetryPolicy(max_retries=1))
    def log_lines(context: dg.AssetExecutionContext) -> Iterator[dg.Output[pa.Table]]:
        yield dg.Output(pa.table({"x": [1]}))
        if context.retry_number == 0:
            context.instance.delete_run(context.run.run_id)
            raise dg.RetryRequested(max_retries=1)

    resources = {"io_manager": DeltaIOManager(root=str(tmp_path))}
    dg.materialize([log_lines], instance=instance, resources=resources, raise_on_error=False)
    assert rows_by_deltalake(tmp_path / "log_lines") == [{"x": 1}]


@dg.multi_asset(outs={"numbers": dg.AssetOut(metadata={"delta/mode": "append"})})
def numbers(context: dg.AssetExecutionContext) -> Iterator[dg.Output[pa.Table]]:
    """An append that fails after its commit, and deletes the failed run when it is continued."""
    parent_id = context.run.parent_run_id
    if parent_id is not None:
        context.instance.delete_run(parent_id)
    yield dg.Output(pa.table({"x": [1]}), output_name="numbers")
    if parent_id is None:
        raise RuntimeError(FAILS_AFTER)


def numbers_job() -> dg.JobDefinition:
    return dg.Definitions(
        assets=[numbers],
        resources={"io_manager": DeltaIOManager(root=os.environ["LAKE"])},
        jobs=[dg.define_asset_job("numbers_job", executor_def=dg.in_process_executor)],
    ).resolve_job_def("numbers_job")


def test_a_run_that_is_deleted_during_its_re_execution_from_failure_does_not_double_an_append(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE", str(tmp_path))
    job = dg.build_reconstructable_job(__name__, "numbers_job")
    failed = dg.execute_job(job, instance=instance)
    assert not failed.success
    from_failure = dg.ReexecutionOptions.from_failure(failed.run_id, instance)
    assert dg.execute_job(job, instance=instance, reexecution_options=from_failure).success
    assert rows_by_deltalake(tmp_path / "numbers") == [{"x": 1}]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("outcomes", "newer", "shown", "succeeds"),
    [
        pytest.param([FAILS_BEFORE], False, SUCCEEDS, True, id="nobody has written since"),
        pytest.param([FAILS_BEFORE], True, "newer", False, id="a newer run has written since"),
        pytest.param(
            [FAILS_AFTER],
            False,
            FAILS_AFTER,
            False,
            id="it may have been a newer run",
            marks=pytest.mark.skipif(
                VERSION < (1, 11), reason="a run gets the number and second of a deleted run"
            ),
        ),
    ],
)
def test_whether_a_newer_run_has_overtaken_a_deleted_one_is_not_guessed(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    outcomes: list[str],
    newer: bool,
    shown: str,
    succeeds: bool,
) -> None:
    job = job_of(state(iter([*outcomes, *(["newer"] if newer else []), SUCCEEDS])), tmp_path)
    first = execute(job, instance).run_id
    if newer:
        assert execute(job, instance).success
    instance.delete_run(first)
    last = execute(job, instance, [first])
    assert last.success is succeeds
    assert rows_by_deltalake(tmp_path / "state") == [{"says": shown}]
    failures = [event for event in last.all_events if event.is_step_failure]
    for failure in failures:
        assert "whose record was deleted" in str(failure.step_failure_data.error)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("outcomes", "deleted", "num_rows"),
    [
        pytest.param([FAILS_AFTER], set(), 1, id="a run that failed"),
        pytest.param([FAILS_AFTER], {0}, 1, id="a run that failed and was deleted"),
        pytest.param([FAILS_AFTER, FAILS_BEFORE], {1}, 1, id="a backfill between"),
        pytest.param([FAILS_BEFORE], {0}, 1, id="a run that committed nothing"),
        pytest.param([SUCCEEDS], set(), 2, id="a run that succeeded"),
    ],
)
def test_a_backfill_that_is_run_again_does_not_double_what_a_failed_run_appended(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    outcomes: list[str],
    deleted: set[int],
    num_rows: int,
) -> None:
    asset = lines(iter([*outcomes, SUCCEEDS, SUCCEEDS]), PARTS)
    job = job_of(asset, tmp_path)
    for number in range(len(outcomes) + 1):
        again = {
            "dagster/parent_backfill_id": f"backfill-{number - 1}",
            "dagster/root_backfill_id": "backfill-0",
        }
        tags = {"dagster/backfill": f"backfill-{number}", **(again if number else {})}
        run = job.execute_in_process(
            instance=instance,
            partition_key="a",
            asset_selection=[asset.key],
            tags=tags,
            raise_on_error=False,
        )
        if number in deleted:
            instance.delete_run(run.run_id)
    assert run.success
    assert len(rows_by_deltalake(tmp_path / "log_lines")) == num_rows
    other = job.execute_in_process(instance=instance, partition_key="b", tags=tags)
    assert other.success
    assert len(rows_by_deltalake(tmp_path / "log_lines")) == num_rows + 1


AGAIN = {"dagster/retry_number": "1"}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("metadata", "reruns", "expected"),
    [
        pytest.param({}, [{}], [1], id="an overwrite whose event was logged is written again"),
        pytest.param({}, [AGAIN], [0], id="a retry of Dagster is the same attempt"),
        pytest.param({}, [AGAIN, {}], [2], id="what is wanted again after a retry is written"),
        pytest.param({}, [AGAIN, AGAIN], [2], id="a mark that was inherited is none"),
        pytest.param({}, [{}, AGAIN], [1], id="a retry of what was wanted again is the same"),
        pytest.param({}, [{"delta_ops/idempotency": "adopt"}], [0], id="adopt keeps an overwrite"),
        pytest.param({"delta/idempotency": "partition"}, [{}], [1], id="so it is by partition"),
        pytest.param(
            {"delta/idempotency": "partition"}, [AGAIN], [0], id="a retry by partition is the same"
        ),
        pytest.param({"delta/mode": "append"}, [{}], [0], id="an append is kept"),
        pytest.param(
            {"delta/mode": "append"},
            [{"delta_ops/idempotency": "force"}],
            [0, 1],
            id="force appends again",
        ),
        pytest.param(
            {"delta/mode": "append"},
            [
                {"delta_ops/idempotency": "force"},
                {"delta_ops/idempotency": "force", "dagster/is_resume_retry": "true"},
            ],
            [0, 1],
            id="a retry that inherits force appends nothing",
        ),
        pytest.param(
            {"delta/mode": "append"},
            [{"delta_ops/idempotency": "force", "dagster/is_resume_retry": "true"}],
            [0, 1],
            id="force of a retry itself appends again",
        ),
        pytest.param({"delta/idempotency": "source"}, [{}], [0], id="a source is kept"),
        pytest.param(
            {"delta/idempotency": "source"},
            [{"delta_ops/idempotency": "force"}],
            [0, 1],
            id="force reads a source again",
        ),
        pytest.param(
            {"delta/idempotency": "source"},
            [
                {"delta_ops/idempotency": "force"},
                {"delta_ops/idempotency": "force", "dagster/is_resume_retry": "true"},
            ],
            [0, 1],
            id="once for a run and its retries",
        ),
    ],
)
def test_re_execution_after_a_logged_event(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    metadata: dict[str, str],
    reruns: list[dict[str, str]],
    expected: list[int],
) -> None:
    attempts = iter(range(9))

    @dg.multi_asset(outs={"t": dg.AssetOut(metadata=metadata)})
    def t() -> Iterator[dg.Output[Any]]:
        rows = pa.table({"attempt": [next(attempts)]})
        is_source = metadata.get("delta/idempotency") == "source"
        part = SourcePart(data=rows, source="a", position=1)
        yield dg.Output([part] if is_source else rows, output_name="t")
        raise RuntimeError(FAILS_AFTER)

    job = job_of(t, tmp_path)
    runs = [job.execute_in_process(instance=instance, raise_on_error=False).run_id]
    for tags in reruns:
        ids = {"dagster/root_run_id": runs[0], "dagster/parent_run_id": runs[-1]}
        rerun = job.execute_in_process(
            instance=instance, tags={**ids, **tags}, raise_on_error=False
        )
        runs.append(rerun.run_id)
    assert sorted(row["attempt"] for row in rows_by_deltalake(tmp_path / "t")) == expected


def test_adopt_keeps_the_append_of_a_run_that_succeeded(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    job = job_of(lines(iter([SUCCEEDS, SUCCEEDS])), tmp_path)
    first = execute(job, instance).run_id
    ids = {"dagster/root_run_id": first, "dagster/parent_run_id": first}
    tags = {**ids, "delta_ops/idempotency": "adopt"}
    assert job.execute_in_process(instance=instance, tags=tags).success
    assert len(rows_by_deltalake(tmp_path / "log_lines")) == 1


def test_an_unknown_wish_is_refused_before_anything_is_written(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    job = job_of(lines(iter([SUCCEEDS])), tmp_path)
    with pytest.raises(InvalidRequestError, match=r"choose force .* or adopt"):
        job.execute_in_process(instance=instance, tags={"delta_ops/idempotency": "forced"})
    assert not (tmp_path / "log_lines").exists()


def test_an_overwrite_whose_run_was_deleted_is_written_again(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    attempts = iter(range(9))

    @dg.multi_asset(outs={"t": dg.AssetOut()})
    def t() -> Iterator[dg.Output[pa.Table]]:
        yield dg.Output(pa.table({"attempt": [next(attempts)]}), output_name="t")
        raise RuntimeError(FAILS_AFTER)

    job = job_of(t, tmp_path)
    first = execute(job, instance).run_id
    instance.delete_run(first)
    execute(job, instance, [first])
    assert rows_by_deltalake(tmp_path / "t") == [{"attempt": 1}]
