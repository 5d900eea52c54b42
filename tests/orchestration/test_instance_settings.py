"""The instance settings in our docs are valid settings of Dagster."""

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.instance.config import dagster_instance_config
from dagster._core.scheduler.instigation import TickStatus

PROJECT = Path(__file__).resolve().parents[2]
SETTINGS = (PROJECT / "examples" / "dagster.yaml").read_text()
PRODUCTION = (PROJECT / "docs" / "production.md").read_text()
(PRODUCTION_SETTINGS,) = re.findall(r"^```yaml\n(.*?)^```", PRODUCTION, re.MULTILINE | re.DOTALL)


def without_postgres(text: str) -> str:
    """The settings for an instance on files: Postgres has separate tests."""
    return re.sub(r"^storage:\n(?: .*\n)*", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("text", [SETTINGS, PRODUCTION_SETTINGS], ids=["one machine", "several"])
def test_an_instance_takes_the_settings(tmp_path: Path, text: str) -> None:
    (tmp_path / "dagster.yaml").write_text(text)
    config: Any = dagster_instance_config(str(tmp_path))[0]
    assert ("storage" in config) == ("postgres" in text)
    (tmp_path / "dagster.yaml").write_text(without_postgres(text))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        assert queue.max_concurrent_runs == config["concurrency"]["runs"]["max_concurrent_runs"]
        assert {
            "key": "delta_ops/table",
            "limit": 1,
            "value": {"applyLimitPerUniqueValue": True},
        } in (queue.tag_concurrency_limits or [])
        assert instance.run_monitoring_enabled
        assert instance.run_retries_enabled
        assert not instance.run_retries_retry_on_asset_or_op_failure
        assert instance.get_tick_retention_settings(InstigatorType.SENSOR)[TickStatus.SUCCESS] == 7


def test_a_setting_that_dagster_does_not_know_would_be_found(tmp_path: Path) -> None:
    text = PRODUCTION_SETTINGS.replace("hostname:", "host:")
    assert text != PRODUCTION_SETTINGS
    (tmp_path / "dagster.yaml").write_text(text)
    with pytest.raises(dg.DagsterInvalidConfigError):
        dagster_instance_config(str(tmp_path))
