"""YAML components in Dagster's own daemon: the events that it records for tables."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from dagster import AssetKey
from deltalake import write_deltalake

from tests.components.dagster_project import make_project
from tests.orchestration.daemon_home import DaemonHome

SETTINGS = "telemetry:\n  enabled: false\nfreshness:\n  enabled: true\n"
ORDERS, RETURNS, ABSENT = AssetKey("orders"), AssetKey(["silver", "returns"]), AssetKey("absent")
IN_A_DAY = "{{ dg.FreshnessPolicy.time_window(fail_window=datetime.timedelta(hours=26)) }}"


def daily(*days: str) -> pa.Table:
    return pa.table({"day": [dt.date.fromisoformat(day) for day in days], "x": [1] * len(days)})


def write_defs(folder: Path, kind: str, attributes: dict[str, Any]) -> None:
    folder.mkdir()
    text = {"type": f"delta_ops.components.{kind}", "attributes": attributes}
    (folder / "defs.yaml").write_text(yaml.safe_dump(text))


@pytest.mark.long
def test_commits_of_others_become_events_of_components_partitions_and_freshness(
    tmp_path: Path,
) -> None:
    orders, returns = tmp_path / "orders", tmp_path / "lake" / "returns"
    write_deltalake(orders, daily("2026-01-01"), partition_by=["day"])
    write_deltalake(returns, daily("2026-01-01"))
    defs = make_project(tmp_path / "project")
    partitions = {"type": "daily", "start_date": "2026-01-01"}
    write_defs(
        defs / "orders",
        "DeltaTableComponent",
        {
            "uri": str(orders),
            "asset": {
                "key": "orders",
                "partitions_def": partitions,
                "metadata": {"partition_expr": "day"},
                "freshness_policy": IN_A_DAY,
            },
            "switched_on": True,
        },
    )
    write_defs(
        defs / "absent",
        "DeltaTableComponent",
        {
            "uri": str(tmp_path / "nobody wrote it"),
            "asset": {"key": "absent", "freshness_policy": IN_A_DAY},
            "switched_on": True,
        },
    )
    write_defs(
        defs / "silver",
        "DeltaLakeComponent",
        {"root": str(tmp_path / "lake"), "key_prefix": "silver", "switched_on": True},
    )
    home = DaemonHome(
        tmp_path / "home",
        "from my_lake.definitions import defs\n",
        SETTINGS,
        {
            "PYTHONPATH": f"{Path(__file__).parents[2]}:{tmp_path / 'project' / 'src'}",
            "FRESHNESS_DAEMON_INTERVAL_SECONDS": "1",
        },
    )
    subprocess.run(
        [Path(sys.executable).with_name("dg"), "utils", "refresh-defs-state"],
        cwd=tmp_path / "project",
        env=home.environment,
        check=True,
        capture_output=True,
    )
    with dg.DagsterInstance.from_config(str(home.root)) as instance, home.daemon():

        def reported(key: AssetKey) -> list[tuple[int, str]]:
            events = [
                record.asset_materialization
                for record in instance.fetch_materializations(key, limit=100).records
            ]
            return sorted(
                (int(str(e.metadata["delta/version"].value)), e.partition or "")
                for e in events
                if e
            )

        def freshness(key: AssetKey) -> str | None:
            record = instance.get_freshness_state_records([key]).get(key)
            return None if record is None else record.freshness_state.value

        home.wait_until(lambda: reported(ORDERS) == [(0, ""), (0, "2026-01-01")])
        home.wait_until(lambda: reported(RETURNS) == [(0, "")])
        write_deltalake(orders, daily("2026-01-02", "2026-01-03"), mode="append")
        write_deltalake(returns, daily("2026-01-02"), mode="append")
        home.wait_until(
            lambda: (
                reported(ORDERS)
                == [(0, ""), (0, "2026-01-01"), (1, "2026-01-02"), (1, "2026-01-03")]
            )
        )
        home.wait_until(lambda: reported(RETURNS) == [(0, ""), (1, "")])
        home.wait_until(lambda: freshness(ORDERS) == "PASS")
        assert freshness(ABSENT) == "UNKNOWN"
