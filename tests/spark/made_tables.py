"""Tables of one feature each, in the form of other writers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from delta_ops import DeltaLog, col
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    VOID,
    ArrayType,
    MapType,
    StructField,
    StructType,
)
from tests.arrow import foreign_table
from tests.arrow.foreign_table import data_file, inline_vector, stored_vector
from tests.support.tiers import seeded

create = partial(
    foreign_table.create, features=("columnMapping", "deletionVectors", "typeWidening")
)
NUMBERS = StructType((StructField("n", LONG), StructField("p", STRING)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A table, and predicates on its rows."""

    log: DeltaLog
    predicates: Sequence[Predicate] = ()


def numbers(first: int, count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(first, first + count), pa.int64())})


def vectors_of_many_sizes(root: Path, *, seed: int) -> Made:
    drawn = seeded(seed)
    adds = []
    for number, count in enumerate((1, 70, 32_768, 32_769, 100_000, 5)):
        share = drawn.choice((0.0, 0.001, 0.3, 1.0))
        deleted = [row for row in range(count) if drawn.random() < share]
        add = data_file(
            root,
            f"f{number}.parquet",
            numbers(number << 20, count),
            partition_values={"p": drawn.choice(("x", "y z", None))},
            options={"row_group_size": 9_000},
        )
        vector = stored_vector(root, deleted) if number % 2 else inline_vector(deleted)
        adds.append(replace(add, deletion_vector=vector) if deleted else add)
    log = create(root, NUMBERS, adds, partition_by=("p",))
    return Made(log=log, predicates=[col("n") >= 4 << 20])


def inline_vectors(
    root: Path, vectors: Sequence[Sequence[int]], *, in_one_partition: bool = True
) -> Made:
    """A file of three rows for each vector."""
    adds = [
        data_file(
            root,
            f"{number}.parquet",
            numbers(10 * number, 3),
            partition_values={"p": "x" if in_one_partition else str(number)},
            deletion_vector=inline_vector(deleted),
        )
        for number, deleted in enumerate(vectors)
    ]
    return Made(log=create(root, NUMBERS, adds, partition_by=("p",)))


def partitions_of_one_directory(root: Path) -> Made:
    """More files than the list of files looks up in a map of paths."""
    adds = [
        data_file(
            root, f"{number}.parquet", numbers(number, 1), partition_values={"p": f"value {number}"}
        )
        for number in range(70)
    ]
    return Made(log=create(root, NUMBERS, adds, partition_by=("p",)))


def column_by_sparks_name(root: Path) -> Made:
    """Spark's own metadata column has the name `_metadata`."""
    row = StructType((StructField("row_index", LONG), StructField("file_path", STRING)))
    data = pa.table({"_metadata": [{"row_index": 2 - i, "file_path": "x"} for i in range(3)]})
    add = data_file(
        root,
        "f.parquet",
        data,
        partition_values={"p": "y"},
        deletion_vector=inline_vector([0]),
    )
    schema = StructType((StructField("_metadata", row), StructField("p", STRING)))
    return Made(log=create(root, schema, [add], partition_by=("p",)))


def mapped(name: str, physical: str, number: int, data_type: object = LONG) -> StructField:
    return StructField(
        name,
        data_type,  # type: ignore[arg-type]
        True,
        {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical},
    )


POINT = StructType((mapped("x", "col-x", 11), mapped("y", "col-y", 12)))
MAPPED = StructType(
    (
        mapped("a", "b", 1),  # the two columns have each other's name in files
        mapped("b", "a", 2),
        mapped("point", "col-p", 3, POINT),
        mapped("points", "col-ps", 4, ArrayType(POINT, True)),
        mapped("by name", "col-m", 5, MapType(STRING, POINT, True)),
        mapped("part", "col-part", 6, STRING),
    )
)
STORED_POINT = pa.struct(
    [
        pa.field("col-y", pa.int64(), metadata={"PARQUET:field_id": "12"}),
        pa.field("col-x", pa.int64(), metadata={"PARQUET:field_id": "11"}),
    ]
)


