"""Deletes, updates and merges of random rows, by us and by delta-spark on a copy of the table.

The rows, the change data feed and the row counts in the metrics are equal.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, parse_expression
from delta_ops.errors import InvalidRequestError
from tests.arrow.test_merged_rows import (
    BY_KIND,
    MATCHED,
    ON,
    AmbiguousError,
    Clause,
    Condition,
    Row,
    add_clause,
    meets,
    model,
    table_of,
)
from tests.peers.delta_spark import DeltaSpark, DeltaSparkError
from tests.support.tables import rows
from tests.support.tiers import seeded

SEEDS = [
    *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3)),
    *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 28)),
]
CONDITIONS = (
    "n = 1",
    "n <= 1 OR t = 'a'",
    "NOT (n = 1)",
    "k IS NULL",
    "k IN (1, 3, 5)",
    "t = 'a'",
    "t = 'b' AND k > 2",
    "coalesce(n, 0) < 2",
    "k % 2 = 1",
    "true",
    "k = 77",
)
ASSIGNMENTS: Sequence[dict[str, str]] = (
    {"n": "n + 1"},
    {"t": "'u'"},
    {"n": "CASE WHEN n > 1 THEN k ELSE 9 END", "t": "NULL"},
    {"k": "n", "n": "k"},
    {"tags": "NULL"},
)
ACTIONS = {
    "update all": "UPDATE SET k = source.k, n = source.n, tags = source.tags",
    "update": "UPDATE SET n = CASE WHEN target.n > 1 THEN source.n ELSE 9 END, tags = array('new')",
    "delete": "DELETE",
    "insert all": "INSERT *",
    "insert": "INSERT (k, t) VALUES (source.k, 'i')",
    "update others": "UPDATE SET t = 'o'",
    "delete others": "DELETE",
}
COLUMNS_OF_CHANGES = ["k", "t", "n", "tags", "_change_type"]
COPIED, WRITTEN = "numTargetRowsCopied", "numOutputRows"
BY_SOURCE = "NOT MATCHED BY SOURCE"
KINDS_BY_MATCH = {
    "MATCHED": MATCHED,
    "NOT MATCHED": ("insert all", "insert"),
    BY_SOURCE: ("update others", "delete others"),
}


class Drawn:
    """Two copies of a table, and random choices of its rows by a seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = seeded(seed)
        self.ours, self.theirs = folder / "ours", folder / "theirs"
        self.by_vectors = self.random.random() < 0.5
        properties = {
            "delta.enableChangeDataFeed": "true",
            "delta.enableDeletionVectors": str(self.by_vectors).lower(),
        }
        partition_by = self.random.choice((None, ["t"]))
        self.before: list[Row] = []
        for _ in range(self.random.randint(1, 3)):
            listed = self.rows(self.random.randint(1, 8))
            given = table_of(listed)
            da.write(self.ours, given, partition_by=partition_by, configuration=properties)
            self.before += listed
        shutil.copytree(self.ours, self.theirs)
        self.version = DeltaLog(self.ours).snapshot().version

    def rows(self, count: int) -> list[Row]:
        choose = self.random.choice
        return [
            {
                "k": choose((None, *range(7))),
                "t": choose((None, "a", "b")),
                "n": choose((None, *range(4))),
                "tags": choose((None, [], ["x"])),
            }
            for _ in range(count)
        ]

    def clauses(self) -> list[Clause]:
        kinds = self.random.choices([*BY_KIND], k=self.random.randint(1, 4))
        return [Clause(kind, self.random.choice(BY_KIND[kind])) for kind in kinds]


def assert_same(drawn: Drawn, delta_spark: DeltaSpark) -> None:
    """Assert that both tables and their changes, if any, are equal."""
    found = rows(da.to_table(drawn.ours))
    assert found == rows(da.to_table(drawn.theirs))
    assert found == rows(delta_spark.read(drawn.ours))
    delta_spark.validate(drawn.ours)
    of_ours, of_theirs = (
        next(iter(DeltaLog(each).history(limit=1))) for each in (drawn.ours, drawn.theirs)
    )
    first = str(drawn.version + 1)
    reported_values: list[Row] = []
    if of_theirs.version > drawn.version:
        reported_values = rows(
            delta_spark.changes(drawn.theirs, startingVersion=first).select(COLUMNS_OF_CHANGES)
        )
    if of_ours.version == drawn.version:
        assert reported_values == []
        return
    assert (
        rows(pa.table(da.read_changes(drawn.ours, int(first))).select(COLUMNS_OF_CHANGES))
        == reported_values
    )
    assert (
        rows(delta_spark.changes(drawn.ours, startingVersion=first).select(COLUMNS_OF_CHANGES))
        == reported_values
    )
    reported, expected = (
        counts_of_rows(each.operation_metrics or {}) for each in (of_ours, of_theirs)
    )
    # The reference rewrites every row of a file with matching rows, even if none changes.
    assert reported.pop(COPIED, 0) <= expected.pop(COPIED, 0)
    assert expected
    assert {name: reported.get(name) for name in expected} == expected


