"""The commands, run in this process on real tables."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from deltalake import write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrow.engine import ArrowEngine
from delta_ops.cli.main import cli
from delta_ops.ddl import cluster_by, set_properties
from delta_ops.protocol.file_names import checkpoint_part_name
from tests.support.clones import prefix_naming, shallow_clone
from tests.support.tables import rows, rows_by_deltalake

DAY_S = 86_400


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files in two partitions; one more was removed nine days ago."""
    root = tmp_path_factory.mktemp("made") / "t"
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    data = pa.table({"id": [1, 2], "day": days})
    properties = {"delta.checkpointInterval": "100", "delta.deletedFileRetentionDuration": "0 days"}
    da.write(root, data.slice(0, 1), partition_by=["day"], configuration=properties)
    da.write(root, data.slice(0, 1), "overwrite")
    da.write(root, data)
    for place in root.rglob("*.parquet"):
        age(place, 9)
    return root


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "t"))


def age(place: Path, days: float) -> None:
    then = time.time() - days * DAY_S
    os.utime(place, (then, then))


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def output(*arguments: str | Path) -> Any:
    """Run a command with `--json` and return its parsed output."""
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    return json.loads(lines[0]) if len(lines) == 1 else [json.loads(line) for line in lines]


def test_changes(tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path, pa.table({"id": [1]}), configuration=feed)
    wider = pa.table({"id": [2], "later": [3]})
    write_deltalake(tmp_path, wider, mode="append", schema_mode="merge")
    requested = ("changes", tmp_path, "--from-version", "0", "--to-version", "0")
    row = output(*requested)
    assert (row["id"], row["_change_type"], row["_commit_version"]) == (1, "insert", 0)
    assert "later" not in row
    assert output(*requested, "--schema", "latest")["later"] is None
    assert "latest" in run(*requested, "--schema", "first").stderr


def test_show(table: Path) -> None:
    shown = output("show", table)
    assert shown["table"] == str(table)
    assert (shown["version"], shown["num_files"], shown["num_transactions"]) == (2, 3, 0)
    assert shown["size_bytes"] == DeltaLog(table).snapshot().size_bytes
    assert shown["partition_columns"] == ["day"]
    assert shown["protocol"]["min_writer_version"] == 2
    assert shown["properties"]["delta.checkpointInterval"] == "100"
    assert [field["name"] for field in shown["schema"]["fields"]] == ["id", "day"]
    assert shown["checkpoint_version"] is None


def test_a_shallow_clone_is_shown_with_the_files_of_its_source(table: Path) -> None:
    clone = DeltaLog(table.parent / "clone")
    shallow_clone(DeltaLog(table).snapshot(), clone, prefix_naming(f"file:{table}"))
    own = [file["path"] for file in output("files", table)]
    assert [file["path"] for file in output("files", clone.uri)] == [f"{table}/{p}" for p in own]
    assert output("show", clone.uri)["num_files"] == output("show", table)["num_files"] == 3
    assert output("history", clone.uri)["operation"] == "CLONE"
    assert output("count", clone.uri)["num_rows"] == 3
    ids = [sorted(row["id"] for row in output("head", each)) for each in (table, clone.uri)]
    assert ids == [[1, 1, 2], [1, 1, 2]]


def test_show_for_people(table: Path) -> None:
    text = run("show", table).stdout
    assert ["version", "2"] in [line.split() for line in text.splitlines()]
    assert "id\tbigint\ttrue\n" in text
    assert "null" not in text.replace("nullable", "")
    assert "int64" in run("schema", table, "--arrow").stdout


def test_history(table: Path) -> None:
    entries = output("history", table)
    assert [entry["version"] for entry in entries] == [2, 1, 0]
    assert entries[1]["operation_parameters"]["mode"] == "Overwrite"
    assert entries[0]["timestamp"].endswith("+00:00")
    assert output("history", table, "--limit", "1")["version"] == 2