def stored(names: dict[str, str]) -> pa.Table:
    """Rows with ids in all columns, named by `names`."""
    types = {
        "b": (1, pa.int64(), [1, 2, None]),
        "a": (2, pa.int64(), [10, 20, 30]),
        "col-p": (3, STORED_POINT, [{"col-y": 1, "col-x": 2}, None, {"col-y": None, "col-x": 3}]),
        "col-ps": (4, pa.list_(STORED_POINT), [[{"col-y": 1, "col-x": 2}, None], [], None]),
        "col-m": (
            5,
            pa.map_(pa.string(), STORED_POINT),
            [[("k", {"col-y": 1, "col-x": 2})], [], None],
        ),
    }
    fields = [
        pa.field(names.get(name, name), data_type, metadata={"PARQUET:field_id": str(number)})
        for name, (number, data_type, _) in types.items()
    ]
    arrays = [pa.array(values, data_type) for _, data_type, values in types.values()]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def mapped_columns(root: Path, mode: str) -> Made:
    # With ids, another program may use any names in its files.
    names = {"a": "b", "b": "a", "col-p": "odd"} if mode == "id" else {}
    add = data_file(root, "f.parquet", stored(names), partition_values={"col-part": "north"})
    late = data_file(
        root,
        "late.parquet",
        stored({}).select(["a"]),
        partition_values={"col-part": None},
        deletion_vector=inline_vector([1]),
    )
    configuration = {"delta.columnMapping.mode": mode}
    log = create(root, MAPPED, [add, late], configuration, partition_by=("part",))
    return Made(log=log, predicates=[col("a") == 1, col("b") == 1, col("part") == "north"])


ONLY_VOID = StructType((StructField("n", VOID),))
WITH_VOID = StructType((StructField("a", LONG), StructField("n", VOID), StructField("b", LONG)))
VOIDS = StructType(
    (
        StructField("v", VOID),
        StructField("id", LONG),
        StructField("s", WITH_VOID),
        StructField("l", ArrayType(WITH_VOID)),
        StructField("m", MapType(STRING, StructType((StructField("s", WITH_VOID),)))),
        StructField("only", ONLY_VOID),
        StructField("p", VOID),
    )
)


def columns_of_no_type(root: Path, *, deletion_vector: DeletionVector | None) -> Made:
    point = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    one = {"a": 1, "b": 2}
    data = pa.table(
        {
            "id": [1, 2, 3],
            "s": pa.array([one, None, {"a": None, "b": None}], point),
            "l": pa.array([[one, None], [], None], pa.list_(point)),
            "m": pa.array(
                [[("k", {"s": one}), ("l", None)], [], None],
                pa.map_(pa.string(), pa.struct([("s", point)])),
            ),
        }
    )
    add = data_file(
        root,
        "f.parquet",
        data,
        partition_values={"p": None},
        deletion_vector=deletion_vector,
    )
    log = create(root, VOIDS, [add], partition_by=("p",))
    return Made(log=log, predicates=[col("v").is_null(), col("s", "a") == 1])


def only_columns_of_no_type(root: Path) -> Made:
    schema = StructType((StructField("v", VOID), StructField("only", ONLY_VOID)))
    return Made(log=create(root, schema, [data_file(root, "f.parquet", numbers(0, 3))]))


def mapped_fields_of_no_type(root: Path, mode: str) -> Made:
    place = StructType((*POINT.fields, mapped("nothing", "col-n", 13, VOID)))
    schema = StructType((mapped("b", "a", 2), mapped("place", "col-p", 3, place)))
    add = data_file(root, "f.parquet", stored({}))
    return Made(log=create(root, schema, [add], {"delta.columnMapping.mode": mode}))


MADE_TABLES: Mapping[str, Callable[[Path], Made]] = {
    "vectors of many sizes": partial(vectors_of_many_sizes, seed=0),
    "other vectors of many sizes": partial(vectors_of_many_sizes, seed=1),
    "vectors of more files than a map of paths holds": partial(
        inline_vectors, vectors=[[number % 3] for number in range(70)], in_one_partition=False
    ),
    "vectors that delete nothing beside others": partial(
        inline_vectors, vectors=[[1], [], [0, 2], []]
    ),
    "a vector that deletes nothing": partial(inline_vectors, vectors=[[]]),
    "partitions of one directory": partitions_of_one_directory,
    "a column by Spark's name for its own": column_by_sparks_name,
    "columns mapped by name": partial(mapped_columns, mode="name"),
    "columns mapped by id": partial(mapped_columns, mode="id"),
    "columns of no type": partial(columns_of_no_type, deletion_vector=None),
    "columns of no type and a vector": partial(
        columns_of_no_type, deletion_vector=inline_vector([1])
    ),
    "only columns of no type": only_columns_of_no_type,
    "fields of no type mapped by name": partial(mapped_fields_of_no_type, mode="name"),
    "fields of no type mapped by id": partial(mapped_fields_of_no_type, mode="id"),
}
