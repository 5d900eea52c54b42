"""Write modes, compared with delta-spark for the same rows and options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import StructType
from tests.peers.delta_spark import DeltaSpark, DeltaSparkError
from tests.support.tables import rows

FrameOf = Callable[[pa.Table], DataFrame]


@pytest.fixture
def frame_of(spark: SparkSession, tmp_path: Path) -> FrameOf:
    """Rows as a DataFrame of one task, with the types of the Parquet file."""

    def make(table: pa.Table) -> DataFrame:
        path = tmp_path / f"rows-{len(list(tmp_path.glob('rows-*')))}"
        pq.write_table(table, path)
        return spark.read.parquet(str(path)).coalesce(1)

    return make


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write, by both engines."""

    data: pa.Table
    mode: Any = "append"
    partition_by: tuple[str, ...] | None = None
    ours: Mapping[str, Any] = field(default_factory=dict)
    theirs: Mapping[str, str] = field(default_factory=dict)


def data(*ids: int, **columns: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), **columns})


def overwrite(table: pa.Table, partition_by: tuple[str, ...] | None = None, **both: Any) -> Write:
    """An overwrite with the reference's options, under our names."""
    theirs = {
        "partition_overwrite_mode": "partitionOverwriteMode",
        "merge_schema": "mergeSchema",
        "overwrite_schema": "overwriteSchema",
    }
    return Write(
        data=table,
        mode="overwrite",
        partition_by=partition_by,
        ours=both,
        theirs={theirs[name]: str(value).lower() for name, value in both.items()},
    )


def replacing(table: pa.Table, predicate: Any, text: str, **both: Any) -> Write:
    made = overwrite(table, **both)
    return Write(
        data=table,
        mode="overwrite",
        ours={**made.ours, "replace_where": predicate},
        theirs={**made.theirs, "replaceWhere": text},
    )


ABC = data(1, 2, 3, p=["a", "b", None], q=[1, 1, 2])
PARTITIONED = Write(data=ABC, partition_by=("p", "q"))
DYNAMIC: dict[str, Any] = {"partition_overwrite_mode": "dynamic"}
NESTED = pa.table(
    {
        "id": pa.array([1]),
        "s": pa.array([{"x": 1, "d": {"y": "y"}}]),
        "l": pa.array([[{"z": 1}]]),
        "m": pa.array([[("k", {"v": 1})]], pa.map_(pa.string(), pa.struct({"v": pa.int64()}))),
    }
)
MORE_NESTED = pa.table(
    {
        "n": pa.array([1.5]),
        "ID": pa.array([2]),
        "S": pa.array([{"D": {"new": 1, "Y": "z"}}]),
        "l": pa.array([[{"new": date(2024, 1, 1), "z": 2}]]),
        "m": pa.array([[("j", {"w": True})]], pa.map_(pa.string(), pa.struct({"w": pa.bool_()}))),
    }
)

CASES: Mapping[str, list[Write]] = {
    "a dynamic overwrite": [
        PARTITIONED,
        overwrite(data(10, 20, 30, p=["a", "b", None], q=[1, 2, 2]), **DYNAMIC),
    ],
    "a dynamic overwrite without partitions": [Write(data=ABC), overwrite(data(9), **DYNAMIC)],
    "a dynamic overwrite without rows": [PARTITIONED, overwrite(ABC.slice(0, 0), **DYNAMIC)],
    "new columns": [
        Write(data=NESTED),
        Write(data=MORE_NESTED, ours={"merge_schema": True}, theirs={"mergeSchema": "true"}),
    ],
    "new columns in an overwrite": [
        PARTITIONED,
        overwrite(data(9, p=["z"], q=[9], n=["n"]), merge_schema=True),
    ],
    "other columns": [
        Write(data=ABC),
        overwrite(pa.table({"q": ["x"], "new": [1.5], "ID": [1]}), overwrite_schema=True),
    ],
    "other partitions": [
        PARTITIONED,
        overwrite(data(9, p=[7], q=[9], n=["n"]), ("n",), overwrite_schema=True),
    ],
    "no partitions": [PARTITIONED, overwrite(ABC, (), overwrite_schema=True)],
    "a predicate on a data column": [
        Write(data=ABC),
        replacing(data(20, 30, p=["x", "y"], q=[1, 2]), col("id") >= 2, "id >= 2"),
    ],
    "a predicate that is null for a row": [
        Write(data=ABC),
        replacing(data(20, p=["x"], q=[1]), col("p") != "a", "p <> 'a'"),
    ],
    "a predicate and new columns": [
        PARTITIONED,
        replacing(data(20, p=["b"], q=[3], n=[1]), col("p") == "b", "p = 'b'", merge_schema=True),
    ],
}