def test_files(table: Path) -> None:
    listed = output("files", table)
    assert [row["partition_values"]["day"] for row in listed] == ["2026-01-01"] * 2 + ["2026-01-02"]
    assert {row["num_records"] for row in listed} == {1}
    assert listed == sorted(listed, key=lambda row: str(row["path"]))
    assert output("files", table, "--limit", "1") == listed[0]


@pytest.mark.parametrize(
    ("where", "count"),
    [
        pytest.param("day = '2026-01-01'", 2, id="a partition"),
        pytest.param("day IS NULL", 0, id="null"),
        pytest.param("day = '2026-01-02' AND id = 2", 1, id="a partition and a row"),
        pytest.param("id = 99", 0, id="rows that no file can hold"),
    ],
)
def test_files_that_may_hold_rows(table: Path, where: str, count: int) -> None:
    result = run("files", table, "--where", where, "--json")
    assert len(result.stdout.splitlines()) == count


def test_the_plan_of_a_read_counts_the_files_of_each_step(table: Path) -> None:
    planned = output("plan", table, "--where", "day = '2026-01-02' AND id = 99")
    steps = [(step["name"], step["columns"], step["num_files"]) for step in planned["steps"]]
    assert steps == [
        ("live files", [], 3),
        ("partition values", ["day"], 1),
        ("statistics", ["id"], 0),
    ]
    assert (planned["num_files"], planned["size_bytes"], planned["max_rows"]) == (0, 0, 0)
    assert output("plan", table, "--version", "0")["num_files"] == 1
    assert output("plan", table)["notes"] == ["There is no condition, so every live file is read."]


def test_rows_for_programs_without_json_are_separated_by_tabs(table: Path) -> None:
    (table / "a\tb\n.parquet").write_bytes(b"")
    age(table / "a\tb\n.parquet", 9)
    header, row, *_ = run("vacuum", table, "--dry-run").stdout.splitlines()
    assert header.split("\t") == ["path", "size", "modified"]
    assert row.split("\t")[:2] == ["a\\tb\\n.parquet", "0 B"]


def test_vacuum(table: Path) -> None:
    planned = output("vacuum", table, "--dry-run")
    assert (planned["dry_run"], planned["planned_files"], planned["deleted_files"]) == (True, 1, 0)
    # The log's commits, each with its checksum.
    assert planned["kept"] == {"hidden": 6, "reachable": 3}
    (path,) = planned["paths"]
    assert (table / path).exists()
    done = output("vacuum", table)
    assert (done["deleted_files"], done["failures"], done["paths"]) == (1, [], None)
    assert done["deleted_bytes"] == planned["planned_bytes"] > 0
    assert not (table / path).exists()
    assert (
        run("vacuum", table).stdout
        == "Every file is still needed or too young to delete; nothing to do.\n"
    )


def test_vacuum_with_a_retention(table: Path) -> None:
    assert output("vacuum", table, "--retain-hours", "240")["deleted_files"] == 0
    assert output("vacuum", table, "--retain-hours", "200")["deleted_files"] == 0
    assert "Deleted 1 file, " in run("vacuum", table, "--retain-hours", "0").stdout


def test_where_a_vacuum_looks_and_what_it_keeps(table: Path, tmp_path: Path) -> None:
    (table / "orphan").write_bytes(b"")
    (table / "empty").mkdir()
    age(table / "orphan", 9)
    age(table / "empty", 9)
    found = output("vacuum", table, "--lite", "--dry-run")
    assert (found["planned_files"], found["planned_directories"]) == (1, 0)
    inventory = tmp_path / "inventory.csv"
    inventory.write_text(f"path,length,isDir,modificationTime\n{table}/orphan,0,false,1\n")
    found = output("vacuum", table, "--inventory", inventory, "--dry-run")
    assert found["paths"] == ["orphan"]
    found = output("vacuum", table, "--keep-last", "99", "--dry-run")
    assert (found["paths"], found["planned_directories"]) == (["orphan"], 1)
    both = run("vacuum", table, "--lite", "--inventory", inventory)
    assert (both.exit_code, "instead of an inventory" in both.stderr) == (1, True)
    assert "Empty directories: 1." in run("vacuum", table, "--no-log-commits").stdout
    operations = [entry["operation"] for entry in output("history", table)]
    assert not any("VACUUM" in operation for operation in operations)


