"""Scan cache: plans with it equal plans without it, in few calls, whatever happened to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, col
from delta_ops.ddl import NewColumn, add_columns, create_table, rename_column
from delta_ops.log import ScanPlan, plan_scan
from delta_ops.log.commit_file import create_commit
from delta_ops.log.scan_cache_write.write import WrittenCache, write_scan_cache
from delta_ops.maintenance import create_checkpoint, optimize, restore
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import ADD
from delta_ops.protocol.file_names import LAST_CHECKPOINT
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import LONG, STRING, TIMESTAMP, StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from tests.arrow.foreign_table import create
from tests.protocol.test_predicate_properties import SCHEMA, TYPES, predicates
from tests.protocol.typed_values import FEW
from tests.support.tables import add, remove
from tests.support.tiers import seeded

FILES_PER_PARTITION = 5
CONDITIONS: list[Predicate] = [
    col("p") == "k03",
    col("id") >= 90,
    (col("p") > "k07") & (col("id") < 95),
]


def cache(log: DeltaLog, *, group_rows: int = 4) -> WrittenCache:
    """Write the checkpoint and the scan cache of the latest version."""
    create_checkpoint(log)
    written = write_scan_cache(log.snapshot(), group_rows=group_rows)
    assert written is not None
    return written


def file_of(name: str, p: str, number: int) -> AddFile:
    low, high = number * 10, number * 10 + 9
    stats = {
        "numRecords": 10,
        "minValues": {"id": low},
        "maxValues": {"id": high},
        "nullCount": {"id": 0},
    }
    return add(name, partition_values={"p": p}, stats=json.dumps(stats), size=100 + number)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten partitions of five files, cached at version 1."""
    root = tmp_path_factory.mktemp("cached")
    schema = StructType((StructField("id", LONG), StructField("p", STRING)))
    files = [
        file_of(f"p=k{p:02}/{number}.parquet", f"k{p:02}", p + number)
        for number in range(FILES_PER_PARTITION)
        for p in range(10)
    ]
    log = create(
        root, schema, files[:-3], {"delta.checkpointPolicy": "v2"}, ("p",), ("v2Checkpoint",)
    )
    create_commit(log.storage, log.log_directory, 1, files[-3:])
    cache(log)
    return root


@pytest.fixture
def log(template: Path, tmp_path: Path) -> DeltaLog:
    return DeltaLog(shutil.copytree(template, tmp_path / "table"))


def uncached(snapshot: Snapshot, predicate: Predicate) -> ScanPlan:
    """The plan by the log alone."""
    metadata = snapshot.definition.metadata
    off = {**metadata.configuration, "delta_ops.scanCache": "false"}
    definition = replace(snapshot.definition, metadata=replace(metadata, configuration=off))
    return plan_scan(replace(snapshot, definition=definition), predicate)


def files_in(plan: ScanPlan) -> list[str]:
    """The files of a plan, each with all that the log says of it."""
    rows = plan.adds.select([name for name in ADD.names if name != "dataChange"]).to_pylist()
    return sorted(map(repr, rows))


def uses_cache(plan: ScanPlan) -> bool:
    return any(step.name == "scan cache" for step in plan.steps)


def validate_equal(
    snapshot: Snapshot, predicate: Predicate, *, is_used: bool | None = None
) -> None:
    plan = plan_scan(snapshot, predicate)
    assert files_in(plan) == files_in(uncached(snapshot, predicate))
    if is_used is not None:
        assert uses_cache(plan) is is_used, plan


def append(log: DeltaLog, name: str, p: str = "k03", number: int = 3) -> None:
    """A commit of another engine."""
    version = log.snapshot().version + 1
    create_commit(log.storage, log.log_directory, version, [file_of(name, p, number)])


