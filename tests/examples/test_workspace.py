"""The checkout as a code location: `dg` and `dagster -w workspace.yaml` show the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def printed(home: Path, *command: str) -> str:
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [str(program), *command[1:]],
        cwd=PROJECT,
        env={**os.environ, "DAGSTER_HOME": str(home), "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.long
def test_dg_shows_what_the_workspace_has(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    by_dg = json.loads(printed(tmp_path, "dg", "list", "defs", "--json"))
    jobs = re.findall(
        r"^Job: (\w+)", printed(tmp_path, "dagster", "job", "list", "-w", "workspace.yaml"), re.M
    )
    assert sorted(each["name"] for each in by_dg["jobs"]) == sorted(set(jobs) - {"__ASSET_JOB"})
    kinds = ("sensor", "schedule")
    listed = {
        kind: printed(tmp_path, "dagster", kind, "list", "-w", "workspace.yaml") for kind in kinds
    }
    for kind, text in listed.items():
        names = re.findall(rf"^{kind.title()}: (\w+)", text, re.M)
        assert sorted(each["name"] for each in by_dg[f"{kind}s"]) == sorted(names)
    assert {"delta_maintenance", "ingest_flights"} <= set(jobs)
