"""Layout advice: the promised effect of an order is the effect on reads."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.ddl import cluster_by, drop_columns, rename_column, set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import LayoutAdvice, advise, optimize
from delta_ops.planning.recorded_reads import record_read, recorded_reads
from delta_ops.protocol.predicate import Predicate, parse_predicate

FILE = 12_000
NUM_ROWS = 20_000
START = datetime(2026, 1, 1, tzinfo=UTC)
TableOf = Callable[..., DeltaLog]


def shuffled_rows(seed: int = 1) -> pa.Table:
    lots = random.Random(seed)
    ids, places = lots.sample(range(NUM_ROWS), NUM_ROWS), lots.sample(range(NUM_ROWS), NUM_ROWS)
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "time": [START + timedelta(minutes=n) for n in places],
            "price": pa.array([Decimal(n) / 100 for n in ids], pa.decimal128(9, 2)),
            "name": [f"customer {n:06}" for n in places],
            "weight": [float(n) for n in ids],
            "place": [{"x": n, "label": str(n)} for n in places],
            "is_new": [n % 2 == 0 for n in ids],
            "part": [lots.choice("ab") for _ in ids],
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds a table for each set of properties that a test has used."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def table_of(made: Path, tmp_path: Path) -> TableOf:
    """Makes a table of shuffled rows with these properties and write options."""

    def make(configuration: Mapping[str, str] = {}, **options: Any) -> DeltaLog:
        template = made / repr((sorted(configuration.items()), options))
        if not template.exists():
            write_shuffled(template, configuration, **options)
        return DeltaLog(shutil.copytree(template, tmp_path / "t"))

    return make


def write_shuffled(root: Path, configuration: Mapping[str, str], **options: Any) -> None:
    settings = {
        "delta_ops.recordReads": "true",
        "delta.targetFileSize": str(FILE),
        **configuration,
    }
    rows, count = shuffled_rows(), NUM_ROWS // 4
    da.write(root, rows.slice(0, count), configuration=settings, **options)
    for number in range(1, 4):
        da.write(root, rows.slice(number * count, count))


def read(log: DeltaLog, predicates: Iterable[Predicate]) -> list[Predicate]:
    """Predicates recorded from these reads; some slots are drawn more than once."""
    snapshot = log.snapshot()
    for each in predicates:
        record_read(snapshot, each)
    return [parse_predicate(each.predicate) for each in recorded_reads(snapshot.storage)]


def skipped(log: DeltaLog, predicates: Sequence[Predicate]) -> float:
    snapshot = log.snapshot()
    opened = [len(snapshot.add_files(each)) / snapshot.num_files for each in predicates]
    return 1 - sum(opened) / len(opened)


def promised(advice: LayoutAdvice, *columns: str) -> float:
    (found,) = [each.skipped for each in advice.layouts if each.columns == columns]
    return found


def some_numbers(count: int = 40) -> list[int]:
    return random.Random(3).sample(range(NUM_ROWS), count)


READS: Mapping[str, Callable[[int], Predicate]] = {
    "id": lambda n: col("id") == n,
    "time": lambda n: col("time") >= START + timedelta(minutes=n),
    "price": lambda n: col("price") < Decimal(n) / 100,
    "name": lambda n: col("name") == f"customer {n:06}",
    "weight": lambda n: col("weight") < float(n),
    "place.x": lambda n: (col("place", "x") > n) & (col("place", "x") < n + 500),
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("column", "mapping"),
    [
        ("id", "none"),
        ("name", "name"),
        ("place.x", "name"),
        *((column, "none") for column in ("time", "price", "weight", "place.x")),
    ],
)
def test_promises_about_a_column_are_kept(table_of: TableOf, column: str, mapping: str) -> None:
    log = table_of({"delta.columnMapping.mode": mapping})
    reads = read(log, map(READS[column], some_numbers()))
    advice = advise(log)
    assert [each.columns for each in advice.layouts] == [(column,)]
    assert (advice.num_reads, advice.num_left_out) == (len(reads), 0)
    assert advice.skipped_today == pytest.approx(skipped(log, reads))
    assert advice.skipped_today < 0.1
    optimize(log, zorder_by=[column], full=True)
    after = log.snapshot().num_files
    assert 0.5 < advice.num_files_after / after < 2
    assert promised(advice, column) == pytest.approx(skipped(log, reads), abs=0.08)
    assert promised(advice, column) > 0.2


@pytest.mark.full
def test_columns_that_are_filtered_by_turns_are_best_together(table_of: TableOf) -> None:
    log = table_of()
    numbers = some_numbers()
    reads = read(
        log, [READS[["id", "name"][place % 2]](number) for place, number in enumerate(numbers)]
    )
    advice = advise(log)
    best = advice.layouts[0]
    assert set(best.columns) == {"id", "name"}
    assert best.skipped > 0.1 + max(promised(advice, "id"), promised(advice, "name"))
    optimize(log, zorder_by=best.columns, curve="hilbert", full=True)
    assert best.skipped == pytest.approx(skipped(log, reads), abs=0.08)


@pytest.mark.full
def test_a_column_that_adds_nothing_is_not_advised(table_of: TableOf) -> None:
    log = table_of()
    read(log, [READS["id"](n) & (col("name") != "nobody") for n in some_numbers()])
    assert [each.columns for each in advise(log).layouts] == [("id",), ("name",)]


@pytest.mark.full
def test_partitions_are_laid_out_by_themselves(table_of: TableOf) -> None:
    log = table_of(partition_by=["part"])
    reads = read(log, [READS["id"](n) & (col("part") == "a") for n in some_numbers()])
    advice = advise(log)
    assert advice.skipped_today == pytest.approx(0.5)
    optimize(log, zorder_by=["id"], full=True)
    assert promised(advice, "id") == pytest.approx(skipped(log, reads), abs=0.05)


def test_advice_changes_nothing(table_of: TableOf) -> None:
    log = table_of()
    read(log, map(READS["id"], some_numbers()))
    root = Path(log.uri)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    advise(log)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_reads_that_no_longer_fit_are_left_out(table_of: TableOf) -> None:
    log = table_of({"delta.columnMapping.mode": "name"})
    lost = read(log, map(READS["name"], some_numbers(5)))
    rename_column(log, "name", "title")
    drop_columns(log, ["weight"])
    both = read(log, [*map(READS["id"], some_numbers(5)), col("is_new") == True])  # noqa: E712
    advice = advise(log)
    assert [each.columns for each in advice.layouts] == [("id",)]
    assert advice.num_reads + advice.num_left_out == len(both)
    assert 0 < advice.num_left_out <= len(lost) + 1


def test_columns_without_statistics_are_not_advised(table_of: TableOf) -> None:
    log = table_of({"delta.dataSkippingStatsColumns": "time"})
    read(log, [READS["id"](n) & READS["time"](n) for n in some_numbers()])
    assert [each.columns for each in advise(log).layouts] == [("time",)]


def test_missing_files_are_reported(table_of: TableOf) -> None:
    log = table_of({"delta_ops.recordReads": "false"})
    with pytest.raises(InvalidRequestError, match=r"set delta_ops\.recordReads to true"):
        advise(log)
    set_properties(log, {"delta_ops.recordReads": "true"})
    with pytest.raises(InvalidRequestError, match="no read is recorded yet"):
        advise(log)
    read(log, [col("is_new") == True])  # noqa: E712
    with pytest.raises(InvalidRequestError, match="none of the 1 recorded reads"):
        advise(log)


@pytest.mark.full
def test_a_table_that_is_clustered_is_advised_too(table_of: TableOf) -> None:
    log = table_of()
    cluster_by(log, ["name"])
    optimize(log)
    read(log, map(READS["id"], some_numbers()))
    advice = advise(log)
    assert promised(advice, "id") > 0.8
    assert advice.skipped_today < 0.3


def test_an_empty_table_has_no_files_to_leave_out(table_of: TableOf) -> None:
    log = table_of()
    read(log, map(READS["id"], some_numbers()))
    da.delete(log)
    advice = advise(log)
    assert (advice.num_files, advice.num_files_after, advice.skipped_today) == (0, 0, 0)
    assert promised(advice, "id") == 0
