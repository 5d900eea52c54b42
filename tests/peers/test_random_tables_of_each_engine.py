"""Random tables, written by each engine and read by each: equal rows, equal statistics.

The sessions of Spark, ours and delta-spark's, are in New York, where one hour in autumn repeats.

Left out, because some engine cannot write them:

- columns of type void and variant, which deltalake and our engines do not write;
- column mapping and deletion vectors, which only delta-spark writes: all others read them;
- years before 1 and after 9999, which Python cannot represent;
- partition values that `is_for_partitions` and `is_for_deltalake` exclude.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.protocol.schema import (
    BINARY,
    DOUBLE,
    LONG,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    leaves,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.schema.column_names import quote
from tests.peers.delta_spark import DeltaSpark
from tests.peers.file_statistics import (
    NEW_YORK,
    bounds_of,
    holds,
    is_equal,
    is_nan,
    is_same,
    is_same_by_deltalake,
    value_at,
)
from tests.spark.frames import rows_of, sorted_texts
from tests.support.random_tables import COMPARABLE, DrawnAtEdges, edges_of

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 15))]
FEWER_SEEDS = [pytest.param(0, marks=pytest.mark.full), *SEEDS[1:6]]

Rows = list[dict[str, Any]]
Readers = Mapping[str, Callable[[Path], Rows]]


class Table(NamedTuple):
    """Columns and rows as drawn."""

    fields: tuple[StructField, ...]
    columns: list[list[Any]]
    partition_by: tuple[str, ...] = ()

    def data(self, start: int = 0, stop: int | None = None) -> pa.Table:
        schema = arrow_schema_from_schema(StructType(self.fields))
        columns = zip(self.columns, schema.types, strict=True)
        arrays = [pa.array(values[start:stop], data_type) for values, data_type in columns]
        return pa.Table.from_arrays(arrays, schema=schema)


@pytest.fixture
def in_their_new_york(delta_spark: DeltaSpark) -> Iterator[DeltaSpark]:
    delta_spark.sql(f"SET {ZONE} = {NEW_YORK}")
    yield delta_spark
    delta_spark.sql(f"SET {ZONE} = UTC")


@pytest.fixture
def readers(in_new_york: SparkSession, in_their_new_york: DeltaSpark) -> Readers:
    """Every engine's way to read a table."""
    return {
        "Arrow": lambda table: da.to_table(DeltaLog(table)).to_pylist(),
        "Spark": lambda table: rows_of(ds.read(in_new_york, table)),
        "delta-spark": lambda table: in_their_new_york.read(table).to_pylist(),
        "deltalake": read_by_deltalake,
    }


def read_by_deltalake(table: Path) -> Rows:
    query = QueryBuilder().register("t", DeltaTable(str(table)))
    found: Rows = pa.table(query.execute("SELECT * FROM t").read_all()).to_pylist()
    return found


def draw_table(
    drawn: DrawnAtEdges, *, is_partitioned: bool, counts: Sequence[int] = (1, 4, 40)
) -> Table:
    """A table with one column of every type and nested columns, with one of these row counts."""
    fields = [drawn.field(each) for each in COMPARABLE]
    fields += [drawn.field(drawn.type(3)) for _ in range(8)]
    fields += [drawn.field(drawn.struct(2)) for _ in range(2)]
    drawn.random.shuffle(fields)
    count = drawn.random.choice(counts)
    columns = [drawn.column(each.data_type, count) for each in fields]
    fields.insert(0, drawn.field(LONG))
    columns.insert(0, [*range(count)])
    if not is_partitioned:
        return Table(tuple(fields), columns)
    partition = drawn.field(drawn.random.choice(COMPARABLE))
    values = [each for each in edges_of(partition.data_type) if is_for_partitions(each)]
    few = [None, *drawn.random.sample(values, min(2, len(values)))]
    columns.insert(3, [drawn.random.choice(few) for _ in range(count)])
    return Table((*fields[:3], partition, *fields[3:]), columns, (partition.name,))


def is_for_partitions(value: Any) -> bool:
    """Whether every engine can use a value in a directory name and read it back.

    File names have at most 255 bytes. Spark rejects bytes that are not text, and the character NUL.
    An empty text is null to all engines except deltalake. Partition values have no negative zero,
    and we reject NaN. delta-spark writes an instant in its session's time zone, where one hour in
    autumn repeats.
    """
    match value:
        case datetime(tzinfo=tzinfo) if tzinfo is not None and 1900 < value.year < 2100:
            here = value.astimezone(ZoneInfo(NEW_YORK))
            return here.utcoffset() == here.replace(fold=1 - here.fold).utcoffset()
        case str() | bytes():
            in_bytes = value if isinstance(value, bytes) else value.encode()
            return 0 < len(value) < 16 and not {0, 255} & set(in_bytes)
        case float():
            return repr(value) not in ("-0.0", "nan")
    return True


