"""The equality matrix, tables by ways to read: Spark reads the same rows as Arrow.

`make test` has each table once, and each way with each kind of feature. The tests of the commands
compare Spark's result of each command with Arrow's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import DataFileError, DeltaOpsError, InvalidRequestError
from delta_ops.spark.installed_version import VERSION
from delta_ops.spark.versions import VARIANTS
from tests.spark.frames import rows_of, sorted_texts
from tests.spark.made_tables import MADE_TABLES
from tests.support.tables import SHARED, needs_shared

pytestmark = pytest.mark.spark

IDS = "spark.sql.parquet.fieldId.read.enabled"
INDEX, LIST = "file index", "file list"
OF_OTHERS = {
    f"{path.parent.name}/{path.name}": path / "delta" if (path / "delta").exists() else path
    for path in sorted(SHARED.glob("data/tables/*/*"))
}
LARGE = ("delta_rs/COVID-19_NYT", "golden/parquet-decimal-dictionaries")
"""Tables of a million rows."""
BY_LIST = (
    "delta_rs/checkpoint_with_partitions",  # whose files are gone
    "delta_rs/delta-0.8-empty",
    "delta_rs/delta-0.8.0-special-partition",
    "delta_rs/simple_table_features",  # with an unknown feature
    "delta_rs/spark-shredded-variant-preview-delta",
    "golden/data-reader-escaped-chars",
    "golden/data-reader-timestamp_ntz-name-mode",
    "golden/data-skipping-basic-stats-all-types-columnmapping-id",
    "golden/dv-partitioned-with-checkpoint",
    "golden/kernel-timestamp-int96",
    "kernel/stats-writing-all-types",
    "kernel/v2-checkpoints-json-with-sidecars",
    "kernel/void-column",
)
"""A table of each kind, for `make test` to read by the file list."""


@pytest.fixture
def by_ids(spark: SparkSession, way: str) -> Iterator[SparkSession]:
    """The session; columns matched by ids need a setting when files are listed."""
    spark.conf.set(IDS, str(way == LIST).lower())
    yield spark
    spark.conf.unset(IDS)


@pytest.mark.some_cases(25)
@needs_shared
@pytest.mark.parametrize(
    ("name", "way"),
    [
        *(
            pytest.param(
                name,
                LIST if name in BY_LIST else INDEX,
                marks=pytest.mark.full if name in LARGE else (),
            )
            for name in OF_OTHERS
        ),
        *(pytest.param(name, INDEX, marks=pytest.mark.full) for name in BY_LIST),
    ],
    indirect=["way"],
)
def test_tables_by_other_writers_have_the_rows_of_arrow(by_ids: SparkSession, name: str) -> None:
    table = OF_OTHERS[name]
    try:
        by_arrow = da.to_table(DeltaLog(table))
    except DeltaOpsError as error:
        # Spark reports missing files by its own errors.
        reported = Exception if isinstance(error, DataFileError) else type(error)
        with pytest.raises(reported):
            ds.read(by_ids, table).collect()
        return
    if VERSION < VARIANTS and '"variant"' in DeltaLog(table).snapshot().metadata.schema_string:
        with pytest.raises(InvalidRequestError, match=r"variant needs Spark 4\.0"):
            ds.read(by_ids, table)
        return
    assert_same_rows(ds.read(by_ids, table), by_arrow)


def assert_same_rows(found: DataFrame, by_arrow: pa.Table) -> None:
    assert found.columns == by_arrow.column_names
    if len(by_arrow) > 50_000:  # these are flat
        order = [(name, "ascending") for name in found.columns]
        of_spark = found.toArrow().cast(by_arrow.schema)
        assert of_spark.sort_by(order).equals(by_arrow.sort_by(order))
    else:
        assert sorted_texts(rows_of(found)) == sorted_texts(by_arrow.to_pylist())


@pytest.mark.some_cases(6)
@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("vectors of many sizes", INDEX),
        ("vectors that delete nothing beside others", INDEX),
        ("columns mapped by id", INDEX),
        ("columns of no type and a vector", INDEX),
        ("fields of no type mapped by name", INDEX),
        ("vectors of more files than a map of paths holds", LIST),
        ("a vector that deletes nothing", LIST),
        ("a column by Spark's name for its own", LIST),
        ("partitions of one directory", LIST),
        ("columns mapped by name", LIST),
        ("columns of no type", LIST),
        ("only columns of no type", LIST),
        pytest.param("other vectors of many sizes", LIST, marks=pytest.mark.full),
        pytest.param("vectors that delete nothing beside others", LIST, marks=pytest.mark.full),
        pytest.param("columns mapped by id", LIST, marks=pytest.mark.full),
        pytest.param("columns of no type and a vector", LIST, marks=pytest.mark.full),
        pytest.param("fields of no type mapped by id", INDEX, marks=pytest.mark.full),
        pytest.param("a column by Spark's name for its own", INDEX, marks=pytest.mark.full),
        pytest.param("partitions of one directory", INDEX, marks=pytest.mark.full),
        pytest.param("columns mapped by name", INDEX, marks=pytest.mark.full),
        pytest.param("only columns of no type", INDEX, marks=pytest.mark.full),
    ],
    indirect=["way"],
)
def test_tables_of_each_feature_have_the_rows_of_arrow(
    tmp_path: Path, by_ids: SparkSession, name: str
) -> None:
    made = MADE_TABLES[name](tmp_path)
    by_arrow = da.to_table(made.log)
    assert_same_rows(ds.read(by_ids, made.log), by_arrow)
    first = by_arrow.column_names[:1]
    assert ds.read(by_ids, made.log, first).count() == len(by_arrow)
    for predicate in made.predicates:
        found = ds.read(by_ids, made.log, first, predicate)
        assert found.count() == da.count_rows(made.log, predicate), predicate
