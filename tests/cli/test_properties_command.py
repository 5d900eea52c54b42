"""`delta-ops properties` shows the effective values, and changes them in one commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import CommitInfo
from tests.cli.test_commands import output, run
from tests.support.tables import rows_by_deltalake


@pytest.fixture
def table(tmp_path: Path) -> Path:
    da.write(tmp_path, pa.table({"id": [1]}), configuration={"delta.checkpointInterval": "5"})
    return tmp_path


def shown(table: Path, *more: str) -> dict[str, dict[str, Any]]:
    found = output("properties", table, *more)
    return {each["name"]: each for each in found["properties"]}


def test_properties_are_shown_with_the_engines_that_respect_them(table: Path) -> None:
    found = shown(table)
    assert found["delta.checkpointInterval"] == {
        "name": "delta.checkpointInterval",
        "value": "5",
        "origin": "set",
        "acts_in": "every commit, maintenance",
        "meaning": "Number of commits between checkpoints.",
        "problem": None,
    }
    assert found["delta.logRetentionDuration"]["origin"] == "default"
    text = run("properties", table).stdout
    assert "delta.checkpointInterval\t5\tset\tevery commit, maintenance\n" in text
    assert "delta.randomPrefixLength" not in text
    assert "delta.randomPrefixLength" in run("properties", table, "--all").stdout


def test_properties_are_set_and_unset_in_one_commit(table: Path) -> None:
    requested = ("--set", "delta.appendOnly=true", "--set", "owner=a=b")
    result = run("properties", table, *requested, "--unset", "delta.checkpointInterval")
    assert result.stdout == "Version 1 changes the properties.\n"
    snapshot = DeltaLog(table).snapshot()
    assert dict(snapshot.metadata.configuration) == {"delta.appendOnly": "true", "owner": "a=b"}
    entry = next(DeltaLog(table).history())
    assert entry.operation == "SET TBLPROPERTIES"
    assert entry.operation_parameters == {
        "properties": '{"delta.appendOnly":"true","owner":"a=b","delta.checkpointInterval":null}'
    }
    assert rows_by_deltalake(table) == [{"id": 1}]


def test_unset_alone_is_named_as_the_reference_does(table: Path) -> None:
    assert run("properties", table, "--unset", "delta.checkpointInterval").exit_code == 0
    entry = next(DeltaLog(table).history())
    assert entry.operation == "UNSET TBLPROPERTIES"
    assert entry.operation_parameters == {
        "properties": '["delta.checkpointInterval"]',
        "ifExists": True,
    }


def test_a_change_without_effect_is_not_committed(table: Path) -> None:
    result = output("properties", table, "--set", "delta.checkpointInterval=5")
    assert (result["version"], result["committed_version"]) == (0, None)
    printed = run("properties", table, "--unset", "owner").stdout
    assert printed == "The properties already have these values; nothing to do.\n"


def test_a_misspelt_property_cannot_be_unset(table: Path) -> None:
    result = run("properties", table, "--unset", "delta.checkpointIntervall")
    assert result.exit_code == 1
    assert "no table property delta.checkpointIntervall; the closest name is" in result.stderr


def test_a_dry_run_changes_nothing_and_refuses_what_would_be_refused(table: Path) -> None:
    assert run("properties", table, "--set", "owner=me", "--dry-run").exit_code == 0
    refused = run("properties", table, "--set", "delta.appendOnly=maybe", "--dry-run")
    assert (refused.exit_code, DeltaLog(table).snapshot().version) == (1, 0)
    assert "true or false" in refused.stderr


def test_a_property_cannot_be_set_twice(table: Path) -> None:
    result = run("properties", table, "--set", "owner=me", "--unset", "owner")
    assert result.exit_code == 2
    assert "twice" in result.stderr


def test_unknown_properties_are_kept_and_have_no_effect(table: Path) -> None:
    log = DeltaLog(table)
    wrong = {"delta.strange": "1", "delta.checkpointInterval": "maybe"}
    strange = replace(log.snapshot().metadata, configuration=wrong)
    create_commit(log.storage, log.log_directory, 1, [CommitInfo(values={}), strange])
    found = shown(table)
    assert found["delta.strange"]["origin"] == "unused"
    assert "number" in found["delta.checkpointInterval"]["problem"]
    text = run("properties", table).stdout
    assert "delta.strange\t1\tkept without effect\t\n" in text
    assert "Table property delta.checkpointInterval is 'maybe'" in text
    # Invalid values can be corrected.
    assert run("properties", table, "--set", "delta.checkpointInterval=3").exit_code == 0
    assert shown(table)["delta.strange"]["value"] == "1"
