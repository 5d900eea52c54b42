"""Predicates: building, resolving, and the files that they skip."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import (
    TRUE,
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    all_of,
    col,
    columns,
    might_match,
    must_match,
    resolve,
    to_arrow,
)
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
)
from delta_ops.protocol.stats.file_domains import PartitionColumn
from delta_ops.protocol.stats.file_stats import FileStats

SCHEMA = StructType(
    (
        StructField("P", STRING),
        StructField("day", DATE),
        StructField("i", INTEGER),
        StructField("tiny", BYTE),
        StructField("s", STRING),
        StructField("flag", BOOLEAN),
        StructField("bytes", BINARY),
        StructField("f", FLOAT),
        StructField("d", DOUBLE),
        StructField("dec", DecimalType(5, 2)),
        StructField("ts", TIMESTAMP),
        StructField("ntz", TIMESTAMP_NTZ),
        StructField("st", StructType((StructField("X", INTEGER), StructField("a.b", STRING)))),
        StructField("many", StructType(tuple(StructField(name, DOUBLE) for name in "vwxyz"))),
        StructField("list", ArrayType(INTEGER)),
    )
)
NAN = math.nan
A, B, C = col("i") == 1, col("i") == 2, col("s") == "x"


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        pytest.param(col("i") == 1, Comparison(("i",), "==", 1), id="=="),
        pytest.param(col("i") != 1, Comparison(("i",), "!=", 1), id="!="),
        pytest.param(col("i") < 1, Comparison(("i",), "<", 1), id="<"),
        pytest.param(col("i") <= 1, Comparison(("i",), "<=", 1), id="<="),
        pytest.param(col("i") > 1, Comparison(("i",), ">", 1), id=">"),
        pytest.param(col("i") >= 1, Comparison(("i",), ">=", 1), id=">="),
        pytest.param(1 < col("i"), Comparison(("i",), ">", 1), id="the literal first"),  # noqa: SIM300
        pytest.param(col("st", "X") == 1, Comparison(("st", "X"), "==", 1), id="a field"),
        pytest.param(
            col("`a.b`") == 1, Comparison(("a.b",), "==", 1), id="a name with a dot in backticks"
        ),
        pytest.param(col("i").isin([1, None]), In(("i",), (1, None)), id="isin"),
        pytest.param(col("i").isin(range(2)), In(("i",), (0, 1)), id="isin of any iterable"),
        pytest.param(col("i").isin([]), Always(False), id="isin of nothing is false"),
        pytest.param(col("i").is_null(), IsNull(("i",)), id="is_null"),
        pytest.param(col("i").is_not_null(), Not(IsNull(("i",))), id="is_not_null"),
        pytest.param(A & B & C, And((A, B, C)), id="and is flat"),
        pytest.param(A & (B & C), And((A, B, C)), id="and is flat on both sides"),
        pytest.param(A | B | C, Or((A, B, C)), id="or is flat"),
        pytest.param(A & (B | C), And((A, Or((B, C)))), id="or within and"),
        pytest.param(~A, Not(A), id="not"),
        pytest.param(all_of([]), TRUE, id="all of nothing"),
        pytest.param(all_of([A]), A, id="all of one"),
        pytest.param(all_of([A, B]), And((A, B)), id="all of two"),
    ],
)
def test_building(built: Predicate, expected: Predicate) -> None:
    assert built == expected
    assert pickle.loads(pickle.dumps(built)) == expected
    assert hash(built) == hash(expected)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(lambda: A and B, "&, | and ~ instead of and, or and not", id="and"),
        pytest.param(lambda: not A, "&, | and ~", id="not"),
        pytest.param(lambda: 0 < col("i") < 2, "split a < b < c", id="a chain"),
        pytest.param(lambda: bool(col("i")), "col('i') == True", id="a bare column"),
        pytest.param(lambda: col("i") == None, "is_null()", id="== None"),  # noqa: E711
        pytest.param(lambda: col("i") == col("s"), "with values only", id="two columns"),
        pytest.param(lambda: col("i") == A, "with values only", id="a predicate"),
        pytest.param(lambda: col("i").isin([col("s")]), "with values only", id="isin of columns"),
        pytest.param(lambda: col("s").isin("abc"), "takes a list of values", id="isin of a text"),
    ],
)
def test_python_operators_with_another_meaning_are_refused_with_the_cure(
    build: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        build()
    assert message in str(refused.value)


@pytest.mark.parametrize("argument", ["id = 5", pc.field("i") == 5, col("flag"), True])
def test_values_that_are_no_predicate_are_refused(argument: Any) -> None:
    with pytest.raises(InvalidRequestError, match="is not a predicate: compare a column"):
        resolve(argument, SCHEMA)


def test_a_predicate_combines_with_predicates_only() -> None:
    with pytest.raises(TypeError):
        A & True  # type: ignore[operator]


def test_columns_are_top_level_names() -> None:
    predicate = (A | ~C) & col("st", "X").is_null() & col("p").isin([1]) & TRUE
    assert columns(predicate) == {"i", "s", "st", "p"}


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        pytest.param(col("p") == "x", Comparison(("P",), "==", "x"), id="the schema's spelling"),
        pytest.param(
            col("ST", "x") == 1, Comparison(("st", "X"), "==", 1), id="of the fields as well"
        ),
        pytest.param(
            col("day") == "2026-01-31", Comparison(("day",), "==", date(2026, 1, 31)), id="a date"
        ),
        pytest.param(
            col("ts") < "2026-01-31T13:00:00+01:00",
            Comparison(("ts",), "<", NOON),
            id="a timestamp with a zone",
        ),
        pytest.param(
            col("ts") < "2026-01-31 12:00:00", Comparison(("ts",), "<", NOON), id="without is UTC"
        ),
        pytest.param(
            col("ts") < date(2026, 1, 31),
            Comparison(("ts",), "<", NOON.replace(hour=0)),
            id="a date is its midnight in UTC",
        ),
        pytest.param(
            col("ts") < NOON.astimezone(timezone(timedelta(hours=3))),
            Comparison(("ts",), "<", NOON),
            id="a datetime of another zone",
        ),
        pytest.param(
            col("ntz") == "2026-01-31 12:00:00",
            Comparison(("ntz",), "==", datetime(2026, 1, 31, 12)),
            id="a timestamp_ntz",
        ),
        pytest.param(col("i") == "5", Comparison(("i",), "==", 5), id="text for an integer"),
        pytest.param(col("i") == 5.0, Comparison(("i",), "==", 5), id="a whole float"),
        pytest.param(col("i") == Decimal(5), Comparison(("i",), "==", 5), id="a whole decimal"),
        pytest.param(col("d") == 5, Comparison(("d",), "==", 5.0), id="an int for a double"),
        pytest.param(col("f") == 1.1, Comparison(("f",), "==", 1.1), id="a float is not rounded"),
        pytest.param(
            col("dec") == 9.99, Comparison(("dec",), "==", Decimal("9.99")), id="digits as written"
        ),
        pytest.param(
            col("dec") == "1", Comparison(("dec",), "==", Decimal("1.00")), id="text for a decimal"
        ),
        pytest.param(col("s") == "", Comparison(("s",), "==", ""), id="the empty string is one"),
        pytest.param(
            col("bytes") == bytearray(b"a"), Comparison(("bytes",), "==", b"a"), id="bytes"
        ),
        pytest.param(
            col("day").isin(["2026-01-31", None]),
            In(("day",), (date(2026, 1, 31), None)),
            id="isin, null stays",
        ),
        pytest.param(col("list").is_null(), IsNull(("list",)), id="null for any type"),
        pytest.param(
            ~(TRUE | (col("p") == "x")), Not(Or((TRUE, Comparison(("P",), "==", "x")))), id="deep"
        ),
    ],
)
def test_resolve(predicate: Predicate, expected: Predicate) -> None:
    resolved = resolve(predicate, SCHEMA)
    assert resolved == expected
    assert resolve(resolved, SCHEMA) == resolved


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        pytest.param(col("nope") == 1, "no column nope", id="an unknown column"),
        pytest.param(col("st", "nope") == 1, "no column nope", id="an unknown field"),
        pytest.param(
            col("i", "x") == 1, "Column i is of type integer and has no field x", id="no struct"
        ),
        pytest.param(
            col("list") == 1,
            "list of type array<integer> cannot be compared with a value; test it for null",
            id="array",
        ),
        pytest.param(col("st") == 1, "compare one of its fields", id="a struct"),
        pytest.param(
            col("i") == 2.5, "i of type integer cannot be compared with 2.5", id="a fraction"
        ),
        pytest.param(col("i") == NAN, "compared with nan", id="NaN for an integer"),
        pytest.param(col("tiny") < 128, "tiny of type byte", id="too great"),
        pytest.param(col("i") == True, "compared with True", id="a bool for an int"),  # noqa: E712
        pytest.param(col("i") == "five", "compared with 'five'", id="no number"),
        pytest.param(col("i") == "", "compared with ''", id="empty text for a number"),
        pytest.param(col("d") == 10**400, "d of type double", id="too great for double"),
        pytest.param(col("dec") == "1.234", "dec of type decimal(5,2)", id="too many places"),
        pytest.param(col("dec") == 1000, "a number that the type can hold", id="too many digits"),
        pytest.param(col("dec") == math.inf, "compared with inf", id="an infinite decimal"),
        pytest.param(col("flag") == 1, "Compare it with True or False", id="an int for a boolean"),
        pytest.param(col("s") == 1, "Compare it with a str", id="an int for a string"),
        pytest.param(col("s") == "\ud800", "s of type string", id="half a surrogate pair"),
        pytest.param(col("bytes") == "a", "Compare it with bytes", id="text for binary"),
        pytest.param(col("day") == "2026-02-30", "compared with '2026-02-30'", id="no such day"),
        pytest.param(col("ts") == datetime(2026, 1, 1), "has a time zone", id="no zone"),
        pytest.param(col("ntz") == NOON, "without a time zone", id="a zone"),
        pytest.param(col("s").isin(["a", 1]), "compared with 1", id="one of isin"),
    ],
)
def test_resolve_refuses_with_column_type_and_value(predicate: Predicate, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        resolve(predicate, SCHEMA)
    assert message in str(refused.value)
    with pytest.raises(InvalidRequestError):
        to_arrow(predicate, SCHEMA)


def test_to_arrow_filters_rows_whatever_the_case_of_a_name() -> None:
    rows = pa.table({"P": ["x", None, "y"]})
    schema = StructType((StructField("P", STRING),))
    assert rows.filter(to_arrow(col("p") != "x", schema))["P"].to_pylist() == ["y"]


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("kind", [And, Or])
def test_to_arrow_holds_very_many_operands(kind: type[And] | type[Or]) -> None:
    rows = pa.table({"i": pa.array([0, 7, 30_000, None], pa.int32())})
    unlike = kind(tuple(Not(col("i") == number) for number in range(20_000)))
    found = rows.filter(to_arrow(unlike, StructType((StructField("i", INTEGER),))))["i"].to_pylist()
    assert found == ([30_000] if kind is And else [0, 7, 30_000])


def judge(
    question: Callable[..., pa.BooleanArray],
    predicate: Predicate,
    file: FileStats | None,
    values: Mapping[str, Any],
) -> bool:
    """The answer for a table of one file."""
    partitions = {
        name: PartitionColumn(codes=pa.array([0]), values=[value]) for name, value in values.items()
    }
    stats = pa.array([as_json(file) if file else None], pa.string())
    (answer,) = question(resolve(predicate, SCHEMA), partitions, stats).to_pylist()
    return bool(answer)


def as_json(stats: FileStats) -> str:
    """In the form of the log."""
    parts = {
        "numRecords": stats.num_records,
        "minValues": stats.min_values,
        "maxValues": stats.max_values,
        "nullCount": stats.null_count,
        "tightBounds": stats.tight_bounds,
    }
    return json.dumps(parts, default=float)


def stats(**columns_: tuple[Any, Any]) -> FileStats:
    """Ten rows without nulls, with these bounds."""
    return FileStats(
        num_records=10,
        min_values={name: low for name, (low, _) in columns_.items()},
        max_values={name: high for name, (_, high) in columns_.items()},
        null_count=dict.fromkeys(columns_, 0),
    )


FIVE_TO_NINE = stats(i=(5, 9))
NO_ROW: tuple[tuple[str, Predicate, FileStats, Mapping[str, Any]], ...] = (
    ("== below", col("i") == 4, FIVE_TO_NINE, {}),
    ("== above", col("i") == 10, FIVE_TO_NINE, {}),
    ("< the minimum", col("i") < 5, FIVE_TO_NINE, {}),
    ("<= below", col("i") <= 4, FIVE_TO_NINE, {}),
    ("> the maximum", col("i") > 9, FIVE_TO_NINE, {}),
    (">= above", col("i") >= 10, FIVE_TO_NINE, {}),
    ("!= the only value", col("i") != 5, stats(i=(5, 5)), {}),
    ("isin beside", col("i").isin([1, 2, 10]), FIVE_TO_NINE, {}),
    ("isin beside, or null", col("i").isin([1, None]), FIVE_TO_NINE, {}),
    ("not isin the only value", ~col("i").isin([5, 6]), stats(i=(5, 5)), {}),
    ("not isin with a null", ~col("i").isin([1, None]), FIVE_TO_NINE, {}),
    ("not of what holds", ~(col("i") >= 5), FIVE_TO_NINE, {}),
    ("no null", col("i").is_null(), FIVE_TO_NINE, {}),
    ("and", (col("i") == 4) & (col("s") == "x"), FIVE_TO_NINE, {}),
    ("or", (col("i") == 4) | (col("i") > 9), FIVE_TO_NINE, {}),
    ("false", Always(False), FIVE_TO_NINE, {}),
    ("only nulls", col("i") == 4, FileStats(num_records=2, null_count={"i": 2}), {}),
    ("no value", col("i").is_not_null(), FileStats(num_records=2, null_count={"i": 2}), {}),
    ("a partition value", col("P") == "x", FileStats(), {"P": "y"}),
    ("a null partition value", col("P") != "x", FileStats(), {"P": None}),
    ("a partition value that is there", col("P").is_null(), FileStats(), {"P": "y"}),
    ("a field of a struct", col("st", "X") > 3, stats(st=({"X": 1}, {"X": 3})), {}),
    ("a string", col("s") > "b", stats(s=("a", "b")), {}),
    ("a day", col("day") < "2026-01-01", stats(day=("2026-01-01", "2026-01-31")), {}),
    (
        "an instant",
        col("ts") > NOON,
        stats(ts=("2026-01-01T00:00:00Z", "2026-01-31T11:59:59Z")),
        {},
    ),
    ("a decimal", col("dec") > 2, stats(dec=(Decimal(1), Decimal(2))), {}),
    ("a double below", col("d") < 1.0, stats(d=(Decimal("1.0"), Decimal("2.0"))), {}),
    ("a range above", (col("d") > 3) & (col("d") < 4), stats(d=(1, 2)), {}),
    ("a double not below", ~(col("d") >= 1), stats(d=(1, 2)), {}),
    (
        "doubles below, in many columns",
        all_of(col("many", name) < 1 for name in "vwxyz"),
        stats(many=(dict.fromkeys("vwxyz", 1), dict.fromkeys("vwxyz", 2))),
        {},
    ),
    ("doubles of nulls", col("d") > 3, FileStats(num_records=1, null_count={"d": 1}), {}),
    ("a NaN partition", (col("d") <= 5), FileStats(), {"d": math.nan}),
)


@pytest.mark.parametrize(
    ("predicate", "file", "values"),
    [pytest.param(*case, id=name) for name, *case in NO_ROW],
)
def test_a_file_without_a_matching_row_is_left_out(
    predicate: Predicate, file: FileStats, values: Mapping[str, Any]
) -> None:
    assert not judge(might_match, predicate, file, values)


@pytest.mark.parametrize(
    ("predicate", "file"),
    [
        pytest.param(col("i") == 5, FIVE_TO_NINE, id="the minimum"),
        pytest.param(col("i") == 9, FIVE_TO_NINE, id="the maximum"),
        pytest.param(col("i") != 5, FIVE_TO_NINE, id="another value"),
        pytest.param(col("i") == 4, FileStats(max_values={"i": 9}), id="no minimum"),
        pytest.param(col("i") == 4, FileStats(), id="no statistics"),
        pytest.param(col("i").is_null(), FileStats(num_records=2), id="no null count"),
        pytest.param(
            col("i").is_null(),
            FileStats(num_records=9, null_count={"i": 3}, tight_bounds=False),
            id="some nulls",
        ),
        pytest.param(col("d") > 3, stats(d=(1, 2)), id="a maximum hides NaN"),
        pytest.param(col("d").isin([NAN]), stats(d=(1, 2)), id="NaN is requested"),
        pytest.param(
            (col("d") > 3) & (col("f") < 3), stats(d=(1, 2), f=(1, 2)), id="one NaN, not the other"
        ),
        pytest.param(
            all_of(col("many", name) > 3 for name in "vwxyz"),
            stats(many=(dict.fromkeys("vwxyz", 1), dict.fromkeys("vwxyz", 2))),
            id="NaN in many columns",
        ),
        pytest.param(
            col("ts") > "2026-01-31T11:59:59.000Z",
            stats(ts=("2026-01-01T00:00:00.000Z", "2026-01-31T11:59:59.000Z")),
            id="microseconds were cut off",
        ),
    ],
)
def test_a_file_that_may_hold_a_row_stays(predicate: Predicate, file: FileStats) -> None:
    assert judge(might_match, predicate, file, {})


SOME_NULLS = FileStats(num_records=2, min_values={"i": 5}, max_values={"i": 5}, null_count={"i": 1})
ALL_ROWS: tuple[tuple[str, Predicate, FileStats | None, Mapping[str, Any]], ...] = (
    ("within", col("i") < 10, FIVE_TO_NINE, {}),
    ("isin the only value", col("i").isin([5, 6, None]), stats(i=(5, 5)), {}),
    ("no null", col("i").is_not_null(), FIVE_TO_NINE, {}),
    ("only nulls", col("i").is_null(), FileStats(num_records=2, null_count={"i": 2}), {}),
    ("a partition value", col("P") == "x", None, {"P": "x"}),
    ("a null partition value", col("P").is_null(), None, {"P": None}),
    ("and", (col("P") == "x") & (col("i") >= 5), FIVE_TO_NINE, {"P": "x"}),
    ("or", (col("P") == "x") | (col("i") == 6), FIVE_TO_NINE, {"P": "x"}),
    ("not", ~(col("P") == "x"), None, {"P": "y"}),
    ("a day", col("day") == "2026-01-01", stats(day=("2026-01-01", "2026-01-01")), {}),
    ("a short string", col("s") == "a", stats(s=("a", "a")), {}),
    ("a decimal", col("dec") == 1, stats(dec=(1, Decimal("1.00"))), {}),
    ("true", TRUE, None, {}),
)


@pytest.mark.parametrize(
    ("predicate", "file", "values"), [pytest.param(*case, id=name) for name, *case in ALL_ROWS]
)
def test_a_file_of_matching_rows_is_seen_as_one(
    predicate: Predicate, file: FileStats | None, values: Mapping[str, Any]
) -> None:
    assert judge(must_match, predicate, file, values)


@pytest.mark.parametrize(
    ("predicate", "file", "values"),
    [
        pytest.param(col("i") < 9, FIVE_TO_NINE, {}, id="not the maximum"),
        pytest.param(
            col("i") < 10,
            FileStats(num_records=9, min_values={"i": 5}, max_values={"i": 9}),
            {},
            id="no null count",
        ),
        pytest.param(
            col("i") < 10,
            FileStats(
                num_records=9,
                min_values={"i": 5},
                max_values={"i": 9},
                null_count={"i": 0},
                tight_bounds=False,
            ),
            {},
            id="wide bounds",
        ),
        pytest.param(col("d") < 3, stats(d=(1, 2)), {}, id="a maximum hides NaN"),
        pytest.param(col("d") >= 1, stats(d=(1, 2)), {}, id="doubles are rounded by writers"),
        pytest.param(
            col("ts") > "2025-01-01",
            stats(ts=("2026-01-01T00:00:00.000Z", "2026-01-31T00:00:00.000Z")),
            {},
            id="timestamps are cut by writers",
        ),
        pytest.param(col("s") < "b", stats(s=("a", "a\U0010ffff")), {}, id="strings that were cut"),
        pytest.param(col("P") != "x", None, {"P": None}, id="null is no match"),
        pytest.param((col("i") == 5) & TRUE, SOME_NULLS, {}, id="null and true is null"),
        pytest.param(TRUE & (col("i") == 5), SOME_NULLS, {}, id="true and null is null"),
        pytest.param(col("i") == 5, None, {}, id="no statistics"),
    ],
)
def test_a_file_is_not_claimed_without_proof(
    predicate: Predicate, file: FileStats | None, values: Mapping[str, Any]
) -> None:
    assert not judge(must_match, predicate, file, values)
