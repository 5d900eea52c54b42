"""A merge by Spark whose step fails behind the commit, and is run again in the same session."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_ops import DeltaLog
from tests.orchestration.killed_reruns import BETWEEN, IN_PROCESS
from tests.spark.killed_merges import MERGES, merge_in_this_session
from tests.spark.test_killed_merges import IN_PLACE, codes, kill_and_run_again, make_tables
from tests.support.instances import new_instance

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_a_merge_that_failed_after_its_commit_is_not_done_twice(tmp_path: Path) -> None:
    make_tables(tmp_path, IN_PLACE)
    with new_instance() as instance:
        kill_and_run_again(
            instance,
            tmp_path,
            "re-execute from failure",
            BETWEEN,
            executor=IN_PROCESS,
            job=merge_in_this_session,
        )
    assert codes(tmp_path, "merge") == {"a.csv": "first", "b.csv": "made"}
    assert codes(tmp_path, "merge_by_clauses") == {"a.csv": "made first", "b.csv": "made"}
    assert [DeltaLog(tmp_path / way).snapshot().version for way in MERGES] == [1, 1]
