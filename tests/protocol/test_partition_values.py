"""Partition values and directory names."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
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
    DecimalType,
    PrimitiveType,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.values.partition_values import (
    hive_directory,
    parse,
    parse_array,
    round_to_float,
    serialize,
)
from tests.protocol.typed_values import TEXT, VALUES, is_same

DEC = DecimalType(38, 18)
typed_values = st.sampled_from(list(VALUES)).flatmap(
    lambda data_type: st.tuples(VALUES[data_type], st.just(data_type))
)


@given(typed_values)
def test_a_value_reads_back_and_empty_is_null(typed: tuple[Any, DataType]) -> None:
    value, data_type = typed
    expected = None if value in ("", b"") else value
    assert is_same(parse(serialize(value, data_type), data_type), expected)


@given(typed_values)
def test_a_value_that_was_read_has_one_text(typed: tuple[Any, DataType]) -> None:
    text = serialize(*typed)
    assert serialize(parse(text, typed[1]), typed[1]) == text


@pytest.mark.parametrize("data_type", [*VALUES, ArrayType(STRING)], ids=lambda t: t.name)
def test_null_and_the_empty_text_are_null_for_every_type(data_type: DataType) -> None:
    assert serialize(None, data_type) is None
    assert parse(None, data_type) is None
    assert parse("", data_type) is None


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        pytest.param(-128, BYTE, "-128", id="byte"),
        pytest.param(9223372036854775807, LONG, "9223372036854775807", id="long"),
        pytest.param(0.0, DOUBLE, "0.0", id="zero"),
        pytest.param(-0.0, DOUBLE, "0.0", id="minus zero is the zero it equals"),
        pytest.param(
            1.7976931348623157e308, DOUBLE, "1.7976931348623157E308", id="greatest double"
        ),
        pytest.param(0.001, DOUBLE, "0.001", id="the smallest without an exponent"),
        pytest.param(0.00099, DOUBLE, "9.9E-4", id="below it"),
        pytest.param(9999999.0, DOUBLE, "9999999.0", id="the greatest without an exponent"),
        pytest.param(1e7, DOUBLE, "1.0E7", id="above it"),
        pytest.param(123456.5, DOUBLE, "123456.5", id="digits on both sides"),
        pytest.param(100.0, DOUBLE, "100.0", id="trailing zeros"),
        pytest.param(3, DOUBLE, "3.0", id="an int in a double column"),
        pytest.param(round_to_float(1.1), FLOAT, "1.1", id="a float in its own digits"),
        pytest.param(round_to_float(3.4028235e38), FLOAT, "3.4028235E38", id="greatest float"),
        pytest.param(math.nan, DOUBLE, "NaN", id="NaN"),
        pytest.param(math.inf, FLOAT, "Infinity", id="infinity"),
        pytest.param(-math.inf, DOUBLE, "-Infinity", id="minus infinity"),
        pytest.param(True, BOOLEAN, "true", id="true"),
        pytest.param(False, BOOLEAN, "false", id="false"),
        pytest.param(Decimal(0), DEC, "0.000000000000000000", id="a decimal has its scale"),
        pytest.param(Decimal("-1.23"), DEC, "-1.230000000000000000", id="a negative decimal"),
        pytest.param(7, DecimalType(3, 1), "7.0", id="an int in a decimal column"),
        pytest.param(date(1, 1, 1), DATE, "0001-01-01", id="years have four digits"),
        pytest.param(date(9999, 12, 31), DATE, "9999-12-31", id="last date"),
        pytest.param(
            datetime(1970, 1, 1, 0, 0, 0, 123456, UTC),
            TIMESTAMP,
            "1970-01-01T00:00:00.123456Z",
            id="a timestamp is UTC",
        ),
        pytest.param(
            datetime(2024, 6, 15, 12, 30, 45, tzinfo=timezone(timedelta(hours=-7))),
            TIMESTAMP,
            "2024-06-15T19:30:45.000000Z",
            id="a timestamp of another zone",
        ),
        pytest.param(
            datetime(1970, 1, 1, 0, 0, 0, 123456),
            TIMESTAMP_NTZ,
            "1970-01-01 00:00:00.123456",
            id="a timestamp_ntz has no zone",
        ),
        pytest.param(b"HELLO", BINARY, "HELLO", id="binary is its UTF-8 text"),
        pytest.param(b"\x01\x02\x03", BINARY, "\x01\x02\x03", id="binary of control characters"),
        pytest.param("US/East", STRING, "US/East", id="a string is not translated"),
        pytest.param(" ", STRING, " ", id="a blank is not empty"),
    ],
)
def test_serialize(value: Any, data_type: DataType, text: str) -> None:
    assert serialize(value, data_type) == text


@pytest.mark.parametrize(
    ("text", "data_type", "value"),
    [
        pytest.param("1970-01-01 00:00:00", TIMESTAMP, datetime(1970, 1, 1, tzinfo=UTC), id="UTC"),
        pytest.param(
            "2020-01-01 08:09:10.001",
            TIMESTAMP,
            datetime(2020, 1, 1, 8, 9, 10, 1000, UTC),
            id="milliseconds",
        ),
        pytest.param(
            "2020-01-01T08:09:10.000001Z",
            TIMESTAMP,
            datetime(2020, 1, 1, 8, 9, 10, 1, UTC),
            id="ISO 8601 in UTC",
        ),
        pytest.param(
            "2020-01-01T08:09:10+02:00",
            TIMESTAMP,
            datetime(2020, 1, 1, 6, 9, 10, tzinfo=UTC),
            id="ISO 8601 with an offset",
        ),
        pytest.param("2020-01-01", TIMESTAMP, datetime(2020, 1, 1, tzinfo=UTC), id="no time"),
        pytest.param(
            "2020-01-01 00:00:00.123456000",
            TIMESTAMP_NTZ,
            datetime(2020, 1, 1, 0, 0, 0, 123456),
            id="nanoseconds that are none",
        ),
        pytest.param("2020-1-2", DATE, date(2020, 1, 2), id="a date without leading zeros"),
        pytest.param("0", DecimalType(10, 5), Decimal("0.00000"), id="a decimal of another scale"),
        pytest.param("1E+2", DecimalType(10, 1), Decimal("100.0"), id="a decimal with an exponent"),
        pytest.param("TRUE", BOOLEAN, True, id="a boolean in any case"),
        pytest.param("1e3", DOUBLE, 1000.0, id="a double with a small e"),
        pytest.param("+5", INTEGER, 5, id="a sign"),
        pytest.param("inf", DOUBLE, math.inf, id="infinity as Rust writes it"),
        pytest.param("-inf", FLOAT, -math.inf, id="minus infinity as Rust writes it"),
        pytest.param("INFINITY", DOUBLE, math.inf, id="infinity in any case"),
    ],
)
def test_parse_what_other_writers_write(text: str, data_type: DataType, value: Any) -> None:
    parsed = parse(text, data_type)
    assert parsed == value
    assert type(parsed) is type(value)


def test_nan_is_read_in_any_case() -> None:
    assert all(math.isnan(parse(text, DOUBLE)) for text in ("NaN", "nan", "NAN"))


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        pytest.param("2020-01-01 00:00:00", datetime(2019, 12, 31, 23), id="winter"),
        pytest.param("2021-03-28 02:30:00", datetime(2021, 3, 28, 1, 30), id="a skipped hour"),
        pytest.param("2021-10-31 02:30:00", datetime(2021, 10, 31, 0, 30), id="an hour twice"),
        pytest.param("2020-01-01T00:00:00Z", datetime(2020, 1, 1), id="a zone of its own"),
    ],
)
def test_a_timestamp_without_a_zone_is_of_the_writers(text: str, utc: datetime) -> None:
    assert parse(text, TIMESTAMP, time_zone="Europe/Amsterdam") == utc.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        pytest.param("128", BYTE, id="too great for byte"),
        pytest.param("1_0", LONG, id="Python's digits"),
        pytest.param("\N{ARABIC-INDIC DIGIT ONE}", LONG, id="digits of another script"),
        pytest.param("1.0", INTEGER, id="a fraction in an integer"),
        pytest.param(" 1", INTEGER, id="a blank"),
        pytest.param("infinite", DOUBLE, id="a word that is no number"),
        pytest.param("1e39", FLOAT, id="too great for float"),
        pytest.param("1e400", DOUBLE, id="too great for double"),
        pytest.param("0x1p3", DOUBLE, id="hexadecimal"),
        pytest.param("NaN", DecimalType(5, 2), id="NaN as a decimal"),
        pytest.param("1.234", DecimalType(5, 2), id="too many decimal places"),
        pytest.param("1000", DecimalType(5, 2), id="too many digits"),
        pytest.param("yes", BOOLEAN, id="yes"),
        pytest.param("20200101", DATE, id="a date without hyphens"),
        pytest.param("2020-02-30", DATE, id="no such day"),
        pytest.param("10000-01-01", DATE, id="a year that Python cannot hold"),
        pytest.param("2020-01-01 24:00:00", TIMESTAMP, id="no such hour"),
        pytest.param("2020-01-01 00:00:00.0000001", TIMESTAMP, id="nanoseconds"),
        pytest.param("0001-01-01T00:00:00+01:00", TIMESTAMP, id="before year 1 in UTC"),
        pytest.param("2020-01-01T00:00:00Z", TIMESTAMP_NTZ, id="a zone where none belongs"),
        pytest.param("\ud800", STRING, id="half a surrogate pair"),
        pytest.param("a", ArrayType(STRING), id="an array"),
        pytest.param("a", PrimitiveType("variant"), id="a variant"),
    ],
)
def test_a_malformed_text_is_refused_with_value_and_type(text: str, data_type: DataType) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse(text, data_type)
    assert f"Partition value {text!r} is not a valid {data_type.name}." in str(refused.value)


@given(st.text(), st.sampled_from(list(VALUES)))
def test_parse_gives_a_value_or_refuses(text: str, data_type: DataType) -> None:
    try:
        value = parse(text, data_type)
    except InvalidRequestError:
        return
    assert serialize(value, data_type) is not None or value is None


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        pytest.param(True, INTEGER, id="a bool is no int"),
        pytest.param(1, BOOLEAN, id="an int is no bool"),
        pytest.param(2**31, INTEGER, id="too great"),
        pytest.param(1.0, INTEGER, id="a float is no int"),
        pytest.param(1e39, FLOAT, id="too great for float"),
        pytest.param(Decimal("1.001"), DecimalType(5, 2), id="too many decimal places"),
        pytest.param(Decimal("1000"), DecimalType(5, 2), id="too many digits"),
        pytest.param(Decimal("NaN"), DecimalType(5, 2), id="NaN"),
        pytest.param("2020-01-01", DATE, id="text for a date"),
        pytest.param(datetime(2020, 1, 1), DATE, id="a datetime for a date"),
        pytest.param(datetime(2020, 1, 1), TIMESTAMP, id="no zone"),
        pytest.param(datetime(2020, 1, 1, tzinfo=UTC), TIMESTAMP_NTZ, id="a zone"),
        pytest.param("a", BINARY, id="text for binary"),
        pytest.param(b"\xff", BINARY, id="bytes that are no UTF-8"),
        pytest.param("\ud800", STRING, id="half a surrogate pair"),
        pytest.param("a", ArrayType(STRING), id="an array"),
    ],
)
def test_a_value_of_another_type_is_refused(value: Any, data_type: DataType) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        serialize(value, data_type)
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize("zone", ["+09:00", "+9", "UTC+09", "GMT+0900", "Asia/Tokyo"])
def test_a_zone_is_a_region_or_an_offset(zone: str) -> None:
    found = parse("2020-01-01 09:00:00", TIMESTAMP, time_zone=zone)
    assert found == datetime(2020, 1, 1, tzinfo=UTC)


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse("2020-01-01 00:00:00", TIMESTAMP, time_zone="Mars/Phobos")
    assert "'Mars/Phobos' is not a time zone" in str(refused.value)


@given(st.data(), st.sampled_from(list(VALUES)))
def test_parse_array_is_parse_of_each(data: st.DataObject, data_type: DataType) -> None:
    texts = [
        serialize(value, data_type)
        for value in data.draw(st.lists(st.none() | VALUES[data_type], max_size=5))
    ] + ["", None]
    parsed = parse_array(pa.array(texts, pa.string()), data_type)
    assert parsed.type == arrow_type_from_type(data_type)
    expected = [parse(text, data_type) for text in texts]
    assert all(map(is_same, parsed.to_pylist(), expected))


_SPELLINGS = [
    *("+1", "01", "-0", " 1", "1 ", "1\n", "1_000", "\u0661", "\uff11", "0x1F", "--1", "-", "1\0"),
    *("1e3", "1.", ".5", "-0.0", "NaN", "nan", "inf", "-Infinity", "1e400", "0" * 19 + "1"),
    *("127", "128", "-129", "32768", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "99999999.99", "1.234"),
    *("0001-01-01", "0000-01-01", "9999-12-31", "2020-02-29", "2019-02-29", "1900-02-29"),
    *("2020-2-3", "2020-13-01", "2020-01-00", "1582-10-10", "2020-01-01 ", "2020-01-01\n"),
    *("2020-01-01 00:00:00", "2020-01-01T23:59:60Z", "2020-01-01 24:00:00", "2020-01-01T00:60:00Z"),
    *("2020-01-01T00:00:00.1Z", "2020-01-01 00:00:00.123456", "2020-01-01T00:00:00.1234567Z"),
    *("2020-01-01T00:00:00.123456000Z", "2020-01-01T00:00:00+01:00", "2020-01-01T00:00:00z"),
    *("0001-01-01T00:00:00Z", "0000-12-31T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2020-01-01Z"),
    *("true", "TRUE", "False", "yes", "\0", "a\0b", "\U0001f3b5", ""),
]
_HOSTILE_TEXTS = st.sampled_from(_SPELLINGS) | st.tuples(
    st.sampled_from(_SPELLINGS), st.integers(0, 30), st.sampled_from("0159+-:. TZ")
).map(lambda edit: edit[0][: edit[1]] + edit[2] + edit[0][edit[1] + 1 :])


@given(st.data(), st.sampled_from(list(VALUES)), st.sampled_from(["UTC", "America/New_York"]))
@settings(max_examples=200)
def test_parse_array_reads_and_refuses_hostile_texts_as_parse_does(
    data: st.DataObject, data_type: DataType, zone: str
) -> None:
    written = VALUES[data_type].map(lambda value: serialize(value, data_type))
    # Often one text alone, because one text that Arrow cannot parse stops the others.
    texts = data.draw(st.lists(st.none() | _HOSTILE_TEXTS | written, min_size=1, max_size=3))
    _assert_parsed_alike(texts, data_type, zone)


@pytest.mark.parametrize("data_type", list(VALUES), ids=lambda t: t.name)
def test_parse_array_reads_and_refuses_each_spelling_as_parse_does(data_type: DataType) -> None:
    for text in _SPELLINGS:
        _assert_parsed_alike([text], data_type, "UTC")


def _assert_parsed_alike(texts: list[str | None], data_type: DataType, zone: str) -> None:
    array = pa.array(texts, pa.string())
    expected = _values_or_error(lambda: [parse(text, data_type, time_zone=zone) for text in texts])
    parsed = _values_or_error(lambda: parse_array(array, data_type, time_zone=zone).to_pylist())
    if isinstance(expected, str) or isinstance(parsed, str):
        assert parsed == expected
    else:
        assert all(map(is_same, parsed, expected))


def _values_or_error(values: Callable[[], list[Any]]) -> list[Any] | str:
    try:
        return values()
    except InvalidRequestError as error:
        return str(error)


def test_parse_array_takes_any_array_of_strings() -> None:
    arrays = [
        pa.array(["1", None], pa.large_string()),
        pa.array(["0", "1", None]).slice(1),
        pa.array(["1", None]).dictionary_encode(),
    ]
    assert [parse_array(array, INTEGER).to_pylist() for array in arrays] == [[1, None]] * 3
    assert parse_array(pa.nulls(2), INTEGER).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("value", "directory"),
    [
        pytest.param("US/East", "US%2FEast", id="a slash"),
        pytest.param("/=%", "%2F%3D%25", id="first characters too"),
        pytest.param("100%25", "100%2525", id="an escape is escaped"),
        pytest.param("hello world", "hello world", id="a blank stays"),
        pytest.param("München 日本語 🎵", "München 日本語 🎵", id="non-ASCII stays"),
        pytest.param("a{b}c", "a%7Bb}c", id="only the opening brace"),
        pytest.param("a<b>c|d@b!c(d)&b+c$d;e,f~", "a<b>c|d@b!c(d)&b+c$d;e,f~", id="others stay"),
        pytest.param(
            "\"#%'*/:=?\\\x7f{[]^", "%22%23%25%27%2A%2F%3A%3D%3F%5C%7F%7B%5B%5D%5E", id="all"
        ),
        pytest.param("\x00\n\x1f", "%00%0A%1F", id="control characters"),
        pytest.param(None, "__HIVE_DEFAULT_PARTITION__", id="null"),
        pytest.param("", "__HIVE_DEFAULT_PARTITION__", id="the empty string is null"),
    ],
)
def test_hive_directory_escapes_as_spark_does(value: str | None, directory: str) -> None:
    assert hive_directory(["p"], {"p": value}) == f"p={directory}"


def test_hive_directory_has_columns_in_order_with_escaped_names() -> None:
    directory = hive_directory(["b", "a=/"], {"a=/": "x", "b": None, "unused": "y"})
    assert directory == "b=__HIVE_DEFAULT_PARTITION__/a%3D%2F=x"


@given(st.lists(st.tuples(TEXT.filter(bool), TEXT.filter(bool)), unique_by=lambda pair: pair[0]))
def test_directories_distinguish_partitions(pairs: list[tuple[str, str]]) -> None:
    directory = hive_directory([name for name, _ in pairs], dict(pairs))
    segments = directory.split("/") if directory else []
    assert [tuple(map(unquote, each.split("="))) for each in segments] == pairs


def test_a_column_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        hive_directory(["a", "b"], {"a": "1"})
    assert "Partition column b has no value" in str(refused.value)
