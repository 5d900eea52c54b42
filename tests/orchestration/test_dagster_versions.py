"""Versions of Dagster: what is refused, in one sentence that names the version needed."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from delta_ops.errors import MissingDependencyError
from delta_ops.orchestration import dagster_versions
from delta_ops.orchestration.dagster_compat import created_ms
from delta_ops.orchestration.dagster_versions import (
    COMPONENTS,
    OLDEST,
    job_owners,
    require_dagster,
    version_of,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.10.0", (1, 10, 0)),
        ("1.12.3.dev1", (1, 12, 3)),
        ("1.13rc1", (1, 13, 0)),
        ("1!0", (0, 0, 0)),
    ],
)
def test_a_version_is_read_from_its_text(text: str, version: tuple[int, ...]) -> None:
    assert version_of(text) == version


def test_an_old_dagster_is_refused_in_one_sentence() -> None:
    with pytest.raises(
        MissingDependencyError,
        match=r"^delta_ops.orchestration needs Dagster 1\.10 or later, and Dagster 1\.9\.13 is",
    ):
        require_dagster(OLDEST, "delta_ops.orchestration", "1.9.13")


def test_the_import_on_an_old_dagster_ends_with_this_sentence(tmp_path: Path) -> None:
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "__init__.py").write_text('__version__ = "1.8.0"\n')
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", "import delta_ops.orchestration"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stderr.splitlines()[-1].startswith(
        "delta_ops.errors.MissingDependencyError: delta_ops.orchestration needs Dagster 1.10 or "
    )


def test_components_are_refused_by_name_before_1_12() -> None:
    require_dagster(COMPONENTS, "delta_ops.components", "1.12.0")
    with pytest.raises(MissingDependencyError, match=r"delta_ops.components needs .* 1\.12"):
        require_dagster(COMPONENTS, "delta_ops.components", "1.11.9")


def test_owners_of_a_job_are_never_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert job_owners([]) == {}
    monkeypatch.setattr(dagster_versions.require_dagster, "__defaults__", ("1.11.2",))
    assert job_owners([]) == {}
    with pytest.raises(MissingDependencyError, match=r"owner of a maintenance job needs .*1\.12"):
        job_owners(["team:data"])


@pytest.mark.parametrize(
    ("micros", "later_ms"),
    [pytest.param(0, 7, id="whole seconds"), pytest.param(5000, 0, id="parts of seconds")],
)
def test_runs_of_one_second_have_an_order_even_if_only_seconds_are_stored(
    micros: int, later_ms: int
) -> None:
    second = datetime(2026, 1, 31, tzinfo=UTC)
    created = second.replace(microsecond=micros)
    record = dg.RunRecord(7, dg.DagsterRun(job_name="a"), created, created)
    assert created_ms(record) == int(created.timestamp() * 1000) + later_ms