def counts_of_rows(metrics: Mapping[str, str]) -> dict[str, int]:
    """Row counts of the metrics; the written rows exclude copied rows."""
    found = {n: int(v) for n, v in metrics.items() if n.startswith("num") and "Row" in n}
    if WRITTEN in found:
        found[WRITTEN] -= found.get(COPIED, 0)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_merge_is_the_references(tmp_path: Path, delta_spark: DeltaSpark, seed: int) -> None:
    drawn = Drawn(seed + 2000, tmp_path)
    sources = drawn.rows(drawn.random.randint(0, 5))
    on, clauses = drawn.random.choice(ON), drawn.clauses()
    pq.write_table(table_of(sources), tmp_path / "source.parquet")
    assert on.text
    merge = da.merge(drawn.ours, table_of(sources), on.text)
    for each in clauses:
        merge = add_clause(merge, each)
    reported = merge_text(drawn.theirs, tmp_path / "source.parquet", on, clauses)
    try:
        expected = model(drawn.before, sources, on, clauses)
    except AmbiguousError:
        with pytest.raises(InvalidRequestError, match=r"matches \d+ source rows"):
            merge.execute()
        with pytest.raises(DeltaSparkError, match="DELTA_MULTIPLE_SOURCE_ROW_MATCHING"):
            delta_spark.sql(reported)
        return
    merge.execute()
    if is_refused_by_reference_alone(drawn.before, sources, on, clauses):
        with pytest.raises(DeltaSparkError, match="DELTA_MULTIPLE_SOURCE_ROW_MATCHING"):
            delta_spark.sql(reported)
        assert rows(da.to_table(drawn.ours)) == rows(table_of(expected))
        return
    delta_spark.sql(reported)
    assert_same(drawn, delta_spark)


def is_refused_by_reference_alone(
    targets: Sequence[Row], sources: Sequence[Row], on: Condition, clauses: Sequence[Clause]
) -> bool:
    """Whether several source rows match one target row, and no clause covers matched rows.

    The merge is unambiguous then, but the reference also checks clauses for other rows.
    """
    kinds = {clause.kind for clause in clauses}
    is_silent = kinds.isdisjoint(MATCHED) and not kinds.isdisjoint(KINDS_BY_MATCH[BY_SOURCE])
    return is_silent and any(
        sum(meets(target, source, on) for source in sources) > 1 for target in targets
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_delete_is_the_references(tmp_path: Path, delta_spark: DeltaSpark, seed: int) -> None:
    drawn = Drawn(seed, tmp_path)
    condition = drawn.random.choice(CONDITIONS)
    da.delete(drawn.ours, parse_expression(condition))
    delta_spark.sql(f"DELETE FROM delta.`{drawn.theirs}` WHERE {condition}")
    assert_same(drawn, delta_spark)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_update_is_the_references(tmp_path: Path, delta_spark: DeltaSpark, seed: int) -> None:
    drawn = Drawn(seed + 1000, tmp_path)
    condition = drawn.random.choice(CONDITIONS)
    assignments = drawn.random.choice(ASSIGNMENTS)
    da.update(drawn.ours, assignments, parse_expression(condition))
    recorded = ", ".join(f"{name} = {text}" for name, text in assignments.items())
    delta_spark.sql(f"UPDATE delta.`{drawn.theirs}` SET {recorded} WHERE {condition}")
    assert_same(drawn, delta_spark)


def merge_text(table: Path, source: Path, on: Condition, clauses: Sequence[Clause]) -> str:
    """The merge as SQL: only the last clause of a kind may omit its condition."""
    text = f"MERGE INTO delta.`{table}` AS target USING parquet.`{source}` AS source ON {on.text}"
    for match, kinds in KINDS_BY_MATCH.items():
        among = [clause for clause in clauses if clause.kind in kinds]
        for each in among:
            condition = each.condition.text or ("" if each is among[-1] else "true")
            text += f" WHEN {match}{condition and ' AND '}{condition} THEN {ACTIONS[each.kind]}"
    return text
