"""Scan plans: all files with a matching row, counted by step, as actions and as columns."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, col
from delta_ops.errors import InvalidRequestError, VersionNotFoundError
from delta_ops.log import plan_scan
from delta_ops.maintenance import create_checkpoint
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import ADD
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import LONG, TIMESTAMP, StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.storage import open_storage
from tests.arrow.foreign_table import create, data_file
from tests.protocol.test_predicate_properties import SCHEMA, TYPES, evaluate, predicates
from tests.protocol.typed_values import FEW
from tests.support.counting_storage import CountingStorage, recording
from tests.support.tiers import seeded

MIDNIGHT = datetime(2024, 1, 1, tzinfo=UTC)
DAYS = [date(2026, 1, 1), date(2026, 1, 2)]
COLUMNS = ["path", "size", "partition_values", "deletion_vector"]


@pytest.fixture(scope="module")
def four_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files with the id 10 and two with the id 30, of one day each."""
    root = tmp_path_factory.mktemp("four_files")
    for each in (10, 30):
        da.write(root, pa.table({"id": [each, each], "day": DAYS}), partition_by=["day"])
    return root


@pytest.mark.parametrize(
    ("predicate", "left"),
    [
        pytest.param(None, [("live files", (), 4)], id="every file"),
        pytest.param(
            col("day") == DAYS[0],
            [("live files", (), 4), ("partition values", ("day",), 2)],
            id="by partition values",
        ),
        pytest.param(
            col("id") >= 30,
            [("live files", (), 4), ("statistics", ("id",), 2)],
            id="by statistics",
        ),
        pytest.param(
            (col("day") == DAYS[1]) & (col("id") < 30),
            [("live files", (), 4), ("partition values", ("day",), 2), ("statistics", ("id",), 1)],
            id="by both",
        ),
        pytest.param(
            (col("day") == DAYS[1]) | (col("id") < 30),
            [("live files", (), 4), ("partition values", ("day",), 4), ("statistics", ("id",), 3)],
            id="partition values alone prove nothing of an alternative",
        ),
        pytest.param(
            col("id") == 99, [("live files", (), 4), ("statistics", ("id",), 0)], id="none"
        ),
        pytest.param(
            col("id").isin([]), [("live files", (), 4), ("condition", (), 0)], id="no value"
        ),
    ],
)
def test_each_step_counts_the_files_that_it_left(
    four_files: Path, predicate: Predicate | None, left: list[Any]
) -> None:
    plan = plan_scan(DeltaLog(four_files).snapshot(), predicate)
    assert [(step.name, step.columns, step.num_files) for step in plan.steps] == left
    assert len(plan) == len(list(plan)) == left[-1][-1]
    assert plan.size_bytes == sum(add.size for add in plan)
    assert plan.steps[0].size_bytes == DeltaLog(four_files).snapshot().size_bytes


@pytest.mark.parametrize("predicate", [None, col("day") == DAYS[0], col("id") >= 30])
def test_both_forms_of_a_plan_have_the_same_files(
    four_files: Path, predicate: Predicate | None
) -> None:
    snapshot = DeltaLog(four_files).snapshot()
    adds = plan_scan(snapshot, predicate)
    rows = plan_scan(snapshot, predicate, columns=["path", "size"]).files().to_pylist()
    assert sorted((row["path"], row["size"]) for row in rows) == sorted(
        (add.path, add.size) for add in adds
    )
    assert adds.files(["path", "size"]).to_pylist() == rows


def test_a_plan_without_sizes_counts_no_bytes(four_files: Path) -> None:
    plan = plan_scan(DeltaLog(four_files).snapshot(), col("id") >= 30, columns=["path"])
    assert [step.size_bytes for step in plan.steps] == [None, None]


def test_a_plan_of_many_files_has_each_once_and_in_order(tmp_path: Path) -> None:
    file = AddFile(path="", size=1, partition_values={}, modification_time=0)
    adds = [replace(file, path=f"{number}") for number in range(9000)]
    snapshot = create(tmp_path, StructType((StructField("id", LONG),)), adds).snapshot()
    plan = plan_scan(snapshot)
    assert [each.path for each in plan] == plan.adds["path"].to_pylist()
    assert len({each.path for each in plan}) == 9000