def test_a_retention_shorter_than_the_tables_must_be_insisted_on(tmp_path: Path) -> None:
    da.write(tmp_path / "t", pa.table({"id": [1]}))
    refused = run("vacuum", tmp_path / "t", "--retain-hours", "1")
    assert refused.exit_code == 1
    assert "less than the table's delta.deletedFileRetentionDuration, 7 days" in refused.stderr
    insisted = run("vacuum", tmp_path / "t", "--retain-hours", "1", "--no-enforce-retention")
    assert insisted.exit_code == 0


def test_checkpoint(table: Path) -> None:
    planned = output("checkpoint", table, "--dry-run")
    assert (planned["version"], planned["has_work"], planned["written"]) == (2, True, False)
    assert run("checkpoint", table).stdout.startswith("Wrote the checkpoint of version 2: ")
    assert output("checkpoint", table)["has_work"] is False
    assert output("show", table)["checkpoint_version"] == 2


def test_optimize(table: Path) -> None:
    before = rows(da.to_table(DeltaLog(table)))
    assert run("optimize", table, "--dry-run").stdout.startswith("Would compact 2 files (")
    assert output("optimize", table, "--target-size", "1b")["version"] is None
    assert output("optimize", table, "--where", "day = '2026-01-02'")["version"] is None
    done = output("optimize", table, "--target-size", "1MB")
    assert (done["version"], done["removed_files"], done["added_files"]) == (3, 2, 1)
    assert done["target_size_bytes"] == 1024 * 1024
    assert rows(da.to_table(DeltaLog(table))) == before == rows_by_deltalake(table)
    assert "nothing to do" in run("optimize", table).stdout