def schema_of(table: Path) -> StructType:
    return DeltaLog(table).snapshot().schema


def parameters_of(table: Path) -> list[Mapping[str, Any]]:
    """The operation parameters of each commit."""
    history = [entry.operation_parameters for entry in DeltaLog(table).history()]
    # The reference prints predicates as Catalyst does, and records only an explicit partitioning.
    return [
        {**reported, "partitionBy": "", "predicate": "predicate" in reported}
        for reported in history
    ]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "new columns" else pytest.mark.full) for name in CASES],
)
def test_the_same_writes_make_the_same_table(
    tmp_path: Path, delta_spark: DeltaSpark, frame_of: FrameOf, name: str
) -> None:
    ours, theirs, arrow = tmp_path / "ours", tmp_path / "theirs", tmp_path / "arrow"
    for each in CASES[name]:
        source_data = [] if each.partition_by is None else each.partition_by
        delta_spark.write(theirs, each.data, each.mode, partition_by=source_data, **each.theirs)
        ds.write(frame_of(each.data), ours, each.mode, each.partition_by, **each.ours)
        da.write(arrow, each.data, each.mode, each.partition_by, **each.ours)
    expected = rows(delta_spark.read(theirs))
    for table in (ours, arrow):
        assert rows(delta_spark.read(table)) == expected == rows(da.to_table(table))
        assert delta_spark.validate(table)["has_checksum"]
        assert schema_of(table) == schema_of(theirs)
        columns = DeltaLog(table).snapshot().partition_columns
        assert columns == DeltaLog(theirs).snapshot().partition_columns
    # The reference commits nothing if there is no work.
    assert parameters_of(ours)[-len(parameters_of(theirs)) :] == parameters_of(theirs)


@pytest.mark.full
def test_one_table_is_written_by_both_in_turn(
    tmp_path: Path, delta_spark: DeltaSpark, frame_of: FrameOf
) -> None:
    table = tmp_path / "t"
    delta_spark.write(table, ABC, partition_by=["p"])
    ds.write(frame_of(data(4, p=["a"], n=[1.5])), table, merge_schema=True)
    options = {"mergeSchema": "true"}
    delta_spark.write(table, data(5, p=["b"], k=["x"]), **options)
    new = frame_of(data(6, p=["a"], q=[6]))
    ds.write(new, table, "overwrite", partition_overwrite_mode="dynamic")
    expected = [
        (2, "b", None, None),
        (3, None, None, None),
        (5, "b", None, "x"),
        (6, "a", None, None),
    ]
    for found in (delta_spark.read(table), da.to_table(table)):
        listed = [(r["id"], r["p"], r["n"], r["k"]) for r in rows(found)]
        assert sorted(listed, key=lambda row: row[0]) == expected


