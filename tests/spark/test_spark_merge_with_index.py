"""Merges of Spark into a table with an index: only files that hold a key of the source are read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.errors import DeltaOpsError
from delta_ops.maintenance import create_index
from delta_ops.transaction.merge import Merge
from tests.support.tables import destroy_files_without, rows

pytestmark = pytest.mark.spark

FILES = 12
INDEXED = ("id", "name", "day", "price")


def row(number: int, n: int = 0) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"name {number}",
        "day": date.fromordinal(700_000 + number),
        "price": Decimal(number) / 10,
        "n": n,
    }


def source_of(spark: SparkSession, numbers: Sequence[int]) -> DataFrame:
    types = "id LONG, name STRING, day DATE, price DECIMAL(10, 1), n LONG"
    return spark.createDataFrame([row(number, 9) for number in numbers], types)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve files with rows of their own, and bounds that all files share."""
    root = tmp_path_factory.mktemp("origin")
    for number in range(FILES):
        listed = [row(0), *(row(number * 10 + each) for each in range(1, 10)), row(1000)]
        table = pa.Table.from_pylist(listed)
        price = table["price"].cast(pa.decimal128(10, 1))
        da.write(root, table.set_column(3, "price", price))
    return root


@pytest.fixture
def table(origin: Path, tmp_path: Path) -> Path:
    shutil.copytree(origin, tmp_path / "t")
    return tmp_path / "t"


def upsert(root: Path, source: DataFrame, on: str) -> None:
    merge = ds.merge(root, source, on)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize(
    "name",
    [
        "id",
        *(pytest.param(each, marks=pytest.mark.full) for each in INDEXED if each != "id"),
    ],
)
def test_an_upsert_reads_only_files_with_a_key(table: Path, spark: SparkSession, name: str) -> None:
    create_index(table, f"by_{name}", name)
    destroy_files_without(table, [15, 55])
    upsert(table, source_of(spark, [15, 55, 57, 500]), f"target.{name} = source.{name}")
    written = da.to_table(table, predicate="n = 9").sort_by("id")
    assert written["id"].to_pylist() == [15, 55, 57, 500]


@pytest.mark.full
def test_a_clause_for_rows_without_a_match_reads_every_file(
    table: Path, spark: SparkSession
) -> None:
    create_index(table, "by_id", "id")
    merge = ds.merge(table, source_of(spark, [15]), "target.id = source.id")
    merge.when_not_matched_by_source_update({"n": "5"}).execute()
    assert sorted(da.to_table(table)["n"].to_pylist()) == [0, *[5] * (FILES * 11 - 1)]
    destroy_files_without(table, [15])
    merge = ds.merge(table, source_of(spark, [15]), "target.id = source.id")
    with pytest.raises((DeltaOpsError, PySparkException)):
        merge.when_not_matched_by_source_delete().execute()


@pytest.mark.full
@pytest.mark.parametrize(
    "on",
    [
        "target.id <=> source.id",
        "target.id = source.id AND target.n < 5",
        "target.id = source.id AND target.name = source.name",
        "target.id = source.id OR target.name = source.name",
        "target.id = source.id + 1",
        "target.day = source.day AND target.id > 20",
    ],
)
@pytest.mark.parametrize(
    "clauses",
    [
        pytest.param(
            lambda merge: merge.when_matched_update({"n": "source.n"}), id="update matches"
        ),
        pytest.param(
            lambda merge: merge.when_matched_delete().when_not_matched_insert_all(),
            id="delete matches and insert",
        ),
        pytest.param(lambda merge: merge.when_not_matched_insert_all(), id="insert"),
    ],
)
def test_a_merge_with_an_index_does_what_a_merge_without_does(
    tmp_path: Path,
    origin: Path,
    spark: SparkSession,
    on: str,
    clauses: Callable[[Merge], Merge],
) -> None:
    results = []
    for name in ("indexed", "plain"):
        root = shutil.copytree(origin, tmp_path / name)
        for column in INDEXED if name == "indexed" else ():
            create_index(root, column, column)
        clauses(ds.merge(root, source_of(spark, [15, 55, 57, 500]), on)).execute()
        results.append(sorted(map(repr, rows(da.to_table(root)))))
    assert results[0] == results[1]
