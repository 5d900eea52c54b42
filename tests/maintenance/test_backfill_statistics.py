"""Missing statistics are taken from footers; existing statistics stay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.cli.main import cli
from delta_ops.ddl import NewColumn, add_columns, cluster_by, set_properties
from delta_ops.errors import CommitConflictError
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import backfill_statistics, optimize, repair
from delta_ops.transaction.changes import Describe
from tests.support.tables import rows, rows_by_deltalake

NONE = {"delta.dataSkippingNumIndexedCols": "0"}
DATA = pa.table(
    {
        "id": [1, 2],
        "s": [{"x": 5, "y": "a"}, {"x": None, "y": "b"}],
        "l": [[1], None],
        "p": ["a", "a"],
    }
)


def stats_of(place: Path) -> list[dict[str, Any]]:
    adds = DeltaLog(place).snapshot().add_files()
    return [json.loads(add.stats or "{}") for add in sorted(adds, key=lambda add: add.path)]


@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.parametrize("by", [None, ["p"]], ids=["whole", "partitioned"])
def test_new_settings_are_filled_in_for_files_that_are_there(
    tmp_path: Path, mode: str, by: list[str] | None
) -> None:
    table, made = tmp_path / "t", tmp_path / "made"
    properties = {"delta.columnMapping.mode": mode}
    da.write(table, DATA, partition_by=by, configuration={**NONE, **properties})
    da.write(table, DATA)
    set_properties(table, {"delta.dataSkippingNumIndexedCols": "-1"})
    before = rows(da.to_table(table))
    result = backfill_statistics(table)
    assert (result.num_files, result.lacking_files, result.described_files) == (2, 2, 2)
    assert result.version == 3
    da.write(made, DATA, partition_by=by, configuration=properties)
    [expected] = stats_of(made)
    expected.pop("tightBounds", None)
    names = _names(table), _names(made)
    for found in stats_of(table):
        assert _by_name(found, names[0]) == _by_name(expected, names[1])
    assert rows(da.to_table(table)) == before
    if mode == "none":
        assert rows_by_deltalake(table) == before
    assert backfill_statistics(table).version is None
    validate_checksum(DeltaLog(table).snapshot())
    entry = next(each for each in DeltaLog(table).history() if each.version == 3)
    assert entry.operation == "COMPUTE STATS"


def _names(place: Path) -> dict[str, str]:
    definition = DeltaLog(place).snapshot().definition
    pairs = zip(definition.physical_schema.fields, definition.schema.fields, strict=True)
    return {stored.name: field.name for stored, field in pairs}


def _by_name(stats: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Bounds and counts of columns by logical name at the top level."""
    return {
        part: {
            names[name]: list(value.values()) if isinstance(value, dict) else value
            for name, value in reported.items()
        }
        if isinstance(reported, dict)
        else reported
        for part, reported in stats.items()
    }


def test_new_clustering_columns_get_theirs(tmp_path: Path) -> None:
    da.write(tmp_path, DATA, configuration=NONE)
    cluster_by(tmp_path, ["s.y"])
    assert backfill_statistics(tmp_path, dry_run=True).lacking_files == 1
    assert backfill_statistics(tmp_path).version == 2
    [found] = stats_of(tmp_path)
    assert found["minValues"] == {"s": {"y": "a"}}
    assert found["nullCount"] == {"s": {"y": 0}}


def test_existing_statistics_stay_digit_by_digit(tmp_path: Path) -> None:
    da.write(tmp_path, DATA, configuration=NONE)
    [add] = DeltaLog(tmp_path).snapshot().add_files()
    reported = (
        '{"numRecords":2,"minValues":{"s":{"x":5.00}},"nullCount":{"s":{"x":1}},"by":{"is":"x"}}'
    )
    transaction = begin(DeltaLog(tmp_path))
    transaction.apply(Describe(files=(replace(add, stats=reported, data_change=False),)))
    transaction.commit(operation="COMPUTE STATS")
    set_properties(tmp_path, {"delta.dataSkippingNumIndexedCols": "-1"})
    backfill_statistics(tmp_path)
    [described] = DeltaLog(tmp_path).snapshot().add_files()
    assert '"x":5.00' in (described.stats or "")
    assert '"by":{"is":"x"}' in (described.stats or "")
    recorded = json.loads(described.stats or "")["maxValues"]
    assert recorded == {"id": 2, "s": {"x": 5, "y": "b"}, "p": "a"}


