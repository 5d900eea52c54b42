"""A step of the multiprocess executor, killed at five named points of a write in turn."""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest

from tests.spark import killed_steps
from tests.support.instances import new_instance
from tests.support.tables import rows_by_deltalake

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(killed_steps.POINTS[-1:], id="after the commit", marks=pytest.mark.full),
        pytest.param(killed_steps.POINTS, id="every point", marks=pytest.mark.long),
    ],
)
def test_a_step_that_is_killed_leaves_in_the_end_the_rows_of_an_unharmed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: Sequence[str]
) -> None:
    monkeypatch.setenv("LAKE", str(tmp_path))
    monkeypatch.setenv("KILL_AT", " ".join(points))
    check_kills(tmp_path, points)


def check_kills(lake: Path, points: Sequence[str]) -> None:
    """Execute the job and, after each kill, execute it again."""
    job = dg.reconstructable(killed_steps.write_lines)
    again: dg.ReexecutionOptions | None = None
    with new_instance() as instance:
        for point in points:
            with dg.execute_job(job, instance=instance, reexecution_options=again) as killed:
                assert not killed.success
            assert (lake / point).exists()
            again = dg.ReexecutionOptions.from_failure(killed.run_id, instance)
        with dg.execute_job(job, instance=instance, reexecution_options=again) as rerun:
            assert rerun.success
            materializations = instance.fetch_materializations(
                dg.AssetKey("lines"), limit=9
            ).records
    assert rows_by_deltalake(lake / "lines") == [{"x": x} for x in range(10)]
    (event,) = materializations
    assert event.asset_materialization is not None
    assert (event.asset_materialization.tags or {})["dagster/data_version"].endswith("@0")