def test_a_file_that_a_checkpoint_names_twice_is_planned_once(
    four_files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    create_checkpoint(DeltaLog(tmp_path))
    snapshot = DeltaLog(tmp_path).snapshot()
    twice = pa.concat_tables([*snapshot.stream_live(ADD.names)] * 2)
    monkeypatch.setattr(
        "delta_ops.log.version.scan_plan.stream_live", lambda _, names: [twice.select(names)]
    )
    plan = plan_scan(snapshot, col("id") == 1)
    left = [(step.name, step.num_files) for step in plan.steps]
    assert left == [("live files", 2), ("statistics", 2), ("repeated names", 1)]
    assert len(list(plan)) == 1


@pytest.mark.parametrize("predicate", [None, col("day") == DAYS[0], col("id") >= 30])
def test_a_plan_makes_the_calls_of_a_listing_of_all_files(
    four_files: Path, predicate: Predicate | None
) -> None:
    create_checkpoint(DeltaLog(four_files))

    def calls_of(work: Any) -> list[str]:
        methods: list[str] = []
        storage = CountingStorage(open_storage(four_files), recording(methods))
        work(DeltaLog(four_files, storage=storage).snapshot())
        return methods

    def list_all(snapshot: Snapshot) -> None:
        list(snapshot.stream_live(ADD.names))

    def explain(snapshot: Snapshot) -> None:
        plan = plan_scan(snapshot, predicate)
        assert str(plan)
        assert len(list(plan)) == len(plan)
        assert (plan.max_rows, plan.num_deletion_vectors) == (len(plan), 0)

    assert calls_of(explain) == calls_of(list_all) != []


@pytest.mark.parametrize(
    ("zone", "moment"),
    [("UTC", MIDNIGHT), ("America/New_York", MIDNIGHT + timedelta(hours=5))],
)
def test_times_use_the_zone_of_the_read(tmp_path: Path, zone: str, moment: datetime) -> None:
    schema = StructType((StructField("id", LONG), StructField("t", TIMESTAMP)))
    values = {"t": "2024-01-01 00:00:00"}
    add = data_file(tmp_path, "x", pa.table({"id": [1]}), partition_values=values)
    snapshot = create(tmp_path, schema, [add], partition_by=("t",)).snapshot()
    for predicate, chosen in ((col("t") == moment, ["x"]), (col("t") > moment, [])):
        plan = plan_scan(snapshot, predicate, partition_time_zone=zone)
        assert [each.path for each in plan] == plan.files(["path"])["path"].to_pylist() == chosen
        assert plan.is_true_throughout()


@pytest.mark.parametrize(
    ("predicate", "is_proven"),
    [
        pytest.param(None, True, id="no condition"),
        pytest.param(col("day") == DAYS[0], True, id="partition values"),
        pytest.param(col("id") == 10, False, id="statistics may be wrong"),
        pytest.param((col("day") == DAYS[0]) | (col("id") == 10), False, id="both"),
    ],
)
def test_only_partition_values_prove_a_predicate_for_all_rows(
    four_files: Path, predicate: Predicate | None, is_proven: bool
) -> None:
    plan = plan_scan(DeltaLog(four_files).snapshot(), predicate, columns=COLUMNS)
    assert plan.is_true_throughout() is is_proven


def test_a_predicate_that_does_not_fit_the_table_is_refused(four_files: Path) -> None:
    snapshot = DeltaLog(four_files).snapshot()
    with pytest.raises(InvalidRequestError, match="nowhere"):
        plan_scan(snapshot, col("nowhere") == 1)
    with pytest.raises(InvalidRequestError, match="nowhere"):
        plan_scan(snapshot, col("nowhere") == 1, columns=["path"])
    with pytest.raises(InvalidRequestError, match="no file column nowhere"):
        plan_scan(snapshot, columns=["nowhere"])


def test_an_explanation_shows_the_steps_and_why_files_stay(tmp_path: Path) -> None:
    schema = StructType((StructField("id", LONG), StructField("p", LONG)))
    stats = '{"numRecords":5,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
    with_stats, without = (
        AddFile(path=f"{p}", size=1024 * p, partition_values={"p": f"{p}"}, modification_time=0)
        for p in (2, 1)
    )
    adds = [replace(with_stats, stats=stats), without]
    log = create(tmp_path, schema, adds, partition_by=("p",))
    plan = da.explain_scan(log, "id > 9")
    assert str(plan) == "\n".join(
        [
            f"{log.uri} at version 0: 1 of 2 files, 1 KiB of 3 KiB",
            "condition for files: `id` > 9",
            "step              files   size",
            "live files            2  3 KiB",
            "statistics of id      1  1 KiB",
            "The condition compares no partition column with a literal, so partition values leave "
            "out no file; the table is partitioned by p.",
            "The statistics of 1 file have no bounds of id, so conditions on it cannot leave out "
            "these files; backfill the statistics of the table.",
        ]
    )
    assert plan.max_rows is None
    assert da.explain_scan(log, "p = 2").max_rows == 5
    assert da.explain_scan(log, "p = 2").notes() == []
    (note,) = da.explain_scan(log).notes()
    assert note == "There is no condition, so every live file is read."
    (note,) = da.explain_scan(log, "id + p > 3").notes()
    assert note.startswith("No part of the condition compares a column with a literal")


@pytest.mark.parametrize(
    ("predicate", "note"),
    [
        pytest.param("id = 77", None, id="no file is left"),
        pytest.param("false", None, id="no row matches"),
        pytest.param("data = X'31'", "no bounds of columns of type binary", id="a type"),
        pytest.param("nested.x > 0", None, id="a field with bounds"),
        pytest.param("1 = 1", "No part of the condition", id="no column"),
    ],
)
def test_notes_say_why_files_stay(tmp_path: Path, predicate: str, note: str | None) -> None:
    da.write(tmp_path, pa.table({"id": [1], "data": [b"1"], "nested": [{"x": 1}]}))
    notes = da.explain_scan(tmp_path, predicate).notes()
    assert [note in each for each in notes if note] == [True] * len(notes) == [True] * bool(note)


def test_deleted_rows_do_not_count_as_rows(tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    da.write(tmp_path, pa.table({"id": range(100)}), configuration=properties)
    da.delete(tmp_path, col("id") < 3)
    plan = da.explain_scan(tmp_path, col("id") < 50)
    assert (len(plan), plan.num_deletion_vectors, plan.max_rows) == (1, 1, 97)
    assert da.explain_scan(tmp_path, version=0).max_rows == 100


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["nowhere = 1"], InvalidRequestError, "nowhere"),
        (["id = 'x'"], InvalidRequestError, "id"),
        ([7], InvalidRequestError, "explain_scan: predicate is 7"),
        ([None, 9], VersionNotFoundError, "version 9"),
    ],
    ids=["no such column", "another type", "no condition", "no such version"],
)
def test_an_explanation_of_bad_input_is_refused(
    four_files: Path, arguments: list[Any], error: type[Exception], message: str
) -> None:
    predicate, *versions = arguments
    with pytest.raises(error, match=message) as caught:
        da.explain_scan(four_files, predicate, **({"version": versions[0]} if versions else {}))
    assert str(caught.value).count("\n") == 0