@pytest.mark.full
def test_constraints_are_kept_by_both(
    tmp_path: Path, delta_spark: DeltaSpark, frame_of: FrameOf
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    condition = "length(p) < 3 AND id % 2 = 1"
    delta_spark.write(theirs, data(1, p=["a"]))
    delta_spark.sql(f"ALTER TABLE delta.`{theirs}` ADD CONSTRAINT odd CHECK ({condition})")
    ds.write(frame_of(data(1, p=["a"])), ours, configuration={"delta.constraints.odd": condition})
    protocols = [DeltaLog(table).snapshot().protocol for table in (theirs, ours)]
    assert protocols[0] == protocols[1]
    for table in (theirs, ours):
        ds.write(frame_of(data(3, p=["b"])), table)
        delta_spark.write(table, data(5, p=["c"]))
        for broken in (data(2, p=["a"]), data(1, p=pa.nulls(1, pa.string()))):
            with pytest.raises(InvalidRequestError, match=r"CHECK constraint odd.*rows: 1"):
                ds.write(frame_of(broken), table)
            with pytest.raises(DeltaSparkError, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
                delta_spark.write(table, broken)
        assert [row["id"] for row in rows(delta_spark.read(table))] == [1, 3, 5]


@pytest.mark.full
def test_invariants_are_kept_by_both(
    tmp_path: Path, delta_spark: DeltaSpark, frame_of: FrameOf, spark: SparkSession
) -> None:
    """The reference takes identity columns only from a column's metadata."""
    table = tmp_path / "t"
    recorded = {"delta.invariants": json.dumps({"expression": {"expression": "id > 3"}})}
    table.mkdir()
    (table / "_delta_log").mkdir()
    field_ = {"name": "id", "type": "long", "nullable": True, "metadata": recorded}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "0" * 8,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": [field_]}),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    first = table / "_delta_log" / f"{0:020}.json"
    first.write_text("".join(json.dumps(action) + "\n" for action in actions))
    ds.write(frame_of(data(4)), table)
    delta_spark.write(table, data(5))
    with pytest.raises(InvalidRequestError, match=r"invariant of column id \(id > 3\)"):
        ds.write(frame_of(data(3)), table)
    with pytest.raises(DeltaSparkError, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        delta_spark.write(table, data(3))


def instant(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]  # a datetime's parts


INSTANT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
NAN, INFINITY = float("nan"), float("inf")
DESCRIBED = pa.table(
    {
        "byte": pa.array([-128, 127, None], pa.int8()),
        "long": pa.array([-(2**63), 2**63 - 1, None]),
        "float": pa.array([0.1, -1.5, None], pa.float32()),
        "double": [0.1, 1e300, None],
        "nan": [1.0, NAN, None],
        "infinite": [1.0, INFINITY, -INFINITY],
        "zero": [0.0, 0.0, None],
        "negative_zero": [0.0, -0.0, 0.0],
        "decimal_9_2": pa.array([Decimal("-1.50"), Decimal("9999999.99"), None]),
        "decimal_18_9": pa.array([Decimal("-1.5"), Decimal("0.1"), None], pa.decimal128(18, 9)),
        "decimal_38_10": pa.array([Decimal("-1"), Decimal("9" * 28), None], pa.decimal128(38, 10)),
        "text": ["b", "a", None],
        "empty": ["", "", None],
        "long_text": ["a" * 40, "z" * 40, None],
        "latin": ["é" * 40, "a" + "é" * 40, None],
        "chinese": ["漢" * 40, "字" * 40, None],
        "emoji": ["😀" * 40, "😀" * 20 + "x" * 30, None],
        "the_last_character": ["\U0010ffff" * 40, "a", None],
        "delete": ["\x7f" * 40, "a", None],
        "bytes": [b"a", b"b", None],
        "boolean": [True, False, None],
        "date": [date(1, 1, 1), date(9999, 12, 31), None],
        "instant": pa.array(
            [instant(2024, 1, 1), instant(2024, 1, 2, 3, 4, 5, 6000), None], INSTANT
        ),
        "micros": pa.array(
            [instant(1, 1, 1, 0, 0, 0, 1), instant(1969, 12, 31, 23, 59, 59, 999999), None], INSTANT
        ),
        "the_last_moment": pa.array([instant(9999, 12, 31, 23, 59, 59, 999999)] * 3, INSTANT),
        "local": pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 7000), None], LOCAL),
        "local_micros": pa.array([datetime(2024, 1, 1, 0, 0, 0, 1)] * 3, LOCAL),
        "struct": pa.array(
            [{"x": 1, "y": {"z": "a"}}, {"x": None, "y": None}, None],
            pa.struct({"x": pa.int64(), "y": pa.struct({"z": pa.string()})}),
        ),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
        "map": pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string())),
        "inner_list": pa.array(
            [{"l": [1]}, {"l": None}, None], pa.struct({"l": pa.list_(pa.int64())})
        ),
        "only_null": pa.nulls(3, pa.int64()),
    }
)

