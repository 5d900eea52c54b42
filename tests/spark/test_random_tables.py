"""Random tables with every type at every depth, read by Spark and by Arrow: equal rows.

The session has its own time zone. Columns have other names in files, were added later or were
dropped; some have no type; rows are deleted by vectors. The changes of each commit are compared as
well.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.protocol.actions import Action, AddFile
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.values.partition_values import serialize
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import commit, create, data_file, inline_vector, stored_vector
from tests.spark.frames import rows_of, sorted_texts
from tests.support.random_tables import COMPARABLE, Drawn

pytestmark = pytest.mark.spark

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("way", "seed"),
    [
        ("file index", 0),
        ("file list", 1),
        *(
            pytest.param(way, seed, marks=pytest.mark.full)
            for seed, way in enumerate(["file index", "file list"] * 3, start=2)
        ),
    ],
    indirect=["way"],
)
def test_rows_and_changes_of_random_tables_match_arrow(
    tmp_path: Path, in_new_york: SparkSession, way: str, seed: int
) -> None:
    drawn = Drawn(seed, is_mapped=seed % 2 == 1)
    partition = drawn.field(COMPARABLE[seed * 7 % len(COMPARABLE)])
    columns = tuple(drawn.field(drawn.type(3)) for _ in range(8))
    columns += tuple(map(drawn.field, drawn.random.sample(COMPARABLE, 4)))
    schema = StructType((*columns[:3], partition, *columns[3:]))
    name = physical_name(partition) if drawn.is_mapped else partition.name

    def draw_file(number: int) -> AddFile:
        count = drawn.random.choice((1, 5, 40))
        value = drawn.value(partition.data_type)
        return data_file(
            tmp_path,
            f"{number}.parquet",
            drawn.rows(StructType(columns), count),
            partition_values={name: serialize(value, partition.data_type)},
            deletion_vector=draw_vector(count),
        )

    def draw_vector(count: int) -> Any:
        if drawn.random.random() < 0.4:
            return None
        deleted = [row for row in range(count) if drawn.random.random() < 0.3]
        vector = inline_vector(deleted), stored_vector(tmp_path, deleted)
        return drawn.random.choice(vector)

    configuration = {**FEED, **({"delta.columnMapping.mode": "name"} if drawn.is_mapped else {})}
    log = create(tmp_path, schema, [], configuration, (partition.name,))
    live = [draw_file(number) for number in range(5)]
    commit(log, 1, live)
    changed = [replace(each, deletion_vector=draw_vector(1)) for each in live[:2]]
    gone = [tombstone(each, 0, data_change=True) for each in live[:3]]
    actions: list[Action] = [*gone, *changed]
    commit(log, 2, actions)

    by_arrow = da.to_table(log)
    assert sorted_texts(rows_of(ds.read(in_new_york, log))) == sorted_texts(by_arrow.to_pylist())
    changes = da.read_changes(log, 0).read_all()
    found = rows_of(ds.read_changes(in_new_york, log, 0))
    assert sorted_texts(found) == sorted_texts(changes.to_pylist())
    assert len(changes) > len(by_arrow)