@pytest.fixture(scope="module")
def random_rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Snapshot, list[Any]]:
    """Files of random rows of every type: of a checkpoint, of later commits, with deleted rows."""
    root, random = tmp_path_factory.mktemp("random_rows"), seeded(0)
    choices = {path: [None, *FEW[data_type]] for path, data_type in TYPES.items()}
    choices[("p",)] = ["a"]
    choices[("q",)] = [None, -0.0]  # NaN is rejected in a partition column

    def row() -> dict[str, Any]:
        values = {path: random.choice(choice) for path, choice in choices.items()}
        struct = {"x": values.pop(("st", "x")), "y": values.pop(("st", "y"))}
        return {name: value for (name,), value in values.items()} | {"st": struct}

    for number in range(5):
        rows = pa.Table.from_pylist([row() for _ in range(3)], arrow_schema_from_schema(SCHEMA))
        properties = None if number else {"delta.enableDeletionVectors": "true"}
        da.write(root, rows, partition_by=["p", "q"], configuration=properties)
        if number == 3:
            da.delete(root, col("i") == FEW[TYPES[("i",)]][0])
            create_checkpoint(DeltaLog(root))
    snapshot = DeltaLog(root).snapshot()
    return snapshot, da.to_table(snapshot).to_pylist()


@settings(max_examples=25, deadline=None)
@given(predicate=predicates())
def test_rows_of_a_pruned_scan_are_those_of_a_full_scan(
    random_rows: tuple[Snapshot, list[Any]], predicate: Predicate
) -> None:
    snapshot, full = random_rows
    counts = [step.num_files for step in plan_scan(snapshot, predicate).steps]
    pruned = da.to_table(snapshot, predicate=predicate).to_pylist()
    expected = [each for each in full if evaluate(predicate, each)]
    assert sorted(map(repr, pruned)) == sorted(map(repr, expected))
    assert counts == sorted(counts, reverse=True)
