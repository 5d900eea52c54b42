"""Steps killed around a commit, and run again in every possible way.

`docs/reruns.md` has the same table.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.orchestration import killed_reruns
from tests.orchestration.killed_reruns import AFTER, BEFORE, BETWEEN, IN_PROCESS, IN_PROCESSES, WAYS
from tests.support.tables import rows_by_deltalake

NO_TAGS: Mapping[str, str] = {}
KEPT, AGAIN, BOTH, JOINED = ["first"], ["second"], ["first", "second"], ["first second"]
COLUMNS = ("append", "overwrite", "source", "partition")
AFTERWARDS = {
    # rerun: rows of these ways after a kill between commit and event, and after a kill after the
    # event
    "op retry": ([KEPT, KEPT, KEPT, KEPT], [KEPT, KEPT, KEPT, KEPT]),
    "run retry": ([KEPT, KEPT, KEPT, KEPT], [KEPT, KEPT, KEPT, KEPT]),
    "re-execute from failure": ([KEPT, KEPT, KEPT, KEPT], [KEPT, AGAIN, KEPT, AGAIN]),
    "re-execute all": ([KEPT, KEPT, KEPT, KEPT], [KEPT, AGAIN, KEPT, AGAIN]),
    "backfill retry": ([KEPT, KEPT, KEPT, AGAIN], [KEPT, AGAIN, KEPT, AGAIN]),
    "new manual run": ([BOTH, AGAIN, KEPT, AGAIN], [BOTH, AGAIN, KEPT, AGAIN]),
}


def rows_afterwards(of_columns: Sequence[Sequence[str]]) -> dict[str, Sequence[str]]:
    """The result of each way: merges end like the other modes, as the docs say."""
    rows = dict(zip(COLUMNS, of_columns, strict=True))
    by_clauses = JOINED if rows["append"] == BOTH else rows["append"]
    return {**rows, "merge": rows["overwrite"], "merge_by_clauses": by_clauses}


CELLS = [
    pytest.param(rerun, point, rows, id=f"{rerun}, killed {point}")
    for rerun, (between, after) in AFTERWARDS.items()
    for point, rows in ((BEFORE, [AGAIN] * 4), (BETWEEN, between), (AFTER, after))
]
LIKE_A_FIRST_RUN = [(rerun, BEFORE) for rerun in AFTERWARDS if "retry" not in rerun]
CELLS_OF_PROCESSES = [
    # The commit exists and Dagster has no event for it: the riskiest case.
    pytest.param(*cell, id=name, marks=pytest.mark.full if BETWEEN in cell else pytest.mark.long)
    for cell, _, name in CELLS
]


def execute(
    instance: dg.DagsterInstance,
    lake: Path,
    code: str,
    *,
    executor: Mapping[str, Any],
    kill_at: str = "",
    again: dg.ReexecutionOptions | None = None,
    job: Callable[[], dg.JobDefinition] = killed_reruns.write_all,
    tags: Mapping[str, str] = NO_TAGS,
) -> tuple[str, bool]:
    """Run the job; return the run id and whether it succeeded."""
    with dg.execute_job(
        dg.reconstructable(job),
        instance=instance,
        run_config={
            "execution": {"config": executor},
            "resources": {"io_manager": {"config": {"root": str(lake)}}},
        },
        tags={"test/lake": str(lake), "test/code": code, "test/kill_at": kill_at, **tags},
        reexecution_options=again,
    ) as result:
        return result.run_id, result.success


def run_again(
    rerun: str,
    instance: dg.DagsterInstance,
    lake: Path,
    killed_id: str,
    executor: Mapping[str, Any],
) -> bool:
    """Whether the rerun of a killed run succeeds."""
    again, tags = None, NO_TAGS
    match rerun:
        case "run retry":
            again, tags = dg.ReexecutionOptions(killed_id), {"dagster/retry_number": "1"}
        case "re-execute from failure":
            again = dg.ReexecutionOptions.from_failure(killed_id, instance)
        case "re-execute all":
            again = dg.ReexecutionOptions(killed_id)
        case "backfill retry":
            tags = {
                "dagster/backfill": "later",
                "dagster/parent_backfill_id": "earlier",
                "dagster/root_backfill_id": "earlier",
            }
    return execute(instance, lake, "second", again=again, tags=tags, executor=executor)[1]


def check_cell(
    rerun: str,
    point: str,
    rows: Sequence[Sequence[str]],
    instance: dg.DagsterInstance,
    lake: Path,
    executor: Mapping[str, Any],
) -> None:
    """Kill each way to write once, run it again, and compare its table."""
    if rerun == "op retry":
        job = killed_reruns.write_all_with_retries
        assert execute(instance, lake, "first", kill_at=point, job=job, executor=executor)[1]
    else:
        tags = {"dagster/backfill": "earlier"} if rerun == "backfill retry" else NO_TAGS
        killed_id, succeeded = execute(
            instance, lake, "first", kill_at=point, tags=tags, executor=executor
        )
        assert not succeeded
        assert run_again(rerun, instance, lake, killed_id, executor)
    assert all((lake / f"{way}.killed").exists() for way in WAYS)
    found = [sorted(r["code"] for r in rows_by_deltalake(lake / way)) for way in WAYS]
    assert dict(zip(WAYS, found, strict=True)) == rows_afterwards(rows)
    for way in WAYS:
        event = instance.get_latest_materialization_event(dg.AssetKey(way))
        assert event is not None


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("rerun", "point", "rows"),
    [
        # Before a commit, reruns of any kind write like a first run.
        pytest.param(*cell, id=name, marks=pytest.mark.full if cell[:2] in LIKE_A_FIRST_RUN else ())
        for cell, _, name in CELLS
    ],
)
def test_a_failed_step_that_is_run_again_leaves_the_rows_of_one(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    rerun: str,
    point: str,
    rows: Sequence[Sequence[str]],
) -> None:
    check_cell(rerun, point, rows, instance, tmp_path, IN_PROCESS)


@pytest.mark.parametrize(("rerun", "point", "rows"), CELLS_OF_PROCESSES)
def test_a_killed_step_that_is_run_again_leaves_the_rows_of_one(
    tmp_path: Path,
    instance_on_disk: dg.DagsterInstance,
    rerun: str,
    point: str,
    rows: Sequence[Sequence[str]],
) -> None:
    check_cell(rerun, point, rows, instance_on_disk, tmp_path, IN_PROCESSES)


def test_the_table_of_the_readme_says_what_reruns_leave() -> None:
    words = {
        "kept": (KEPT, KEPT),
        "kept; written again if its event was logged": (KEPT, AGAIN),
        "written again": (AGAIN, AGAIN),
        "added again": (BOTH, BOTH),
    }
    page = (Path(__file__).resolve().parents[2] / "docs" / "reruns.md").read_text()
    lines = [[c.strip() for c in line.split("|")[1:-1]] for line in page.splitlines()]
    written = {
        line[0]: tuple(map(list, zip(*(words[cell] for cell in line[1:]), strict=True)))
        for line in lines
        if line and line[0] in AFTERWARDS
    }
    assert written == AFTERWARDS