def test_clean_up_log(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for number in range(4):
        da.write(root, pa.table({"id": [number]}), configuration={"delta.checkpointInterval": "2"})
    for place in sorted((root / "_delta_log").iterdir()):  # a clock that advances
        age(place, 40)
    planned = output("clean-up-log", root, "--dry-run")
    assert (planned["earliest_version_before"], planned["earliest_version_after"]) == (0, 2)
    names = [f"{v:020d}.{kind}" for kind in ("json", "crc") for v in (0, 1)]
    assert [Path(path).name for path in planned["paths"]] == names
    assert planned["planned_by_kind"]["commits"] == planned["planned_by_kind"]["checksums"] == 2
    assert output("clean-up-log", root, "--dry-run", "--keep-version", "1")["paths"] == []
    text = run("clean-up-log", root, "--dry-run").stdout
    assert text.endswith("Versions can be read from 0 on; afterwards, from 2 on.\n")
    text = run("clean-up-log", root).stdout
    assert text.startswith("Deleted 4 files, ")
    assert text.endswith("Versions can be read from 2 on; before, from 0 on.\n")
    text = run("clean-up-log", root).stdout
    assert text.endswith("nothing to do. Versions can be read from 2 on.\n")


def test_compact_log(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for number in range(3):
        da.write(root, pa.table({"id": [number]}))
    planned = output("compact-log", root, "--dry-run")
    assert (planned["start_version"], planned["end_version"], planned["written"]) == (0, 2, False)
    assert "Would compact 3 versions into " in run("compact-log", root, "--dry-run").stdout
    written = output("compact-log", root, "--from-version", "1")
    assert (root / "_delta_log" / written["file"]).stat().st_size == written["size_bytes"]
    for again in ([], ["--dry-run"]):
        printed = run("compact-log", root, "--from-version", "1", *again).stdout
        assert printed == f"{written['file']} already exists; nothing to do.\n"
    assert "not two versions" in run("compact-log", root, "--from-version", "2").stdout
    assert "Wrote " in run("compact-log", root, "--to-version", "2").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(["show", "{tmp}/none"], 1, "is not a Delta table", id="no table"),
        pytest.param(["files", "{table}", "--where", "x=1"], 1, "x", id="no such column"),
        pytest.param(["files", "{table}", "--where", "day = 'May'"], 1, "May", id="no such date"),
        pytest.param(["plan", "{table}", "--where", "x=1"], 1, "x", id="a plan for no column"),
        pytest.param(
            ["plan", "{table}", "--where", "id = 'x'"], 1, "id", id="a plan for another type"
        ),
        pytest.param(
            ["plan", "{table}", "--version", "9"], 1, "version 9", id="a plan of no version"
        ),
        pytest.param(["plan", "{table}", "--ref", "tag:x"], 1, "tag x", id="a plan of no tag"),
        pytest.param(
            ["optimize", "{table}", "--where", "id=1"],
            1,
            "not a partition column",
            id="not a partition",
        ),
        pytest.param(["changes", "{table}"], 2, "--from-version", id="changes from nowhere"),
        pytest.param(
            ["changes", "{table}", "--from-version", "0", "--from-timestamp", "2026-01-01"],
            2,
            "--from-timestamp",
            id="changes from two places",
        ),
        pytest.param(
            [
                *("changes", "{table}", "--from-version", "0"),
                *("--to-version", "1", "--to-timestamp", "2026-01-01"),
            ],
            2,
            "--to-timestamp",
            id="changes to two places",
        ),
        pytest.param(
            ["head", "{table}", "--version", "0", "--timestamp", "2026-01-01"],
            2,
            "--timestamp",
            id="a version and a time",
        ),
        pytest.param(["show"], 2, "Missing argument 'TABLE'", id="no argument"),
        pytest.param(["explode"], 2, "No such command", id="no such command"),
        pytest.param(["optimize", "t", "--target-size", "big"], 2, "is not a size", id="no size"),
        pytest.param(["vacuum", "t", "--retain-hours", "-1"], 2, "-1", id="a negative retention"),
        pytest.param(["history", "t", "--limit", "0"], 2, "0", id="a limit of nothing"),
        pytest.param(
            ["files", "t", "--where", "day ="], 2, "not a valid SQL condition", id="no value"
        ),
        pytest.param(
            ["files", "t", "--where", "\"day\" = 'x'"],
            2,
            "write a column as `day`",
            id="double quotes",
        ),
    ],
)
def test_errors_are_one_sentence_and_an_exit_code(
    table: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    result = run(*(text.format(table=table, tmp=tmp_path) for text in arguments))
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    if code == 1:
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


def test_storage_options_reach_the_store_and_are_never_shown() -> None:
    result = run("show", "s3://bucket/t", "--storage-option", "s3cr3t")
    assert result.exit_code == 2
    assert "s3cr3t" not in result.output
    unknown = run("show", "memory://cli/t", "--storage-option", "key=s3cr3t")
    assert unknown.exit_code == 1
    assert "s3cr3t" not in unknown.output


def test_a_table_in_another_store(tmp_path: Path) -> None:
    da.write("memory://cli-table/t", pa.table({"id": [1]}))
    assert output("show", "memory://cli-table/t")["num_files"] == 1


def test_files_that_cannot_be_deleted_are_an_error(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = output("vacuum", table, "--dry-run")["paths"]

    def refuse(place: str, *_: object, **__: object) -> None:
        if place.endswith(".parquet"):
            raise PermissionError(13, "Permission denied", place)
        raise FileNotFoundError(2, "No such file", place)

    monkeypatch.setattr("os.unlink", refuse)
    result = run("vacuum", table, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["failures"] == [path]
    assert "1 file could not be deleted" in result.stderr


def test_a_checkpoint_of_several_files(table: Path) -> None:
    done = output("checkpoint", table, "--part-rows", "2")
    assert (done["kind"], done["num_files"], done["num_reused"]) == ("multi-part", 2, 0)
    assert DeltaLog(table).snapshot().commits_since_checkpoint == 0


def test_abandoned_files_are_deleted_and_reported(table: Path) -> None:
    da.write(table, da.to_table(DeltaLog(table)).slice(0, 0))
    version = DeltaLog(table).snapshot().version - 1
    place = table / "_delta_log" / checkpoint_part_name(version, 1, 2)
    place.write_bytes(b"the other is missing")
    age(place, 2)
    assert run("checkpoint", table, "--dry-run").stdout.endswith(
        "Would delete 1 file of unfinished checkpoints.\n"
    )
    planned = output("clean-up-log", table, "--dry-run")
    assert planned["planned_by_kind"]["incomplete_checkpoint_files"] == 1
    requested = output("checkpoint", table, "--dry-run")
    assert (requested["planned_files"], requested["deleted_files"], place.exists()) == (1, 0, True)
    printed = run("checkpoint", table).stdout
    assert printed.startswith("Wrote the checkpoint of version ")
    assert printed.endswith("Deleted 1 file of unfinished checkpoints.\n")
    assert not place.exists()


def test_an_unlimited_retention_is_shown_with_a_year_below_the_range_of_python(
    tmp_path: Path,
) -> None:
    for_ever = dict.fromkeys(
        ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), "1000000 weeks"
    )
    da.write(tmp_path / "t", pa.table({"id": [1]}), configuration=for_ever)
    assert output("vacuum", tmp_path / "t")["horizon"].startswith("-17")
    assert output("clean-up-log", tmp_path / "t")["cutoff"].startswith("-17")


def test_optimize_lays_rows_out(tmp_path: Path) -> None:
    for first in (0, 1):
        da.write(tmp_path / "t", pa.table({"id": range(first, 100, 2), "x": [1] * 50}))
    table = tmp_path / "t"
    planned = run("optimize", table, "--zorder", "id,x", "--dry-run").stdout
    assert planned.startswith("Would order 2 files (")
    assert " by id, x, in 1 group. Expected: these become 1 file (" in planned
    assert ", of which a read of one value opens 1.\n" in planned
    assert "From earlier runs" not in planned
    assert planned.splitlines()[1].split("\t") == ["group", "partition", "files", "size"]
    assert planned.splitlines()[2].split("\t")[:3] == ["1", "", "2"]
    assert run("optimize", table, "--zorder", "id", "--budget", "1b").exit_code == 1
    assert output("optimize", table, "--zorder", "id")["ordered_by"] == ["id"]
    assert "nothing to do" in run("optimize", table, "--zorder", "id").stdout
    again = run("optimize", table, "--zorder", "x", "--full", "--dry-run").stdout
    assert "From earlier runs, this takes about " in again


def test_optimize_clusters_and_purges(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for _ in range(2):
        da.write(
            table,
            pa.table({"id": range(100)}),
            configuration={"delta.enableDeletionVectors": "true"},
        )
    assert "is not clustered" in run("optimize", table, "--cluster").stderr
    assert run("optimize", table, "--purge", "--zorder", "id").exit_code == 2
    assert "nothing to do" in run("optimize", table, "--purge").stdout
    da.delete(table, col("id") == 1)
    assert output("optimize", table, "--purge")["removed_files"] == 2
    assert run("optimize", table, "--old-schema").exit_code == 2
    assert run("optimize", table, "--purge", "--max-size", "1GB").exit_code == 2
    assert "nothing to do" in run("optimize", table, "--purge", "--old-schema").stdout
    assert "set delta.parquet" in run("optimize", table, "--purge", "--other-codec").stderr
    set_properties(table, {"delta.parquet.compression.codec": "gzip"})
    num_files = DeltaLog(table).snapshot().num_files
    assert output("optimize", table, "--purge", "--other-codec")["removed_files"] == num_files
    assert "nothing to do" in run("optimize", table, "--purge", "--other-codec").stdout
    assert "nothing to do" in run("optimize", table, "--max-size", "1GB").stdout
    cluster_by(table, ["id"])
    assert output("optimize", table, "--cluster", "--full")["ordered_by"] == ["id"]


@pytest.mark.parametrize(
    ("options", "exit_code", "message"),
    [
        pytest.param(["--full"], 1, "--full has no order", id="all files of no order"),
        pytest.param(["--curve", "hilbert"], 2, "needs --zorder", id="a curve of no order"),
        pytest.param(["--deleted-share", "0"], 2, "needs --purge", id="a share of no purge"),
        pytest.param(["--max-row-group-size", "1GB"], 2, "needs --purge", id="row groups"),
        pytest.param(
            ["--purge", "--curve", "zorder"], 2, "--curve chooses", id="a curve of a purge"
        ),
        pytest.param(
            ["--purge", "--min-files", "2"], 2, "--min-files chooses", id="groups of a purge"
        ),
        pytest.param(
            ["--purge", "--min-size", "1MB"], 2, "--min-size chooses", id="sizes of a purge"
        ),
        pytest.param(
            ["--zorder", "id", "--min-size", "1MB"], 1, "--min-size", id="an order's size"
        ),
        pytest.param(["--purge", "--max-row-group-size", "1MB"], 1, "at least", id="too small"),
        pytest.param(["--zorder", "id", "--max-size", "1GB"], 1, "out --max-size", id="a cut"),
    ],
)
def test_options_of_optimize_without_effect_are_refused(
    table: Path, options: list[str], exit_code: int, message: str
) -> None:
    refused = run("optimize", table, *options)
    assert refused.exit_code == exit_code
    assert message in " ".join(refused.stderr.split())


def test_optimize_takes_columns_with_blanks_between_them(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1], "x": [1]}))
    da.write(tmp_path, pa.table({"id": [1], "x": [1]}))
    done = output("optimize", tmp_path, "--zorder", "id, x", "--curve", "hilbert")
    assert done["ordered_by"] == ["id", "x"]


