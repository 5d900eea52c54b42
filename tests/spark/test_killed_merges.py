"""Merges by Spark in steps of the multiprocess executor, killed around their commit and run again.

`docs/reruns.md` has the results: a merge by keys only ends like an overwrite, others like an
append.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.orchestration.killed_reruns import AFTER, BEFORE, BETWEEN
from tests.orchestration.test_killed_reruns import AFTERWARDS, COLUMNS, execute
from tests.spark.killed_merges import MERGES, ONE_BY_ONE, merge_all
from tests.support.instances import new_instance
from tests.support.tables import rows_by_deltalake

pytestmark = [pytest.mark.spark, pytest.mark.long]

IN_PLACE: Mapping[str, str] = {}
BY_VECTORS = {"delta.enableDeletionVectors": "true"}
POINTS = (BEFORE, BETWEEN, AFTER)
RERUNS = ("re-execute from failure", "re-execute all", "new manual run")


def make_tables(lake: Path, configuration: Mapping[str, str]) -> None:
    rows = pa.table({"file": ["a.csv", "b.csv"], "code": ["made", "made"]})
    for way in MERGES:
        da.write(lake / way, rows, configuration=configuration)


def codes(lake: Path, way: str) -> dict[str, str]:
    by_vectors = DeltaLog(lake / way).snapshot().definition.has("deletionVectors")
    # deltalake reads none of these tables.
    path = lake / way
    rows = da.to_table(path).to_pylist() if by_vectors else rows_by_deltalake(path)
    found = {row["file"]: row["code"] for row in rows}
    assert len(rows) == len(found)
    return found


def codes_afterwards(rerun: str, point: str) -> dict[str, str]:
    """The final value of the merged row, from the cells of that table."""
    if point == BEFORE:
        return {"merge": "second", "merge_by_clauses": "made second"}
    between, after = AFTERWARDS[rerun]
    cells = dict(zip(COLUMNS, between if point == BETWEEN else after, strict=True))
    return {
        "merge": " ".join(cells["overwrite"]),
        "merge_by_clauses": " ".join(["made", *cells["append"]]),
    }


def kill_and_run_again(
    instance: dg.DagsterInstance,
    lake: Path,
    rerun: str,
    point: str,
    *,
    executor: Mapping[str, Any] = ONE_BY_ONE,
    job: Callable[[], dg.JobDefinition] = merge_all,
) -> None:
    run = partial(execute, instance, lake, executor=executor, job=job)
    killed_id, succeeded = run("first", kill_at=point)
    assert not succeeded
    again: dg.ReexecutionOptions | None = None
    match rerun:
        case "re-execute from failure":
            again = dg.ReexecutionOptions.from_failure(killed_id, instance)
        case "re-execute all":
            again = dg.ReexecutionOptions(killed_id)
    assert run("second", again=again)[1]


# All pairs: each point with each kind of rerun, and each way to change rows with both.
@pytest.mark.parametrize(
    ("point", "rerun", "by_vectors"),
    [
        (point, rerun, number % 2 == 1)
        for number, (point, rerun) in enumerate(itertools.product(POINTS, RERUNS))
    ],
)
def test_a_killed_merge_that_is_run_again_leaves_what_the_readme_says(
    tmp_path: Path, point: str, rerun: str, by_vectors: bool
) -> None:
    make_tables(tmp_path, BY_VECTORS if by_vectors else IN_PLACE)
    with new_instance() as instance:
        kill_and_run_again(instance, tmp_path, rerun, point)
        for way in MERGES:
            assert (tmp_path / f"{way}.killed").exists()
            assert instance.get_latest_materialization_event(dg.AssetKey(way)) is not None
    expected = codes_afterwards(rerun, point)
    for way in MERGES:
        assert codes(tmp_path, way) == {"a.csv": expected[way], "b.csv": "made"}