@pytest.mark.parametrize("predicate", CONDITIONS, ids=["partition", "statistics", "both"])
def test_a_plan_reads_a_part_of_the_cache_and_finds_the_same_files(
    log: DeltaLog, predicate: Predicate
) -> None:
    plan = plan_scan(log.snapshot(), predicate)
    assert files_in(plan) == files_in(uncached(log.snapshot(), predicate))
    live, cached, *_ = plan.steps
    assert (live.name, live.num_files, live.size_bytes) == (
        "live files",
        log.snapshot().num_files,
        log.snapshot().size_bytes,
    )
    assert cached.name == "scan cache"
    assert len(plan) <= cached.num_files < live.num_files
    assert plan.problems == ()


def test_columns_of_a_plan_are_those_of_the_log(log: DeltaLog) -> None:
    columns = ["path", "log_path", "size", "partition_values", "num_records", "deletion_vector"]
    plan = plan_scan(log.snapshot(), CONDITIONS[0], columns=columns)
    expected = uncached(log.snapshot(), CONDITIONS[0]).files(columns)
    assert uses_cache(plan)
    assert plan.files().sort_by("path").to_pylist() == expected.sort_by("path").to_pylist()


def test_without_a_condition_the_log_is_read(log: DeltaLog) -> None:
    assert not uses_cache(plan_scan(log.snapshot()))
    assert not uses_cache(plan_scan(log.snapshot(), col("id") >= 0))  # no group is left out


@pytest.mark.parametrize("property_value", ["false", "true"])
def test_the_property_decides_whether_reads_use_the_cache(
    tmp_path: Path, property_value: str
) -> None:
    for number in range(3):
        properties = {"delta_ops.scanCache": property_value}
        da.write(tmp_path, pa.table({"id": [number]}), configuration=properties)
    log = DeltaLog(tmp_path)
    cache(log, group_rows=1)
    assert uses_cache(plan_scan(log.snapshot(), col("id") == 1)) is (property_value == "true")


def test_the_cache_of_a_clustered_table_without_rows(tmp_path: Path) -> None:
    create_table(tmp_path, pa.schema({"id": pa.int64()}), cluster_by=["id"])
    assert cache(DeltaLog(tmp_path)).num_files == 0
    assert da.count_rows(tmp_path, "id = 1") == 0


@pytest.mark.parametrize("column", ["p", "id"])
def test_the_cache_of_a_table_without_rows(tmp_path: Path, column: str) -> None:
    rows = pa.table({"id": ["1"], "p": ["a"]})
    da.write(tmp_path, rows, partition_by=["p"])
    log = DeltaLog(tmp_path)
    da.delete(log)
    written = cache(log)
    assert (written.num_files, log.snapshot().num_files) == (0, 0)
    condition = col(column) == rows[column][0].as_py()
    assert da.to_table(log, predicate=condition).num_rows == 0
    da.write(log, rows)
    assert da.to_table(log, predicate=condition).equals(rows)


def test_a_hint_with_its_version_as_a_text_stays(log: DeltaLog) -> None:
    path = f"{log.log_directory}/{LAST_CHECKPOINT}"
    hint = json.loads(log.storage.read(path))
    stored = {"version": str(hint["version"]), "size": hint["size"]}
    log.storage.replace(path, json.dumps(stored).encode())
    assert write_scan_cache(log.snapshot()) is not None
    assert json.loads(log.storage.read(path))["version"] == stored["version"]


def test_later_commits_are_replayed_on_top(log: DeltaLog) -> None:
    append(log, "p=k03/new.parquet")
    create_commit(log.storage, log.log_directory, 3, [remove("p=k03/0.parquet")])
    again = file_of("p=k03/1.parquet", "k03", 4)
    create_commit(log.storage, log.log_directory, 4, [replace(again, size=7)])
    for predicate in CONDITIONS:
        validate_equal(log.snapshot(), predicate, is_used=True)
    plan = plan_scan(log.snapshot(), CONDITIONS[0])
    assert [step.name for step in plan.steps] == [
        "cached and later files",
        "scan cache",
        "partition values",
    ]
    sizes = {each.path: each.size for each in plan}
    assert "p=k03/0.parquet" not in sizes
    assert sizes["p=k03/1.parquet"] == 7
    assert "p=k03/new.parquet" in sizes


