"""Statistics: computed from footers, read from the log."""

from __future__ import annotations

import io
import json
import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.protocol.schema import (
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    StructField,
    StructType,
    leaves,
    schema_from_json,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema, schema_from_arrow
from delta_ops.protocol.stats.file_bounds import lower_bound, null_count, upper_bound
from delta_ops.protocol.stats.file_stats import FileStats, parse_stats
from delta_ops.protocol.stats.from_footer import stats_from_footer
from delta_ops.protocol.stats.indexed_columns import StatsSettings
from tests.protocol.typed_values import FEW, VALUES
from tests.support.tables import SHARED, needs_shared

LAST_MS = datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)


def footer(table: pa.Table, **options: Any) -> pq.FileMetaData:
    """The footer of a file with these rows."""
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return pq.read_metadata(file)


def stats_of(table: pa.Table, *, row_group_size: int | None = None, **options: Any) -> Any:
    """The statistics of a file with these rows, parsed as plain JSON."""
    metadata = footer(table, row_group_size=row_group_size)
    text = stats_from_footer(metadata, schema_from_arrow(table.schema), (), **options)
    return json.loads(text, parse_float=Decimal, parse_constant=pytest.fail)


def column(values: Sequence[Any], arrow_type: Any = None) -> pa.Table:
    """A table of one column a."""
    return pa.table({"a": pa.array(values, arrow_type)})


UTC_US = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        pytest.param(column([3, None, 1]), 1, 3, id="integers"),
        pytest.param(column([7], pa.uint32()), 7, 7, id="unsigned integers"),
        pytest.param(column(["a", "é"]), "a", "é", id="strings"),
        pytest.param(column(['\u0001"\\é']), '\u0001"\\é', '\u0001"\\é', id="JSON escapes"),
        pytest.param(column([date(1, 1, 1)]), "0001-01-01", "0001-01-01", id="year 1"),
        pytest.param(column([2**30], pa.date32()), None, None, id="a date beyond 9999 has no text"),
        pytest.param(
            column([Decimal("12345678901234567890123456789012345.678")], pa.decimal128(38, 3)),
            Decimal("12345678901234567890123456789012345.678"),
            Decimal("12345678901234567890123456789012345.678"),
            id="all digits of a decimal",
        ),
        pytest.param(
            column([Decimal("0.0000000001")], pa.decimal128(20, 10)),
            Decimal("0.0000000001"),
            Decimal("0.0000000001"),
            id="a small decimal",
        ),
        pytest.param(
            column([datetime(2021, 1, 1, 0, 0, 0, 123456, UTC)], UTC_US),
            "2021-01-01T00:00:00.123Z",
            "2021-01-01T00:00:00.124Z",
            id="a timestamp is rounded outwards",
        ),
        pytest.param(
            column([datetime(2021, 1, 1, 0, 0, 0, 123000, UTC)], UTC_US),
            "2021-01-01T00:00:00.123Z",
            "2021-01-01T00:00:00.123Z",
            id="a timestamp of whole milliseconds stays",
        ),
        pytest.param(
            column([-1], pa.timestamp("ns", "UTC")),
            "1969-12-31T23:59:59.999Z",
            "1970-01-01T00:00:00.000Z",
            id="nanoseconds before the epoch",
        ),
        pytest.param(
            column([datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999000)]),
            "0001-01-01T00:00:00.000",
            "9999-12-31T23:59:59.999",
            id="a timestamp_ntz has no zone",
        ),
        pytest.param(
            column([LAST_MS.replace(microsecond=999999)], UTC_US),
            "9999-12-31T23:59:59.999Z",
            None,
            id="the last microsecond cannot be rounded up",
        ),
        pytest.param(column([2**60], UTC_US), None, None, id="a timestamp beyond 9999 has no text"),
        pytest.param(column([True, False]), None, None, id="booleans have none"),
        pytest.param(column([b"a"]), None, None, id="binary has none"),
        pytest.param(column([None], pa.int64()), None, None, id="nulls have none"),
        pytest.param(column([], pa.int64()), None, None, id="no rows have none"),
    ],
)
def test_bounds(table: pa.Table, low: Any, high: Any) -> None:
    stats = stats_of(table)
    assert (stats["minValues"].get("a"), stats["maxValues"].get("a")) == (low, high)
    assert stats["numRecords"] == len(table)
    assert stats["nullCount"] == {"a": table["a"].null_count}


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        pytest.param([1.5, 2.5], "1.5", "2.5", id="numbers"),
        pytest.param([0.0, 1.0], "-0.0", "1.0", id="a zero below is the lower zero"),
        pytest.param([-1.0, -0.0], "-1.0", "0.0", id="a zero above is the upper zero"),
        pytest.param([-math.inf, 1.0], None, "1.0", id="minus infinity is not JSON"),
        pytest.param([1.0, math.inf], "1.0", None, id="infinity is not JSON"),
        pytest.param([math.nan], None, None, id="only NaN"),
    ],
)
@pytest.mark.parametrize("arrow_type", [pa.float32(), pa.float64()], ids=str)
def test_bounds_of_numbers_without_nan(
    values: list[float], low: str | None, high: str | None, arrow_type: Any
) -> None:
    table = column(values, arrow_type)
    schema = schema_from_arrow(table.schema)
    text = stats_from_footer(footer(table), schema, (), columns_without_nan=[("a",)])
    stats = json.loads(text, parse_float=str, parse_constant=pytest.fail)
    assert (stats["minValues"].get("a"), stats["maxValues"].get("a")) == (low, high)


