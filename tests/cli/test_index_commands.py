"""The command `index`, and indexes in `health` and `maintain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops.cli.main import cli
from delta_ops.maintenance import HealthThresholds, health, list_indexes, maintain, refresh_indexes


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for number in range(9):
        da.write(tmp_path, pa.table({"id": [0, number + 1, 100], "text": ["a", "b", "c"]}))
    return tmp_path


def run(*arguments: Any) -> str:
    result = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_an_index_is_created_shown_refreshed_and_dropped(table: Path) -> None:
    assert run("index", table, "show") == "The table has no indexes.\n"
    assert run("index", table, "create", "ids", "id", "--dry-run").startswith("Would index 9 files")
    assert run("index", table, "create", "ids", "id") == "Indexed 9 files, 27 entries.\n"
    da.write(table, pa.table({"id": [5]}))
    shown = run("index", table, "show").splitlines()
    assert shown[1].split("\t")[:5] == ["ids", "id", "9 of 10", "2.45", "1"]
    (found,) = json.loads(run("index", table, "show", "--json"))["indexes"]
    assert (found["coverage"], found["num_entries"], found["problems"]) == (0.9, 27, [])
    assert found["selectivity"] == pytest.approx(0.245, abs=0.001)
    assert "index ids" in run("plan", table, "--where", "id = 5")
    refreshed = json.loads(run("index", table, "refresh", "ids", "--verify", "--json"))
    assert (refreshed["indexed_files"], refreshed["left_files"]) == (1, 0)
    assert run("index", table, "drop", "ids", "--dry-run").startswith("Would drop index ids")
    assert run("index", table, "drop", "ids").startswith("Dropped index ids")
    assert list_indexes(table) == []


def test_a_budget_leaves_files_for_the_next_refresh(table: Path) -> None:
    text = run("index", table, "create", "ids", "id", "--budget", "1B")
    assert text == "Indexed 1 file, 3 entries.\n8 files wait for the next refresh.\n"


def test_a_mistake_ends_with_one_sentence(table: Path) -> None:
    result = CliRunner().invoke(cli, ["index", str(table), "create", "ids", "nowhere"])
    assert result.exit_code == 1
    assert "nowhere" in result.output
    assert len(result.output.splitlines()) == 1


@pytest.mark.full
def test_maintenance_refreshes_indexes_that_miss_many_files(table: Path) -> None:
    run("index", table, "create", "ids", "id")
    run("index", table, "create", "texts", "text")
    thresholds = HealthThresholds(unindexed_files=2)
    assert "refresh_indexes" not in health(table, thresholds=thresholds).operations
    for _ in range(2):
        da.write(table, pa.table({"id": [5], "text": ["d"]}))
    report = health(table, thresholds=thresholds)
    assert "refresh_indexes" in report.operations
    assert [each.covered_files for each in report.figures.indexes] == [9, 9]
    (finding,) = [each for each in report.findings if each.measure == "unindexed_files"]
    assert (finding.value, finding.verdict) == (2, "due")
    planned = maintain(table, operations=["refresh_indexes"], dry_run=True)
    assert planned.planned["index_files_planned"] == 4
    result = maintain(table, operations=["refresh_indexes"])
    assert result.figures["indexed_files"] == 4
    assert "refresh_indexes" not in health(table, thresholds=thresholds).operations


def test_an_index_that_cannot_be_read_is_left_to_a_person(table: Path) -> None:
    run("index", table, "create", "ids", "id")
    log = table / "_delta_ops" / "indexes" / "ids" / "_delta_log"
    for each in log.iterdir():
        each.write_text("{]")
    result = refresh_indexes(table)
    assert result.indexes == ()
    (problem,) = result.problems
    assert problem.startswith("Index ids cannot be read")
    assert problem.endswith("drop it and create it again.")
    report = health(table, thresholds=HealthThresholds(unindexed_files=1))
    assert "refresh_indexes" not in report.operations
    assert problem in run("index", table, "show")