def test_commits_between_the_cache_and_a_later_checkpoint_are_replayed_too(log: DeltaLog) -> None:
    append(log, "p=k03/new.parquet")
    create_commit(log.storage, log.log_directory, 3, [remove("p=k03/0.parquet")])
    create_checkpoint(log)
    append(log, "p=k03/newer.parquet")
    for predicate in CONDITIONS:
        validate_equal(log.snapshot(), predicate, is_used=True)
    # Other engines write no tag: then the hint is looked up.
    hint = log.storage.read(f"_delta_log/{LAST_CHECKPOINT}")
    log.storage.replace(f"_delta_log/{LAST_CHECKPOINT}", without_tag(hint))
    for predicate in CONDITIONS:
        validate_equal(log.snapshot(), predicate, is_used=True)


def without_tag(content: bytes) -> bytes:
    body = json.loads(content)
    return json.dumps({n: v for n, v in body.items() if n not in ("tags", "checksum")}).encode()


def test_an_opened_snapshot_stays_right_while_the_table_moves_on(log: DeltaLog) -> None:
    before = log.snapshot()
    append(log, "p=k03/new.parquet")
    after = before.refresh()
    assert after.version == before.version + 1
    for snapshot in (before, after):
        for predicate in CONDITIONS:
            validate_equal(snapshot, predicate, is_used=True)


def test_time_travel_uses_the_cache_only_for_its_version_and_later_ones(log: DeltaLog) -> None:
    append(log, "p=k03/new.parquet")
    for version, is_used in ((0, False), (1, True), (2, True)):
        for predicate in CONDITIONS:
            validate_equal(log.snapshot(version), predicate, is_used=is_used)


def test_time_zones_of_partition_times_are_those_of_the_read(tmp_path: Path) -> None:
    schema = StructType((StructField("id", LONG), StructField("t", TIMESTAMP)))
    hours = [add(f"{h}", partition_values={"t": f"2024-01-01 {h:02}:00:00"}) for h in range(24)]
    log = create(tmp_path, schema, hours, partition_by=("t",))
    cache(log, group_rows=3)
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    for zone, moment in (("UTC", noon), ("America/New_York", noon + timedelta(hours=5))):
        plan = plan_scan(log.snapshot(), col("t") == moment, partition_time_zone=zone)
        assert [each.path for each in plan] == ["12"]
        assert uses_cache(plan) is (zone == "UTC")


@pytest.fixture(scope="module")
def random_snapshots(tmp_path_factory: pytest.TempPathFactory) -> list[Snapshot]:
    """A table of every type: at the cached version, after changes, and after a checkpoint."""
    root, random = tmp_path_factory.mktemp("random"), seeded(1)
    choices = {path: [None, *FEW[data_type]] for path, data_type in TYPES.items()}
    choices[("p",)] = ["a", "b", None]
    choices[("q",)] = [None, -0.0, 1.5]

    def write() -> None:
        rows = []
        for _ in range(4):
            values = {path: random.choice(choice) for path, choice in choices.items()}
            struct = {"x": values.pop(("st", "x")), "y": values.pop(("st", "y"))}
            rows.append({name: value for (name,), value in values.items()} | {"st": struct})
        table = pa.Table.from_pylist(rows, arrow_schema_from_schema(SCHEMA))
        properties = {"delta.enableDeletionVectors": "true", "delta.checkpointPolicy": "v2"}
        da.write(root, table, partition_by=["p", "q"], configuration=properties)

    log = DeltaLog(root)
    for _ in range(8):
        write()
    cache(log, group_rows=3)
    snapshots = [log.snapshot()]
    write()
    da.delete(log, col("i") == FEW[TYPES[("i",)]][0])
    snapshots.append(log.snapshot())
    create_checkpoint(log)
    write()
    snapshots.append(log.snapshot())
    return snapshots