def test_a_float_bound_has_the_digits_of_the_exact_number() -> None:
    stats = stats_of(column([1.1], pa.float32()), columns_without_nan=[("a",)])
    assert float(stats["maxValues"]["a"]) == pa.scalar(1.1, pa.float32()).as_py()


@pytest.mark.parametrize("data_type", [FLOAT, DOUBLE], ids=lambda t: t.name)
def test_a_maximum_that_may_hide_nan_is_no_bound(data_type: DataType) -> None:
    arrow_schema = arrow_schema_from_schema(StructType((StructField("a", data_type),)))
    stats = stats_of(pa.table({"a": [4.0, math.nan]}, schema=arrow_schema))
    assert stats["minValues"] == {"a": 4}
    assert stats["maxValues"] == {}


def footer_of(
    row_groups: Sequence[Sequence[float]],
    created_by: str,
    *,
    instead: Mapping[float, float] | None = None,
) -> pq.FileMetaData:
    """The footer of another writer: with its name, and with other bounds than pyarrow's."""
    file = io.BytesIO()
    with pq.ParquetWriter(file, pa.schema([("a", pa.float64())])) as writer:
        for values in row_groups:
            writer.write_table(column(values))
    name = pq.read_metadata(file).created_by.encode()
    replaced = file.getvalue().replace(name, created_by.encode().ljust(len(name))[: len(name)])
    for ours, theirs in (instead or {}).items():
        replaced = replaced.replace(struct.pack("<d", ours), struct.pack("<d", theirs))
    return pq.read_metadata(io.BytesIO(replaced))


DOUBLES = StructType((StructField("a", DOUBLE),))


@pytest.mark.parametrize(
    ("created_by", "trusted"),
    [
        pytest.param("parquet-mr version 1.17.0 (build f)", True, id="parquet-mr shows NaN"),
        pytest.param("parquet-mr compatible Photon version 0.2", False, id="Photon is another"),
        pytest.param("parquet-rs version 55.2.0", False, id="Rust hides it"),
        pytest.param("", False, id="unknown"),
    ],
)
def test_writers_that_store_nan_in_the_maximum(created_by: str, trusted: bool) -> None:
    text = stats_from_footer(footer_of([[1.0]], created_by), DOUBLES, ())
    assert ("a" in json.loads(text)["maxValues"]) is trusted