def is_for_deltalake(table: Table) -> bool:
    """Whether deltalake can write and read these partition values.

    It has its own text form for negative decimals, large doubles and bytes.
    """
    partitions = [each.data_type for each in table.fields if each.name in table.partition_by]
    return not any(each in (BINARY, DOUBLE) or isinstance(each, DecimalType) for each in partitions)


def texts(rows: Rows) -> list[str]:
    """Rows to compare, independent of the names of columns and struct fields."""
    return sorted_texts(map(_without_names, rows))


def _without_names(value: Any) -> Any:
    match value:
        case dict():
            return tuple(map(_without_names, value.values()))
        case list():
            return list(map(_without_names, value))
        case tuple():
            return tuple(map(_without_names, value))
    return value


def assert_no_row_is_lost(table: Path, rows: Rows) -> None:
    """A filter by each column's greatest and least value finds those rows."""
    log = DeltaLog(table)
    for path, data_type in leaves(log.snapshot().schema):
        if isinstance(data_type, ArrayType | MapType):
            continue
        values = [value for row in rows if (value := value_at(row, path)) is not None]
        for wanted in {
            repr(each): each for each in (*values[:1], *values[-1:], *_ends(values))
        }.values():
            expected = sum(is_equal(value, wanted) for value in values)
            found = da.count_rows(log, col(*map(quote, path)) == wanted)
            assert found == expected, (path, wanted)


def _ends(values: Sequence[Any]) -> Iterable[Any]:
    known = [each for each in values if not is_nan(each)]
    return (min(known), max(known)) if known else ()


@pytest.mark.full
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_and_statistics_are_the_same(
    tmp_path: Path,
    in_new_york: SparkSession,
    in_their_new_york: DeltaSpark,
    readers: Readers,
    seed: int,
) -> None:
    drawn, peer = DrawnAtEdges(seed), in_their_new_york
    table = draw_table(drawn, is_partitioned=seed % 2 == 1)
    source_data, by = table.data(), table.partition_by
    indexed = {"delta.dataSkippingNumIndexedCols": drawn.random.choice(("-1", "32", "5"))}
    pq.write_table(source_data, tmp_path / "given.parquet")
    frame = in_new_york.read.parquet(str(tmp_path / "given.parquet")).coalesce(1)
    arrow, spark, theirs, rust = (tmp_path / name for name in ("arrow", "spark", "theirs", "rust"))
    da.write(arrow, source_data, partition_by=by or None, configuration=indexed)
    ds.write(frame, spark, partition_by=by or None, configuration=indexed)
    peer.write(theirs, source_data, partition_by=by, **indexed)
    tables = [arrow, spark, theirs]
    names = [*readers]
    if is_for_deltalake(table):
        write_deltalake(rust, source_data, partition_by=list(by) or None, configuration=indexed)
        tables.append(rust)
    else:
        names.remove("deltalake")

    rows = source_data.to_pylist()
    for written in tables:
        for name in names:
            assert texts(readers[name](written)) == texts(rows), f"{name} reads {written}"
        assert_no_row_is_lost(written, rows)
    assert_statistics_are_the_references((arrow, spark), theirs, rows, by[0] if by else None)


def assert_statistics_are_the_references(
    tables: Sequence[Path], theirs: Path, rows: Rows, partition: str | None
) -> None:
    expected = bounds_of(theirs, rows, partition)
    assert any(each.said is not None for each in expected.values())
    for written in tables:
        found = bounds_of(written, rows, partition)
        assert found.keys() == expected.keys()
        assert [each for each in found.values() if not holds(each)] == []
        pairs = [(found[key], expected[key]) for key in expected]
        assert [(one, other.said) for one, other in pairs if not is_same(one, other)] == []