def validate_random(snapshots: list[Snapshot], predicate: Predicate) -> None:
    for snapshot in snapshots:
        validate_equal(snapshot, predicate)


@settings(max_examples=8, deadline=None)
@given(predicate=predicates())
def test_files_by_the_cache_are_those_by_the_log(
    random_snapshots: list[Snapshot], predicate: Predicate
) -> None:
    validate_random(random_snapshots, predicate)


@pytest.mark.long
@settings(max_examples=1500, deadline=None)
@given(predicate=predicates())
def test_files_by_the_cache_are_those_by_the_log_for_many_conditions(
    random_snapshots: list[Snapshot], predicate: Predicate
) -> None:
    validate_random(random_snapshots, predicate)


def test_random_conditions_do_use_the_cache(random_snapshots: list[Snapshot]) -> None:
    for snapshot in random_snapshots:
        assert uses_cache(plan_scan(snapshot, col("p") == "b"))
        assert uses_cache(plan_scan(snapshot, col("q") > 1.0))


def steps_of_history(log: DeltaLog, random: Any) -> Iterator[str]:
    """Change a table at random, so that its cache may become stale; yields each step."""
    numbers = count(100)

    def append_rows() -> None:
        ids = [random.randrange(100) for _ in range(6)]
        names = [random.choice("abcd") for _ in ids]
        columns = log.snapshot().arrow_schema.names
        data = pa.table({"id": ids, "p": names})
        for name in columns[2:]:
            data = data.append_column(name, pa.array(ids, pa.int64()))
        da.write(log, data)

    def foreign_append() -> None:
        snapshot = log.snapshot()
        known = snapshot.add_files()
        if known:  # another engine drops statistics, and adds tags
            bare = replace(random.choice(known), stats=None, tags={"x": "1"})
            create_commit(log.storage, log.log_directory, snapshot.version + 1, [bare])

    def rename() -> None:
        others = [n for n in log.snapshot().arrow_schema.names if n not in ("id", "p")]
        if others:
            rename_column(log, others[0], f"renamed{next(numbers)}")

    def set_back() -> None:
        restore(log, version=max(0, log.snapshot().version - random.randrange(1, 4)))

    changes: list[Callable[[], Any]] = [
        append_rows,
        append_rows,
        foreign_append,
        rename,
        set_back,
        lambda: add_columns(log, [NewColumn(name=f"extra{next(numbers)}", data_type="long")]),
        lambda: da.delete(log, col("id") < random.randrange(60)),
        lambda: da.delete(log, col("p") == random.choice("abcd")),
        lambda: optimize(log),
        lambda: create_checkpoint(log),
        lambda: cache(log, group_rows=random.randrange(1, 4)),
        lambda: cache(log, group_rows=2),
    ]
    while True:
        change = random.choice(changes)
        change()
        yield getattr(change, "__name__", "")


def run_history(root: Path, seed: int, steps: int) -> int:
    """Compare plans after each step; returns how many used the cache."""
    random, used = seeded(seed), 0
    properties = {
        "delta.enableDeletionVectors": "true",
        "delta.columnMapping.mode": "name",
        "delta.checkpointPolicy": "v2",
    }
    first = pa.table({"id": [1, 2, 3, 4], "p": list("abcd")})
    da.write(root, first, partition_by=["p"], configuration=properties)
    log = DeltaLog(root)
    cache(log, group_rows=1)
    for _, step in zip(range(steps), steps_of_history(log, random), strict=False):
        snapshot = log.snapshot()
        for predicate in (col("p") == "b", col("id") > 50, (col("p") == "a") | (col("id") == 3)):
            plan = plan_scan(snapshot, predicate)
            assert files_in(plan) == files_in(uncached(snapshot, predicate)), step
            used += uses_cache(plan)
    return used


def test_plans_stay_right_through_a_random_history(tmp_path: Path) -> None:
    assert run_history(tmp_path, 3, 8)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_plans_stay_right_through_long_random_histories(tmp_path: Path, seed: int) -> None:
    run_history(tmp_path, seed, 60)