def test_columns_that_a_file_does_not_have_are_null_in_it(tmp_path: Path) -> None:
    da.write(tmp_path, DATA)
    add_columns(tmp_path, [NewColumn(name="later", data_type="string")])
    assert backfill_statistics(tmp_path).described_files == 1
    [found] = stats_of(tmp_path)
    assert found["nullCount"]["later"] == 2
    assert "later" not in found["minValues"]
    assert da.count_rows(tmp_path, col("later") == "x") == 0
    assert backfill_statistics(tmp_path).version is None


def test_bounds_of_files_with_deleted_rows_are_not_tight(tmp_path: Path) -> None:
    properties = {**NONE, "delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    da.write(tmp_path, DATA, configuration=properties)
    da.delete(tmp_path, col("id") == 2)
    set_properties(tmp_path, {"delta.dataSkippingNumIndexedCols": "32"})
    backfill_statistics(tmp_path)
    [add] = DeltaLog(tmp_path).snapshot().add_files()
    assert json.loads(add.stats or "")["tightBounds"] is False
    assert add.deletion_vector is not None
    assert (add.base_row_id, add.default_row_commit_version) == (0, 0)
    assert [row["id"] for row in rows(da.to_table(tmp_path, predicate=col("id") > 0))] == [1]


def test_a_file_that_is_changed_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    da.write(tmp_path, DATA, configuration=NONE)
    set_properties(tmp_path, {"delta.dataSkippingNumIndexedCols": "32"})

    def interfere(_event: object) -> None:
        if DeltaLog(tmp_path).snapshot().version == 1:
            da.write(tmp_path, DATA, "overwrite")

    with pytest.raises(CommitConflictError):
        backfill_statistics(tmp_path, on_event=interfere)
    assert DeltaLog(tmp_path).snapshot().version == 2


def test_footers_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    da.write(tmp_path, DATA, configuration=NONE)
    da.write(tmp_path, DATA)
    set_properties(tmp_path, {"delta.dataSkippingNumIndexedCols": "32"})
    first = next(tmp_path.glob("*.parquet"))
    first.write_bytes(b"no Parquet")
    result = backfill_statistics(tmp_path)
    assert result.described_files == 1
    assert len(result.failures) == 1
    assert "is not the Parquet file" in result.failures[0]
    printed = CliRunner().invoke(cli, ["backfill-statistics", str(tmp_path)])
    assert printed.exit_code == 1
    assert "1 file cannot be described" in printed.output


def test_statistics_that_no_footer_has_are_not_requested_repeatedly(tmp_path: Path) -> None:
    pq.write_table(DATA.select(["id"]), tmp_path / "bare.parquet", write_statistics=False)
    da.convert(tmp_path)
    versions = [backfill_statistics(tmp_path).version for _ in range(2)]
    assert versions[1] is None


def test_the_terminal_says_what_is_done(tmp_path: Path) -> None:
    da.write(tmp_path, DATA, configuration=NONE)
    run = CliRunner().invoke
    assert "1 file, all with statistics" in run(cli, ["backfill-statistics", str(tmp_path)]).output
    set_properties(tmp_path, {"delta.dataSkippingNumIndexedCols": "32"})
    command = ["backfill-statistics", str(tmp_path)]
    assert "Would describe 1 file of 1" in run(cli, [*command, "--dry-run"]).output
    assert "Version 2 describes 1 file of 1" in run(cli, command).output
    printed = json.loads(run(cli, [*command, "--json"]).output)
    assert (printed["num_files"], printed["lacking_files"], printed["version"]) == (1, 0, None)
    assert repair(tmp_path).plan.is_healthy
    optimize(tmp_path)