@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_renames_and_vectors_leave_our_statistics_equal_to_the_references(
    tmp_path: Path,
    in_new_york: SparkSession,
    in_their_new_york: DeltaSpark,
    readers: Readers,
    seed: int,
) -> None:
    """delta-spark renames columns and deletes rows in files of each engine."""
    drawn, peer = DrawnAtEdges(seed + 2000), in_their_new_york
    table = draw_table(drawn, is_partitioned=False, counts=(40,))
    source_data, indexed = table.data(), {"delta.dataSkippingNumIndexedCols": "-1"}
    pq.write_table(source_data, tmp_path / "given.parquet")
    frame = in_new_york.read.parquet(str(tmp_path / "given.parquet")).coalesce(1)
    arrow, spark, theirs = tables = [tmp_path / name for name in ("arrow", "spark", "theirs")]
    da.write(arrow, source_data, configuration=indexed)
    ds.write(frame, spark, configuration=indexed)
    peer.write(theirs, source_data, **indexed)
    for written in tables:
        peer.sql(
            f"ALTER TABLE delta.`{written}` SET TBLPROPERTIES ('delta.minReaderVersion' = '3', "
            "'delta.minWriterVersion' = '7', 'delta.columnMapping.mode' = 'name', "
            "'delta.enableDeletionVectors' = 'true')"
        )
        renamed = rename_some(peer, written, table)
        key = renamed.fields[0].name
        peer.sql(f"DELETE FROM delta.`{written}` WHERE `{key}` % 3 = 1")

    rows = renamed.data().to_pylist()
    live = [row for row in rows if row[key] % 3 != 1]
    for written in tables:
        for name, read in readers.items():
            assert texts(read(written)) == texts(live), f"{name} reads {written}"
        assert_no_row_is_lost(written, live)
    assert_statistics_are_the_references((arrow, spark), theirs, rows, None)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 10))]
)
def test_statistics_of_deltalake_match_ours_except_for_its_own_rules(
    tmp_path: Path, seed: int
) -> None:
    table = draw_table(DrawnAtEdges(seed), is_partitioned=seed % 2 == 1)
    if not is_for_deltalake(table):
        table = draw_table(DrawnAtEdges(seed), is_partitioned=False)
    source_data, by = table.data(), table.partition_by
    # With a limit it counts whole structs as columns, while others count struct fields.
    indexed = {"delta.dataSkippingNumIndexedCols": "-1"}
    da.write(tmp_path / "ours", source_data, partition_by=by or None, configuration=indexed)
    write_deltalake(
        tmp_path / "theirs", source_data, partition_by=list(by) or None, configuration=indexed
    )
    found, expected = (
        bounds_of(tmp_path / name, source_data.to_pylist(), by[0] if by else None)
        for name in ("ours", "theirs")
    )
    assert found.keys() == expected.keys()
    pairs = [(found[key], expected[key]) for key in expected]
    assert [(a, b.said) for a, b in pairs if not is_same_by_deltalake(a, b)] == []
    assert_no_row_is_lost(tmp_path / "theirs", source_data.to_pylist())


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.full), *SEEDS[1:]])
def test_rows_of_renamed_columns_and_vectors_are_the_same(
    tmp_path: Path, in_their_new_york: DeltaSpark, readers: Readers, seed: int
) -> None:
    drawn, peer = DrawnAtEdges(seed + 1000), in_their_new_york
    drawn.separators = ". ,;(é="
    table = draw_table(drawn, is_partitioned=seed % 2 == 1, counts=(40,))
    properties = {
        "delta.columnMapping.mode": drawn.random.choice(("name", "id")),
        "delta.enableDeletionVectors": "true",
        "delta.dataSkippingNumIndexedCols": "-1",
    }
    half = len(table.columns[0]) // 2
    peer.write(tmp_path, table.data(0, half), partition_by=table.partition_by, **properties)
    peer.write(tmp_path, table.data(half))
    renamed = rename_some(peer, tmp_path, table)
    peer.sql(f"DELETE FROM delta.`{tmp_path}` WHERE `{renamed.fields[0].name}` % 3 = 1")
    peer.write(tmp_path, renamed.data())

    log = DeltaLog(tmp_path)
    assert log.snapshot().schema.fields[0].name == renamed.fields[0].name
    assert any(add.deletion_vector for add in log.snapshot().add_files())
    rows = renamed.data().to_pylist()
    rows += [row for row in rows if row[renamed.fields[0].name] % 3 != 1]
    for name, read in readers.items():
        if name != "deltalake" or is_for_deltalake(table):
            assert texts(read(tmp_path)) == texts(rows), name
    assert_no_row_is_lost(tmp_path, rows)


def rename_some(peer: DeltaSpark, place: Path, table: Table) -> Table:
    """The table after renames of columns and struct fields, with some names swapped."""
    fields, columns = [*table.fields], [*table.columns]

    def rename(*path: str, to: str) -> None:
        quoted = ".".join(f"`{name}`" for name in path)
        peer.sql(f"ALTER TABLE delta.`{place}` RENAME COLUMN {quoted} TO `{to}`")

    def rename_field(number: int, name: str) -> None:
        rename(fields[number].name, to=name)
        fields[number] = replace(fields[number], name=name)

    first, second = (fields[number].name for number in (1, 2))
    rename_field(1, "for now")
    rename_field(2, first)
    rename_field(1, second)
    for number, field in enumerate(fields):
        if isinstance(field.data_type, StructType):
            (inner, *others), new = field.data_type.fields, f"new {number}"
            rename(field.name, inner.name, to=new)
            struct = StructType((replace(inner, name=new), *others))
            fields[number] = replace(field, data_type=struct)
            columns[number] = [
                each and {new: each[inner.name], **{o.name: each[o.name] for o in others}}
                for each in columns[number]
            ]
    return Table(tuple(fields), columns, table.partition_by)
