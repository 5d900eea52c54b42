"""Each default in `delta-ops properties` is the behaviour of a table without that property."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, ddl, maintenance
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_names import checkpoint_name
from delta_ops.protocol.properties.known import COMPRESSION_CODEC, PROPERTIES
from delta_ops.protocol.schema import VARIANT, StructField, StructType
from tests.support.variants import NO_NAMES, NULL

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "text": ["x" * 100, "y", "z"]})
TRACKED = {"delta.enableRowTracking": "true"}
MIDNIGHT = 20_000 * DAY_MS
"""The start of a day: log files are kept for whole days."""
Observe = Callable[[Path], str]


def add_of(table: Path) -> AddFile:
    return DeltaLog(table).snapshot().add_files()[0]


def stats_of(table: Path) -> dict[str, Any]:
    stats: dict[str, Any] = json.loads(add_of(table).stats or "{}")
    return stats


def commit_info(table: Path) -> Mapping[str, Any]:
    (commit,) = DeltaLog(table).commits(0, 0)
    assert commit.info is not None
    return commit.info.values


def text(flag: bool) -> str:
    return "true" if flag else "false"


def append_only(table: Path) -> str:
    return text(da.delete(table, "id = 1").version is None)


def auto_compact(table: Path) -> str:
    for _ in range(3):
        da.write(table, ROWS, hooks=[maintenance.auto_compact(min_files=2)])
    return text(DeltaLog(table).snapshot().num_files < 4)


def checkpoint_columns(table: Path) -> pa.StructType:
    maintenance.create_checkpoint(table)
    return pq.read_schema(table / "_delta_log" / checkpoint_name(0)).field("add").type


def checkpoint_interval(table: Path) -> str:
    for _ in range(25):
        da.write(table, ROWS)
    versions = [int(each.name[:20]) for each in table.glob("_delta_log/*.checkpoint.parquet")]
    assert len(versions) == 2
    return str(max(versions) - min(versions))


def scan_cache_interval(table: Path) -> str:
    maintenance.create_scan_cache(table)
    for _ in range(111):
        da.write(table, ROWS)
    hint: dict[str, Any] = json.loads((table / "_delta_ops" / "planning" / "hint.json").read_text())
    return str(hint["version"])


def checkpoint_policy(table: Path) -> str:
    maintenance.create_checkpoint(table)
    is_classic = (table / "_delta_log" / checkpoint_name(0)).exists()
    return "classic" if is_classic and not (table / "_delta_log" / "_sidecars").exists() else "v2"


def column_mapping(table: Path) -> str:
    names = pq.read_schema(table / add_of(table).path).names
    field = DeltaLog(table).snapshot().schema.fields[0]
    return "none" if names == ROWS.column_names and not field.metadata else "name"


def indexed_columns(table: Path) -> str:
    rows = pa.table({f"c{number}": [number] for number in range(40)})
    da.write(table, rows, "overwrite", overwrite_schema=True)
    return str(len(stats_of(table)["minValues"]))


def prefix_length(table: Path) -> str:
    return str(len(stats_of(table)["minValues"]["text"]))


def deleted_file_retention(table: Path) -> str:
    plan = maintenance.vacuum(table, dry_run=True, clock=lambda: MIDNIGHT).plan
    return f"interval {(MIDNIGHT - plan.horizon_ms) // DAY_MS} days"


def log_retention(table: Path) -> str:
    plan = maintenance.clean_up_log(table, dry_run=True, clock=lambda: MIDNIGHT).plan
    return f"interval {(MIDNIGHT - plan.cutoff_ms) // DAY_MS} days"


def log_clean_up(table: Path) -> str:
    return text(maintenance.clean_up_log(table, dry_run=True).plan.is_enabled)


def protected_before(table: Path) -> str:
    """The first version that a clean-up keeps; it deletes a checkpoint's commits one by one."""
    for _ in range(3):
        da.write(table, ROWS)
    maintenance.create_checkpoint(table)
    later = system_clock() + 40 * DAY_MS
    maintenance.clean_up_log(table, clock=lambda: later)
    return "0" if not (table / "_delta_log" / f"{0:020}.json").exists() else "?"


def change_feed(table: Path) -> str:
    da.update(table, {"id": "id + 1"}, "id = 1")
    return text((table / "_change_data").exists())


def vectors(table: Path) -> str:
    da.delete(table, "id = 1")
    return text(add_of(table).deletion_vector is not None)