def test_optimize_takes_a_least_size(table: Path) -> None:
    assert output("optimize", table, "--min-size", "1b")["version"] is None
    assert output("optimize", table, "--min-size", "1MB")["removed_files"] == 2


def test_a_purge_with_nothing_to_do_speaks_of_that(table: Path) -> None:
    printed = run("optimize", table, "--purge", "--max-row-group-size", "1GB").stdout
    assert printed == "No file needs a purge; nothing to do.\n"


def test_optimize_says_what_it_left_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t"
    for number in range(4):
        da.write(table, pa.table({"id": [number], "p": ["ab"[number % 2]]}), partition_by=["p"])
    rewrite, one_by_one = da.rewrite, threading.Lock()

    def rewrite_late(_engine: ArrowEngine, snapshot: Any, group: Any) -> Any:
        staged = rewrite(snapshot, group)
        with one_by_one:
            da.delete(table, col("id") == 0)
        return staged

    monkeypatch.setattr(ArrowEngine, "rewrite", rewrite_late)
    printed = run("optimize", table).stdout
    assert "2 files (" in printed
    assert "Left unchanged: 2 planned files, because other writers" in printed


def test_advice_on_layout(tmp_path: Path) -> None:
    root = tmp_path / "t"
    da.write(
        root, pa.table({"id": list(range(4_000))}), configuration={"delta.targetFileSize": "2kb"}
    )
    refused = run("advise", root)
    assert refused.exit_code == 1
    assert "set delta_ops.recordReads to true" in refused.stderr
    assert run("properties", root, "--set", "delta_ops.recordReads=true").exit_code == 0
    assert run("head", root, "--where", "id = 7").exit_code == 0
    found = json.loads(run("advise", root, "--json").stdout)
    assert (found["num_reads"], found["num_left_out"], found["num_files"]) == (1, 0, 1)
    (layout,) = found["layouts"]
    assert layout["columns"] == ["id"]
    assert layout["skipped"] == pytest.approx(1 - 1 / found["num_files_after"])
    shown = run("advise", root).stdout.splitlines()
    assert f"id\t{layout['skipped']:.1%}" in shown
