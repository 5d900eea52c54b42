"""`health` and `maintain`: their output, and their exit codes for schedulers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.cli.main import cli
from tests.maintenance.restored_tables import commit

ROWS = pa.table({"id": [1]})


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def printed(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def table(root: Path, *, files: int = 1) -> Path:
    for _ in range(files):
        da.write(root, ROWS)
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy table, and a table with small files."""
    root = tmp_path_factory.mktemp("made")
    table(root / "well")
    table(root / "zone" / "busy", files=4)
    return root


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "lake"))


SMALL = ("--threshold", "small_files=2")
LONG = ("--threshold", "promised_time_travel_ms=8 days")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(("health", "lake/well"), 0, id="all is well"),
        pytest.param(("health", "lake", *SMALL), 3, id="a table has something due"),
        pytest.param(("health", "lake", "nowhere", *SMALL), 1, id="a table is none"),
        pytest.param(("health",), 2, id="no table is named"),
        pytest.param(("health", "lake", "--threshold", "x=1"), 2, id="no such threshold"),
        pytest.param(("health", "lake", "--threshold", "small_files=a"), 2, id="no number"),
        pytest.param(("health", "lake", "--threshold", "small_files=-1"), 2, id="a negative one"),
        pytest.param(("health", "lake", "--threshold", "stats_coverage=2"), 2, id="beyond all"),
        pytest.param(("maintain", "lake/well"), 0, id="nothing to maintain"),
        pytest.param(("maintain", "lake", *SMALL), 3, id="something was done"),
        pytest.param(("maintain", "lake", "--dry-run", *SMALL), 3, id="something would be done"),
        pytest.param(("maintain", "lake", "nowhere", *SMALL), 1, id="a table failed"),
        pytest.param(("maintain", "lake", *SMALL, *LONG), 4, id="something is left"),
        pytest.param(("maintain", "lake/well", *LONG), 4, id="nothing but what is left"),
        pytest.param(("maintain", "lake", "nowhere", *LONG), 1, id="left, and failed"),
    ],
)
def test_exit_codes(
    lake: Path, arguments: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake.parent)
    assert run(*arguments).exit_code == code


def test_health_of_a_table_is_its_findings(lake: Path) -> None:
    lines = run("health", lake / "well").stdout.splitlines()
    assert lines[0].split("\t") == ["measure", "value", "threshold", "verdict", "advice"]
    assert lines[1].split("\t") == ["small_files", "0", "10", "ok", ""]
    assert lines[-1] == f"{lake / 'well'}, version 0: ok."


def test_health_of_a_prefix_is_a_row_for_each_table(lake: Path) -> None:
    lines = run("health", lake, *SMALL).stdout.splitlines()
    rows = {line.split("\t")[0]: line.split("\t") for line in lines[1:-1]}
    assert rows[str(lake / "well")][1] == "ok"
    assert rows[str(lake / "zone" / "busy")][1] == "due"
    assert rows[str(lake / "zone" / "busy")][5] == "small_files 4"
    assert lines[-1] == "2 tables, 0 failed."


def test_a_broken_table_is_a_row_among_the_others(lake: Path) -> None:
    (lake / "zone" / "busy" / "_delta_log" / f"{1:020d}.json").unlink()
    result = run("health", lake)
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if "failed\t" in line]
    assert [line.split("\t")[0] for line in lines] == [str(lake / "zone" / "busy")]
    assert "version 1 is missing" in lines[0]
    assert f"{lake / 'well'}\tok" in result.stdout


def test_json_is_an_object_for_each_table(lake: Path) -> None:
    rows = printed(run("health", lake, lake.parent / "nowhere", "--json"))
    well, busy, absent = rows
    assert [row["verdict"] for row in rows] == ["ok", "ok", "failed"]
    assert well["failure"] is busy["failure"] is None
    assert busy["figures"]["num_files"] == 4
    assert absent["failure"]["kind"] == "TableNotFoundError"
    assert "or in a folder below" in absent["failure"]["message"]