@pytest.mark.parametrize(
    ("row_groups", "instead", "low", "high"),
    [
        pytest.param([[1.0, 4.0]], {4.0: math.nan}, "1.0", None, id="a maximum that is NaN"),
        pytest.param([[1.0]], {1.0: math.nan}, None, None, id="only NaN"),
        pytest.param(
            [[1.0, 4.0], [2.0, 3.0]], {4.0: math.nan}, "1.0", None, id="NaN in the first row group"
        ),
        pytest.param(
            [[2.0, 3.0], [1.0, 4.0]], {4.0: math.nan}, "1.0", None, id="NaN in the last row group"
        ),
        pytest.param([[1.0, 4.0]], {1.0: 0.0}, "-0.0", "4.0", id="a minimum of zero"),
        pytest.param([[-1.0, 4.0]], {4.0: -0.0}, "-1.0", "0.0", id="a maximum of minus zero"),
    ],
)
def test_bounds_as_parquet_mr_writes_them(
    row_groups: list[list[float]], instead: dict[float, float], low: str | None, high: str | None
) -> None:
    metadata = footer_of(row_groups, "parquet-mr version 1.17.0", instead=instead)
    stats = json.loads(stats_from_footer(metadata, DOUBLES, ()), parse_float=str)
    assert (stats["minValues"].get("a"), stats["maxValues"].get("a")) == (low, high)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        pytest.param([[1, 2], [3]], 1, 3, id="bounds are merged"),
        pytest.param([[None, None], [3]], 3, 3, id="a row group of nulls has no say"),
        pytest.param([["x" * 5000, "y"], ["z"]], None, None, id="a row group without bounds"),
        pytest.param([[1.0], [math.nan]], None, None, id="a row group of NaN"),
    ],
)
def test_row_groups(values: list[list[Any]], low: Any, high: Any) -> None:
    file = io.BytesIO()
    tables = [column(group, pa.array(values[-1]).type) for group in values]
    with pq.ParquetWriter(file, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    schema = schema_from_arrow(tables[0].schema)
    text = stats_from_footer(pq.read_metadata(file), schema, (), columns_without_nan=[("a",)])
    stats = json.loads(text)
    assert (stats["minValues"].get("a"), stats["maxValues"].get("a")) == (low, high)
    assert stats["nullCount"]["a"] == sum(value is None for group in values for value in group)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        pytest.param("abc", "abc", "abc", id="short"),
        pytest.param("abcd", "abc", "abc\x7f", id="cut before ASCII"),
        pytest.param("abc\x7fd", "abc", "abc\U0010ffff", id="cut before DEL"),
        pytest.param("abcé", "abc", "abc\U0010ffff", id="cut before another character"),
        pytest.param("ab😀d", "ab😀", "ab😀\x7f", id="a character beyond U+FFFF is one"),
        pytest.param(
            "abc\U0010ffffd", "abc", "abc\U0010ffff\x7f", id="cut before the greatest character"
        ),
        pytest.param("abc" + "\U0010ffff" * 4, "abc", None, id="no short text is above"),
        pytest.param("abc\U0010ffff", "abc", "abc\U0010ffff", id="the text itself"),
    ],
)
def test_long_strings_are_cut(text: str, low: str, high: str | None) -> None:
    stats = stats_of(column([text]), settings=StatsSettings(string_prefix_length=3))
    assert (stats["minValues"].get("a"), stats["maxValues"].get("a")) == (low, high)


def test_a_bound_that_is_no_utf8_is_left_out() -> None:
    table = column([b"\xff", b"a"])
    metadata = footer(table.cast(pa.schema([("a", pa.binary())])))
    as_string = footer(pa.table({"a": pa.array([b"\xff", b"a"]).view(pa.binary())}))
    schema = StructType((StructField("a", STRING),))
    for each in (metadata, as_string):
        assert json.loads(stats_from_footer(each, schema, ()))["maxValues"] == {}
    text = pa.StringArray.from_buffers(
        2, pa.array([b"\xff", b"a"]).buffers()[1], pa.array([b"\xff", b"a"]).buffers()[2]
    )
    stats = json.loads(stats_from_footer(footer(pa.table({"a": text})), schema, ()))
    assert stats["minValues"] == {"a": "a"}
    assert stats["maxValues"] == {}


NESTED = pa.table(
    {
        "p": [1, 1],
        "a.b": [1, 2],
        "s": pa.array(
            [{"x": 1, "deep": {"y": "u"}, "l": [1]}, None],
            pa.struct(
                [
                    ("x", pa.int64()),
                    ("deep", pa.struct([("y", pa.string())])),
                    ("l", pa.list_(pa.int64())),
                ]
            ),
        ),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "z": [5, 6],
    }
)