LAST = "\U0010ffff"
DIFFERENCES: Mapping[tuple[str, str], tuple[Any, Any]] = {
    # JSON has no such numbers. The reference writes texts, which other readers treat as damage.
    ("minValues", "infinite"): ("-Infinity", None),
    ("maxValues", "infinite"): ("Infinity", None),
    ("maxValues", "nan"): ("NaN", None),
    # A reader that compares bits would miss -0.0 above 0.0.
    ("minValues", "zero"): (0.0, -0.0),
    ("minValues", "negative_zero"): (0.0, -0.0),
    # The same number: the reference writes the digits of the float, and we write the digits of its
    # double.
    ("maxValues", "float"): (0.1, 0.10000000149011612),
    # The reference counts UTF-16 units here, and a pair for each of these.
    ("maxValues", "emoji"): ("😀" * 16 + LAST, "😀" * 32 + LAST),
    # No character is above the last character: no bound, or the text itself.
    ("maxValues", "the_last_character"): (None, LAST * 40),
    # The reference cuts to milliseconds and adds one when it reads; others do not.
    ("maxValues", "micros"): ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z"),
    ("maxValues", "the_last_moment"): ("9999-12-31T23:59:59.999Z", None),
    ("maxValues", "local_micros"): ("2024-01-01T00:00:00.000", "2024-01-01T00:00:00.001"),
    # A footer counts the nulls of a list's elements, not of the list.
    ("nullCount", "list"): (1, None),
    ("nullCount", "map"): (1, None),
    ("nullCount", "inner_list"): ({"l": 2}, None),
}


def stats_of(table: Path) -> dict[str, Any]:
    (stats,) = DeltaLog(table).snapshot().files(["stats"])["stats"].to_pylist()
    parsed: dict[str, Any] = json.loads(stats, parse_float=Decimal)
    return parsed


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    for kind in ("minValues", "maxValues", "nullCount"):
        for column in DESCRIBED.column_names:
            pair = theirs[kind].get(column), ours[kind].get(column)
            if repr(pair[0]) != repr(pair[1]) and not same_decimal(*pair):
                yield (kind, column), pair


def same_decimal(first: Any, second: Any) -> bool:
    """Compares equal numbers such as 1E+300 and 1.0E300, but separates the two zeros."""
    return isinstance(first, Decimal) and isinstance(second, Decimal) and bool(first == second != 0)


def test_statistics_match_the_reference_with_named_exceptions(
    tmp_path: Path, delta_spark: DeltaSpark, frame_of: FrameOf
) -> None:
    indexed = {"delta.dataSkippingNumIndexedCols": "-1"}
    delta_spark.write(tmp_path / "theirs", DESCRIBED, **indexed)
    ds.write(frame_of(DESCRIBED), tmp_path / "ours", configuration=indexed)
    da.write(tmp_path / "arrow", DESCRIBED, configuration=indexed)
    theirs = stats_of(tmp_path / "theirs")
    for name in ("ours", "arrow"):
        stats = stats_of(tmp_path / name)
        assert theirs["numRecords"] == stats["numRecords"] == 3
        found = {key: tuple(map(as_float, pair)) for key, pair in differences(theirs, stats)}
        assert [*map(repr, found.items())] == [*map(repr, DIFFERENCES_IN_ORDER)]


def as_float(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


DIFFERENCES_IN_ORDER = sorted(
    DIFFERENCES.items(),
    key=lambda item: (
        ("minValues", "maxValues", "nullCount").index(item[0][0]),
        DESCRIBED.column_names.index(item[0][1]),
    ),
)
