"""A merge by Spark whose step fails after the commit, and runs again in the same session."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from delta_ops import DeltaLog
from tests.orchestration.killed_reruns import BETWEEN, IN_PROCESS
from tests.spark.killed_merges import merge_by_clauses_here
from tests.spark.test_killed_merges import IN_PLACE, codes, kill_and_run_again, make_tables

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_a_merge_that_failed_after_its_commit_is_not_done_twice(tmp_path: Path) -> None:
    make_tables(tmp_path, IN_PLACE)
    with dg.DagsterInstance.ephemeral() as instance:
        kill_and_run_again(
            instance,
            tmp_path,
            "re-execute from failure",
            BETWEEN,
            executor=IN_PROCESS,
            job=merge_by_clauses_here,
        )
    assert codes(tmp_path, "merge_by_clauses") == {"a.csv": "made first", "b.csv": "made"}
    assert DeltaLog(tmp_path / "merge_by_clauses").snapshot().version == 1