def _counted(**options: Any) -> Any:
    metadata, schema = footer(NESTED), schema_from_arrow(NESTED.schema)
    return json.loads(stats_from_footer(metadata, schema, ["P"], StatsSettings(**options)))[
        "nullCount"
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            {},
            {"a.b": 0, "s": {"x": 1, "deep": {"y": 1}}, "z": 0},
            id="structs nest, a null struct has null fields, arrays and maps are left out",
        ),
        pytest.param({"num_indexed_columns": 0}, {}, id="none"),
        pytest.param(
            {"num_indexed_columns": 3},
            {"a.b": 0, "s": {"x": 1, "deep": {"y": 1}}},
            id="fields of structs count, partition columns do not",
        ),
        pytest.param(
            {"num_indexed_columns": 5},
            {"a.b": 0, "s": {"x": 1, "deep": {"y": 1}}},
            id="an array and a map count",
        ),
        pytest.param(
            {"num_indexed_columns": -1},
            {"a.b": 0, "s": {"x": 1, "deep": {"y": 1}}, "z": 0},
            id="-1 is all",
        ),
        pytest.param(
            {"columns": (("S", "Deep"), ("z",)), "num_indexed_columns": 0},
            {"s": {"deep": {"y": 1}}, "z": 0},
            id="chosen columns, a struct with its fields, in any case",
        ),
        pytest.param({"columns": ()}, {}, id="no column chosen"),
        pytest.param({"columns": (("p",), ("nope",))}, {}, id="partition columns never"),
    ],
)
def test_which_columns_get_statistics(options: Mapping[str, Any], expected: Any) -> None:
    assert _counted(**options) == expected


def test_columns_that_share_a_path_in_the_footer_get_none() -> None:
    struct = pa.array([{"b": 1}], pa.struct([("b", pa.int64())]))
    stats = stats_of(pa.table({"a": struct, "a.b": [5]}))
    assert stats["minValues"] == {}
    assert stats["nullCount"] == {}


def test_the_inside_of_a_list_is_not_taken_for_a_column_of_that_name() -> None:
    schema = StructType((StructField("a", ArrayType(LONG)), StructField("a.list.element", LONG)))
    stats = json.loads(stats_from_footer(footer(column([[1]])), schema, ()))
    assert stats["nullCount"] == {}


@pytest.mark.parametrize(
    ("arrow_type", "data_type"),
    [
        pytest.param(pa.timestamp("us"), TIMESTAMP, id="local time where an instant belongs"),
        pytest.param(pa.timestamp("us", "UTC"), TIMESTAMP_NTZ, id="an instant for local time"),
        pytest.param(pa.date32(), INTEGER, id="a date where an integer belongs"),
        pytest.param(pa.int32(), DATE, id="an integer where a date belongs"),
        pytest.param(pa.string(), LONG, id="text where an integer belongs"),
        pytest.param(pa.int64(), TIMESTAMP, id="an integer where a timestamp belongs"),
    ],
)
def test_a_column_of_another_type_has_no_bounds(arrow_type: Any, data_type: DataType) -> None:
    zero = "0" if arrow_type == pa.string() else 0
    table = pa.table({"a": pa.array([zero], arrow_type)})
    stats = json.loads(
        stats_from_footer(footer(table), StructType((StructField("a", data_type),)), ())
    )
    assert stats["minValues"] == stats["maxValues"] == {}


def test_int96_timestamps_have_no_bounds() -> None:
    table = column([datetime(2021, 1, 1, tzinfo=UTC)], UTC_US)
    metadata = footer(table, use_deprecated_int96_timestamps=True)
    stats = json.loads(stats_from_footer(metadata, schema_from_arrow(table.schema), ()))
    assert stats["minValues"] == stats["maxValues"] == {}


def test_a_column_that_the_file_does_not_have_gets_none() -> None:
    schema = StructType((StructField("a", LONG), StructField("b", LONG)))
    stats = json.loads(stats_from_footer(footer(column([1])), schema, ()))
    assert stats["nullCount"] == {"a": 0}


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([*VALUES, *FEW]).flatmap(
        lambda t: st.tuples(
            st.just(t),
            st.lists(
                st.none() | (st.sampled_from(FEW[t]) if t in FEW else VALUES[t]),
                min_size=1,
                max_size=8,
            ),
        )
    ),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_bounds_hold_for_every_value(
    typed: tuple[DataType, list[Any]], row_group_size: int, prefix_length: int
) -> None:
    data_type, values = typed
    schema = StructType((StructField("a", data_type),))
    table = pa.table({"a": values}, schema=arrow_schema_from_schema(schema))
    has_nan = any(isinstance(value, float) and math.isnan(value) for value in values)
    stats = parse_stats(
        stats_from_footer(
            footer(table, row_group_size=row_group_size),
            schema,
            (),
            StatsSettings(string_prefix_length=prefix_length),
            columns_without_nan=[] if has_nan else [("a",)],
        )
    )
    assert stats
    assert null_count(stats, ("a",)) == values.count(None)
    low, high = lower_bound(stats, ("a",), data_type), upper_bound(stats, ("a",), data_type)
    present = [value for value in values if value is not None]
    assert low is None or all(not value < low for value in present)
    assert high is None or (not has_nan and all(value <= high for value in present))


