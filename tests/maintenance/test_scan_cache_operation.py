"""The operation scan_cache, the hook that writes the cache again, and what health says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.cli.main import cli
from delta_ops.errors import InvalidRequestError
from delta_ops.log import plan_scan
from delta_ops.log.scan_cache.hint import HINT_PATH, PLANNING_DIRECTORY, load_cache_hint
from delta_ops.log.scan_cache_write.write import write_scan_cache
from delta_ops.maintenance import (
    HealthThresholds,
    create_checkpoint,
    create_scan_cache,
    health,
    maintain,
)
from delta_ops.maintenance.thresholds import ScanCacheFacts
from delta_ops.protocol.file_names import commit_name
from delta_ops.versioning import create_branch
from tests.support.servers.s3 import S3Server
from tests.support.tables import rows_by_deltalake, rows_by_polars

DAY_MS = 86_400_000


def write(root: Path, number: int, **properties: str) -> None:
    names = {f"delta_ops.{name}": value for name, value in properties.items()}
    rows = pa.table({"id": [number, number + 100], "p": ["a", "b"]})
    da.write(root, rows, partition_by=["p"], configuration=names or None)


def cached_version(root: Path) -> int | None:
    log = DeltaLog(root)
    hint = load_cache_hint(log.storage, log.log_directory)
    return None if hint is None else hint.version


def cache_files(root: Path) -> set[str]:
    return {path.name for path in (root / PLANNING_DIRECTORY).glob("*.parquet")}


def test_the_operation_caches_the_latest_version_once(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, number)
    planned = create_scan_cache(tmp_path, dry_run=True)
    assert (planned.plan.has_work, planned.plan.needs_checkpoint) == (True, True)
    assert planned.written is None
    assert not (tmp_path / PLANNING_DIRECTORY).exists()
    written = create_scan_cache(tmp_path).written
    assert written is not None
    assert (written.version, written.num_files) == (2, 6)
    assert DeltaLog(tmp_path).snapshot().commits_since_checkpoint == 0
    assert create_scan_cache(tmp_path).written is None
    assert not create_scan_cache(tmp_path).plan.has_work


def test_other_engines_read_a_table_that_has_a_cache(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, number)
    create_scan_cache(tmp_path)
    write(tmp_path, 3)
    expected = sorted(da.to_table(tmp_path)["id"].to_pylist())
    for rows in (rows_by_deltalake(tmp_path), rows_by_polars(tmp_path)):
        assert sorted(row["id"] for row in rows) == expected


@pytest.mark.full
def test_changes_by_deltalake_leave_plans_right(tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    for number in range(3):
        write(tmp_path, number)
    create_scan_cache(tmp_path)
    write_deltalake(tmp_path, pa.table({"id": [7, 8], "p": ["a", "b"]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    DeltaTable(tmp_path).optimize.compact()
    DeltaTable(tmp_path).delete("id = 7")
    DeltaTable(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert cache_files(tmp_path)
    assert sorted(da.to_table(tmp_path, predicate="p = 'a'")["id"].to_pylist()) == [0, 1, 2]
    assert sorted(da.to_table(tmp_path, predicate="id > 101")["id"].to_pylist()) == [102]


def test_unused_cache_files_are_deleted_a_day_later(tmp_path: Path) -> None:
    write(tmp_path, 0)
    create_scan_cache(tmp_path)
    (old,) = cache_files(tmp_path)
    write(tmp_path, 1)
    assert create_scan_cache(tmp_path).deleted_files == 0
    (new,) = cache_files(tmp_path) - {old}
    later_ms = DeltaLog(tmp_path).storage.stat(HINT_PATH).modified_ms + DAY_MS
    planned = create_scan_cache(tmp_path, clock=lambda: later_ms, dry_run=True)
    unused = [each.path.rpartition("/")[2] for each in planned.plan.unused]
    assert unused == [old, f"{old}.footer.zst"]
    assert create_scan_cache(tmp_path, clock=lambda: later_ms).deleted_files == 2
    assert cache_files(tmp_path) == {new}


def test_a_damaged_cache_is_written_again(tmp_path: Path) -> None:
    write(tmp_path, 0)
    create_scan_cache(tmp_path)
    (name,) = cache_files(tmp_path)
    path = tmp_path / PLANNING_DIRECTORY / name
    path.write_bytes(b"PAR1" + b"\0" * 100 + path.read_bytes()[104:])
    result = create_scan_cache(tmp_path)
    assert result.plan.problem == "its file is damaged"
    assert result.written is not None
    assert create_scan_cache(tmp_path).written is None


def test_the_terminal_says_that_a_cache_was_not_used(tmp_path: Path) -> None:
    write(tmp_path, 0)
    create_scan_cache(tmp_path)
    (name,) = cache_files(tmp_path)
    (tmp_path / PLANNING_DIRECTORY / f"{name}.footer.zst").unlink()
    for options in ([], ["--json"]):
        shown = CliRunner().invoke(cli, ["plan", str(tmp_path), "--where", "p = 'a'", *options])
        assert "The scan cache was not used" in " ".join(shown.output.split())


def test_the_operation_is_refused_where_reads_would_not_use_the_cache(tmp_path: Path) -> None:
    write(tmp_path, 0, scanCache="false")
    with pytest.raises(InvalidRequestError, match=r"delta_ops\.scanCache is false"):
        create_scan_cache(tmp_path)


def test_the_command_prints_its_figures(tmp_path: Path) -> None:
    write(tmp_path, 0)
    done = CliRunner().invoke(cli, ["scan-cache", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["written"], found["num_files"], found["version"]) == (True, 2, 0)
    shown = CliRunner().invoke(cli, ["scan-cache", str(tmp_path), "--dry-run"])
    assert shown.output == "Version 0 has its scan cache; nothing to do.\n"
    write(tmp_path, 1)
    shown = CliRunner().invoke(cli, ["scan-cache", str(tmp_path), "--dry-run"])
    assert "Would write the scan cache of version 1, and its checkpoint." in shown.output
    shown = CliRunner().invoke(cli, ["scan-cache", str(tmp_path)])
    assert "Wrote the scan cache of version 1: 4 live files" in shown.output


@pytest.mark.parametrize(
    ("facts", "is_due"),
    [
        pytest.param({}, False, id="a small table needs none"),
        pytest.param({"num_files": 10_000}, True, id="a large table needs one"),
        pytest.param({"num_files": 10_000, "is_wanted": False}, False, id="it is not wanted"),
        pytest.param({"is_wanted": True}, True, id="the property asks for it"),
        pytest.param({"exists": True, "age": 99}, False, id="a young one stays"),
        pytest.param({"exists": True, "age": 100}, True, id="an old one is renewed"),
        pytest.param({"exists": True, "problem": "x"}, True, id="an unusable one is renewed"),
    ],
)
def test_when_a_cache_is_due(facts: dict[str, Any], is_due: bool) -> None:
    usual = {"num_files": 5, "interval": 100, "is_wanted": None, "exists": False, "age": None}
    assert ScanCacheFacts(**{**usual, **facts}).is_due(min_files=10_000, max_age=100) is is_due


def test_maintain_writes_a_due_cache_and_health_says_when(tmp_path: Path) -> None:
    write(tmp_path, 0)
    limits = HealthThresholds(scan_cache_files=2)

    def finding() -> tuple[float, str, str]:
        findings = health(tmp_path, thresholds=limits).findings
        (found,) = [each for each in findings if each.measure == "commits_since_scan_cache"]
        assert isinstance(found.value, int)
        return found.value, found.verdict, found.advice

    value, verdict, advice = finding()
    assert (value, verdict) == (1, "due")
    assert "write a scan cache" in advice
    assert "scan_cache" in health(tmp_path, thresholds=limits).operations
    maintain(tmp_path, operations=["scan_cache"])
    assert finding() == (0, "ok", "")
    write(tmp_path, 1)
    assert finding()[:2] == (1, "ok")
    (tmp_path / PLANNING_DIRECTORY / next(iter(cache_files(tmp_path)))).unlink()
    value, verdict, advice = finding()
    assert (value, verdict) == (2, "due")
    assert "its file is gone" in advice


def test_the_cache_of_a_branch_is_that_of_main(tmp_path: Path) -> None:
    write(tmp_path, 0)
    create_scan_cache(tmp_path)
    create_branch(tmp_path, "audit")
    branch = DeltaLog(tmp_path).snapshot(ref="branch:audit")
    assert len(plan_scan(branch, col("p") == "a")) == 1
    findings = health(tmp_path).findings
    assert [each for each in findings if each.measure == "commits_since_scan_cache"]


@pytest.mark.parametrize(
    ("properties", "versions"),
    [
        pytest.param({}, [None] * 7, id="a table without a cache gets none"),
        pytest.param({"scanCache": "true"}, [None, None, 2, 2, 4, 4, 6], id="the property asks"),
        pytest.param({"scanCache": "false"}, [None] * 7, id="it is not wanted"),
    ],
)
def test_commits_write_the_cache_with_a_checkpoint_only(
    tmp_path: Path, properties: dict[str, str], versions: list[int | None]
) -> None:
    names = {f"delta_ops.{name}": value for name, value in properties.items()}
    names |= {"delta.checkpointInterval": "2", "delta_ops.scanCacheInterval": "2"}
    found = []
    for number in range(7):
        rows = pa.table({"id": [number], "p": ["a"]})
        da.write(tmp_path, rows, partition_by=["p"], configuration=names)
        found.append(cached_version(tmp_path))
    assert found == versions


def test_commits_write_a_cache_again_once_it_is_old(tmp_path: Path) -> None:
    properties = {"delta.checkpointInterval": "2", "delta_ops.scanCacheInterval": "5"}
    found = []
    for number in range(12):
        rows = pa.table({"id": [number], "p": ["a"]})
        da.write(tmp_path, rows, partition_by=["p"], configuration=properties)
        if number == 1:
            create_scan_cache(tmp_path)
        found.append(cached_version(tmp_path))
    assert found == [None, 1, 1, 1, 1, 1, 6, 6, 6, 6, 6, 6]
    assert len(da.to_table(tmp_path, predicate="id = 3")) == 1


def test_a_hook_that_cannot_write_the_cache_leaves_the_commit(tmp_path: Path) -> None:
    properties = {"delta.checkpointInterval": "1", "delta_ops.scanCache": "true"}
    rows = pa.table({"id": [1], "p": ["a"]})
    da.write(tmp_path, rows, configuration=properties)
    (tmp_path / PLANNING_DIRECTORY).parent.mkdir(exist_ok=True)
    (tmp_path / PLANNING_DIRECTORY).write_text("in the way")
    result = da.write(tmp_path, rows)
    assert result.version == 1
    assert "scan_cache_if_due" in str(result.failed_hooks)
    assert da.to_table(tmp_path).num_rows == 2


@pytest.mark.full
def test_a_cache_on_s3_is_used_until_its_commit_is_another(s3_server: S3Server) -> None:
    log = DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    for number in range(3):
        rows = pa.table({"id": [number, number + 100], "p": ["a", "b"]})
        da.write(log, rows, partition_by=["p"])
    create_checkpoint(log)
    write_scan_cache(log.snapshot(), group_rows=2)
    hint = load_cache_hint(log.storage, log.log_directory)
    assert hint is not None
    assert hint.commit.etag is not None
    plan = plan_scan(log.snapshot(), col("p") == "a")
    assert ("scan cache", len(plan)) in [(step.name, len(plan)) for step in plan.steps]
    path = f"_delta_log/{commit_name(2)}"
    log.storage.replace(path, log.storage.read(path).replace(b"WRITE", b"OTHER"))
    plan = plan_scan(log.snapshot(), col("p") == "a")
    (problem,) = plan.problems
    assert "does not have the commit of version 2" in problem
    assert len(plan) == 3