def type_widening(table: Path) -> str:
    try:
        ddl.change_type(table, "id", "long")
    except InvalidRequestError:
        return "false"
    return "true"


def variant_shredding(table: Path) -> str:
    other = table.with_name("variants")
    schema = StructType((StructField("v", VARIANT),))
    ddl.create_table(other, schema)
    da.write(other, pa.table({"v": pa.array([{"metadata": NO_NAMES, "value": NULL}])}))
    names = pq.read_schema(other / add_of(other).path).field("v").type
    return text(names.get_field_index("typed_value") >= 0)


def suspended_ids(table: Path) -> str:
    other = table.with_name("tracked")
    da.write(other, ROWS, configuration=TRACKED)
    return text(add_of(other).base_row_id is None)


def recorded_reads(table: Path) -> str:
    da.to_table(table, predicate=col("id") > 1)
    return text((table / "_delta_ops").exists())


def logged_vacuum(table: Path) -> str:
    da.write(table, ROWS, "overwrite")
    maintenance.vacuum(table, retention=timedelta(0), enforce_retention=False)
    return text("VACUUM END" in [each.operation for each in DeltaLog(table).history()])


OBSERVED: Mapping[str, Observe] = {
    "delta_ops.scanCacheInterval": scan_cache_interval,
    "delta.appendOnly": append_only,
    "delta.autoOptimize.autoCompact": auto_compact,
    "delta.checkpoint.writeStatsAsJson": lambda t: text(
        checkpoint_columns(t).get_field_index("stats") >= 0
    ),
    "delta.checkpoint.writeStatsAsStruct": lambda t: text(
        checkpoint_columns(t).get_field_index("stats_parsed") >= 0
    ),
    "delta.checkpointInterval": checkpoint_interval,
    "delta.checkpointPolicy": checkpoint_policy,
    "delta.columnMapping.mode": column_mapping,
    "delta.compatibility.symlinkFormatManifest.enabled": lambda t: text(
        (t / "_symlink_format_manifest").exists()
    ),
    "delta.dataSkippingNumIndexedCols": indexed_columns,
    "delta.dataSkippingStringPrefixLength": prefix_length,
    "delta.deletedFileRetentionDuration": deleted_file_retention,
    "delta.enableChangeDataFeed": change_feed,
    "delta.enableDeletionVectors": vectors,
    "delta.enableExpiredLogCleanup": log_clean_up,
    "delta.enableInCommitTimestamps": lambda t: text("inCommitTimestamp" in commit_info(t)),
    "delta.enableRowTracking": lambda t: text(add_of(t).base_row_id is not None),
    "delta.enableTypeWidening": type_widening,
    "delta.enableVariantShredding": variant_shredding,
    "delta.isolationLevel": lambda t: str(commit_info(t)["isolationLevel"]),
    "delta.logRetentionDuration": log_retention,
    "delta.randomizeFilePrefixes": lambda t: text("/" in add_of(t).path),
    "delta.requireCheckpointProtectionBeforeVersion": protected_before,
    "delta.rowTrackingSuspended": suspended_ids,
    "delta_ops.recordReads": recorded_reads,
    "delta_ops.vacuum.logging": logged_vacuum,
}
"""Behaviour of a table without the property, by property."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    da.write(tmp_path / "t", ROWS)
    return tmp_path / "t"


@pytest.mark.some_cases(11)
@pytest.mark.parametrize(
    ("name", "default"), [(p.name, p.default) for p in PROPERTIES if p.default and p.is_for_users]
)
def test_a_default_that_is_shown_is_what_is_done(table: Path, name: str, default: str) -> None:
    assert OBSERVED[name](table) == default


def codecs(table: Path) -> list[str]:
    footer = pq.read_metadata(table / add_of(table).path)
    return [footer.row_group(0).column(i).compression for i in range(footer.num_columns)]


def test_without_a_codec_the_writer_chooses_as_the_page_says(tmp_path: Path) -> None:
    assert COMPRESSION_CODEC.default is None
    da.write(tmp_path / "small", ROWS)
    assert codecs(tmp_path / "small") == ["SNAPPY", "SNAPPY"]
    numbers = np.random.default_rng(0)
    rows = {"n": numbers.integers(0, 2**62, 50_000), "c": [f"text {i}" for i in range(50_000)]}
    da.write(tmp_path / "large", pa.table(rows))
    assert codecs(tmp_path / "large") == ["UNCOMPRESSED", "ZSTD"]