def test_maintain_reports_found_planned_done_skipped_and_saved(lake: Path) -> None:
    dry = printed(run("maintain", lake, "--dry-run", "--json", *SMALL))
    assert [row["planned"] for row in dry] == [[], ["optimize"]]
    assert [row["done"] for row in dry] == [None, None]
    assert dry[1]["planned_figures"]["compaction_files_planned"] == 4
    assert DeltaLog(lake / "zone" / "busy").snapshot().num_files == 4
    well, busy = printed(run("maintain", lake, "--json", *SMALL))
    assert (well["planned"], well["done"], well["skipped"]) == ([], None, [])
    assert busy["done"]["compacted_files"] == 4
    assert busy["saved"]["live_files"] == 3
    assert {f["measure"]: f["value"] for f in busy["found"]}["small_files"] == 4
    assert DeltaLog(lake / "zone" / "busy").snapshot().num_files == 1
    assert run("maintain", lake, *SMALL).exit_code == 0


def test_maintain_shows_a_row_for_each_table(lake: Path) -> None:
    lines = run("maintain", lake, *SMALL).stdout.splitlines()
    rows = {line.split("\t")[0]: line.split("\t") for line in lines[1:-1]}
    assert rows[str(lake / "well")][2] == "nothing was due"
    assert rows[str(lake / "zone" / "busy")][1] == "optimize"
    assert rows[str(lake / "zone" / "busy")][2].startswith("Compacted 4 files (")


def test_maintain_reports_what_it_leaves(lake: Path) -> None:
    lines = run("maintain", lake / "well", *LONG).stdout.splitlines()
    reported = dict(zip(lines[0].split("\t"), lines[1].split("\t"), strict=True))
    assert reported["done or failed"] == "nothing was due"
    assert reported["left to do"].startswith(
        "promised_time_travel: raise delta.logRetentionDuration"
    )
    (row,) = printed(run("maintain", lake / "well", "--json", *LONG))
    assert row["left"] == [reported["left to do"]]


def test_maintain_says_that_a_file_that_is_gone_is_left(tmp_path: Path) -> None:
    log = DeltaLog(table(tmp_path))
    (add,) = log.snapshot().add_files()
    commit(log, replace(add, stats=None, data_change=False))
    (tmp_path / add.path).unlink()
    result = run("maintain", tmp_path)
    row = result.stdout.splitlines()[1].split("\t")
    assert (row[1], row[2], result.exit_code) == ("repair", "nothing could be done", 4)
    assert row[5].startswith("data files are missing (1)")


def test_a_threshold_of_time_may_be_an_interval(lake: Path) -> None:
    for text, code in (("7 days", 0), ("8 days", 3), ("604800000", 0)):
        data = f"promised_time_travel_ms={text}"
        assert run("health", lake / "well", "--threshold", data).exit_code == code


def test_a_table_that_is_named_twice_is_looked_at_once(lake: Path) -> None:
    assert len(printed(run("health", lake, lake / "well", lake, "--json"))) == 2


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    options = ["endpoint_url=http://127.0.0.1:9", "secret=hunter2", "key=me"]
    options += ['config_kwargs={"retries":{"max_attempts":0},"connect_timeout":1}']
    data = [part for option in options for part in ("--storage-option", option)]
    for command in ("health", "maintain"):
        result = run(command, "s3://me:hunter2@bucket/lake", *data, "--json")
        assert result.exit_code == 1
        assert "hunter2" not in result.output


def test_schedulers_that_know_success_and_failure_only_get_a_count(lake: Path) -> None:
    done = run("maintain", lake, *SMALL, "--exit-zero", "--dry-run")
    counts = json.loads(done.stdout.splitlines()[-1])
    assert (done.exit_code, counts["failed"], counts["dry_run"]) == (0, 0, True)
    assert counts["tables"] > counts["done"] > 0
    looked = run("health", lake, *SMALL, "--exit-zero", "--json")
    last = json.loads(looked.stdout.splitlines()[-1])
    assert looked.exit_code == 0
    assert last["tables"] == last["ok"] + last["due"] + last["look"]
    broken = lake / "broken/_delta_log/00000000000000000000.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{nonsense")
    failed = run("maintain", lake, *SMALL, "--exit-zero", "--dry-run")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout.splitlines()[-1])["failed"] == 1