def _files() -> list[tuple[Path, StructType, tuple[str, ...], str, Path]]:
    """Files with statistics in foreign tables whose files use the logical column names."""
    found = []
    for log in sorted(Path(SHARED, "data/tables").glob("**/_delta_log")):
        metadata: Any = None
        for commit in sorted(log.glob("0*.json")):
            for line in filter(str.strip, commit.read_text(encoding="utf-8-sig").splitlines()):
                action = json.loads(line)
                metadata = action.get("metaData", metadata)
                add = action.get("add")
                if not metadata or not add or not add.get("stats"):
                    continue
                if "columnMapping.physicalName" in metadata["schemaString"]:
                    continue
                file = log.parent / add["path"]
                if file.exists() and "%" not in add["path"]:
                    schema = schema_from_json(metadata["schemaString"])
                    partition_columns = tuple(metadata["partitionColumns"])
                    found.append((log, schema, partition_columns, add["stats"], file))
    return found


def _compare(ours: FileStats, theirs: FileStats, schema: StructType, where: str) -> Iterator[str]:
    """Yield the types whose bounds were compared."""
    assert ours.num_records == theirs.num_records, where
    for path, data_type in leaves(schema):
        counts = null_count(ours, path), null_count(theirs, path)
        assert None in counts or counts[0] == counts[1], (where, path)
        low, their_low = (lower_bound(each, path, data_type) for each in (ours, theirs))
        high, their_high = (upper_bound(each, path, data_type) for each in (ours, theirs))
        assert None in (low, their_low) or low <= their_low, (where, path)
        assert None in (high, their_high) or their_high <= high, (where, path)
        if None not in (low, their_low, high, their_high):
            yield data_type.name


@needs_shared
def test_our_bounds_contain_the_bounds_of_other_writers() -> None:
    seen: Counter[str] = Counter()
    for log, schema, partition_columns, text, file in _files():
        ours = stats_from_footer(pq.read_metadata(file), schema, partition_columns)
        mine, theirs = parse_stats(ours), parse_stats(text)
        if mine and theirs and theirs.tight_bounds and theirs.num_records is not None:
            seen.update(_compare(mine, theirs, schema, f"{log}: {file.name}"))
    assert {"long", "string", "double", "date", "timestamp_ntz", "decimal(38,18)"} <= set(seen)


def test_parse_stats_keeps_every_digit() -> None:
    stats = parse_stats(
        '{"numRecords":3,"tightBounds":false,"minValues":{"d":1234567890.12345678901234567890},'
        '"maxValues":{"s":{"x":"é"}},"nullCount":{"d":1}}'
    )
    assert stats == FileStats(
        num_records=3,
        tight_bounds=False,
        min_values={"d": Decimal("1234567890.12345678901234567890")},
        max_values={"s": {"x": "é"}},
        null_count={"d": 1},
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, None, id="no statistics"),
        pytest.param("", None, id="an empty text"),
        pytest.param("{", None, id="no JSON"),
        pytest.param("[1]", None, id="no object"),
        pytest.param("[" * 100_000, None, id="too deep"),
        pytest.param("{}", FileStats(), id="an empty object"),
        pytest.param('{"numRecords":-1}', FileStats(), id="a negative count"),
        pytest.param('{"numRecords":9223372036854775808}', FileStats(), id="beyond 64 bits"),
        pytest.param('{"numRecords":true}', FileStats(), id="a count that is no number"),
        pytest.param('{"numRecords":1.0}', FileStats(), id="a count with a fraction"),
        pytest.param('{"minValues":[],"nullCount":null}', FileStats(), id="parts of another type"),
    ],
)
def test_malformed_statistics_count_as_missing(
    text: str | None, expected: FileStats | None
) -> None:
    assert parse_stats(text) == expected
