"""Steps of the multiprocess executor killed at five named points of a write, then re-executed."""

from pathlib import Path

import dagster as dg
import pytest

from tests.spark import killed_steps
from tests.tables import by_deltalake

pytestmark = pytest.mark.spark

POINTS = ["WriteStarted", "DataFilesWritten", "Staged", "CommitAttempted", "Committed"]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_step_leaves_after_its_re_execution_the_rows_of_an_unharmed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv("LAKE", str(tmp_path))
    monkeypatch.setenv("KILL_AT", point)
    job = dg.reconstructable(killed_steps.write_lines)
    with dg.instance_for_test() as instance:
        with dg.execute_job(job, instance=instance) as killed:
            assert not killed.success
        assert (tmp_path / "killed").exists()
        again = dg.ReexecutionOptions.from_failure(killed.run_id, instance)
        with dg.execute_job(job, instance=instance, reexecution_options=again) as rerun:
            assert rerun.success
            materializations = instance.fetch_materializations(
                dg.AssetKey("lines"), limit=9
            ).records
    assert by_deltalake(tmp_path / "lines") == [{"x": x} for x in range(10)]
    (event,) = materializations
    assert event.asset_materialization is not None
    assert (event.asset_materialization.tags or {})["dagster/data_version"].endswith("@0")
