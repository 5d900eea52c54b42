"""Variants: values that another decoder reads equally, and invalid bytes."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from delta_ops.protocol.variant import (
    Primitive,
    array_value,
    binary_value,
    decimal_value,
    field_names,
    object_fields,
    object_value,
    primitive_value,
    string_value,
    valid_value,
)
from tests.support.mutations import cut_gap, flip, repeat_piece, truncate
from tests.support.tiers import seeded
from tests.support.variants import NO_NAMES, NULL, decode, dictionary, encode, names_in, values

ONE = primitive_value(Primitive.INT8, b"\x01")
AB = field_names(dictionary(["a", "b"]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(primitive_value(Primitive.NULL), None, id="null"),
        pytest.param(primitive_value(Primitive.TRUE), True, id="true"),
        pytest.param(primitive_value(Primitive.FALSE), False, id="false"),
        pytest.param(primitive_value(Primitive.INT8, b"\x80"), -128, id="int8"),
        pytest.param(primitive_value(Primitive.INT16, b"\x00\x80"), -(2**15), id="int16"),
        pytest.param(primitive_value(Primitive.INT32, b"\0\0\0\x80"), -(2**31), id="int32"),
        pytest.param(primitive_value(Primitive.INT64, b"\0" * 7 + b"\x80"), -(2**63), id="int64"),
        pytest.param(primitive_value(Primitive.FLOAT, struct.pack("<f", 0.5)), 0.5, id="float"),
        pytest.param(primitive_value(Primitive.DOUBLE, struct.pack("<d", 0.1)), 0.1, id="double"),
        pytest.param(decimal_value(-999999999, 9, 9), Decimal("-0.999999999"), id="decimal4"),
        pytest.param(decimal_value(10**9, 2, 10), Decimal("10000000.00"), id="decimal8"),
        pytest.param(decimal_value(-(10**18), 0, 19), Decimal(-(10**18)), id="decimal16"),
        pytest.param(
            primitive_value(Primitive.DATE, struct.pack("<i", -1)), date(1969, 12, 31), id="date"
        ),
        pytest.param(
            primitive_value(Primitive.TIMESTAMP, struct.pack("<q", 1)),
            datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=1),
            id="timestamp",
        ),
        pytest.param(
            primitive_value(Primitive.TIMESTAMP_NTZ, struct.pack("<q", -1)),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            id="timestamp without zone",
        ),
        pytest.param(binary_value(b"\xff\x00"), b"\xff\x00", id="binary"),
        pytest.param(string_value(""), "", id="an empty text"),
        pytest.param(string_value("é" * 31 + "x"), "é" * 31 + "x", id="the longest short text"),
        pytest.param(string_value("é" * 32), "é" * 32, id="the shortest long text"),
        pytest.param(array_value([]), [], id="an empty array"),
        pytest.param(array_value([ONE] * 255), [1] * 255, id="the longest small array"),
        pytest.param(array_value([ONE] * 256), [1] * 256, id="the shortest large array"),
        pytest.param(
            array_value([string_value("x" * 70_000), ONE]), ["x" * 70_000, 1], id="long offsets"
        ),
        pytest.param(object_value({}, AB), {}, id="an empty object"),
        pytest.param(object_value({"b": ONE, "a": NULL}, AB), {"a": None, "b": 1}, id="an object"),
    ],
)
def test_another_decoder_reads_what_was_written(value: bytes, expected: Any) -> None:
    valid_value(value, AB)
    found: Any = VariantUtils.to_python(value, dictionary(["a", "b"]))
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("count", [255, 256, 257])
def test_an_object_names_as_many_fields_as_there_are(count: int) -> None:
    metadata = dictionary([f"n{i}" for i in reversed(range(count))])
    value = object_value({f"n{i}": ONE for i in range(count)}, field_names(metadata))
    valid_value(value, field_names(metadata))
    assert decode(value, metadata) == {f"n{i}": 1 for i in range(count)}


@pytest.mark.parametrize("count", [256, 257, 65_536, 65_537])
def test_the_number_of_a_name_takes_as_many_bytes_as_it_needs(count: int) -> None:
    metadata = dictionary([f"n{i}" for i in range(count)])
    value = object_value({f"n{count - 1}": ONE}, field_names(metadata))
    valid_value(value, field_names(metadata))
    assert decode(value, metadata) == {f"n{count - 1}": 1}


@settings(deadline=None)
@given(values)
def test_written_literals_keep_their_meaning(value: Any) -> None:
    metadata = dictionary(sorted(names_in(value), reverse=True))
    names = field_names(metadata)
    written = encode(value, names)
    valid_value(written, names)
    assert decode(written, metadata) == value
    assert VariantUtils.to_python(written, metadata) == value


@pytest.mark.full
@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=4), values, max_size=4))
def test_an_object_is_split_into_its_fields(value: dict[str, Any]) -> None:
    names = field_names(dictionary(names_in(value)))
    fields = {name: encode(each, names) for name, each in value.items()}
    assert object_fields(object_value(fields, names), names) == fields


def test_an_object_of_another_decoder_is_split() -> None:
    value, metadata = VariantUtils.parse_json('{"b": [1, {"a": 2}], "a": "x"}')
    names = field_names(metadata)
    valid_value(value, names)
    fields = object_fields(value, names)
    assert {k: decode(v, metadata) for k, v in fields.items()} == {"b": [1, {"a": 2}], "a": "x"}


def test_fields_are_found_whatever_the_order_of_their_values() -> None:
    value = bytes([2, 2, 0, 1, 2, 0, 4]) + ONE + string_value("x")
    assert object_fields(value, AB) == {"a": string_value("x"), "b": ONE}


def test_fields_that_are_in_another_order_are_put_in_that_of_their_names() -> None:
    inner = bytes([2, 2, 1, 0, 0, 2, 4]) + string_value("x") + ONE
    value = (
        bytes([0x42 | 0x10, 2, 0, 0, 0, 1, 0, 0, 0, 0, len(inner), len(inner) + 1]) + inner + NULL
    )
    found = valid_value(value, AB)
    assert (len(found), decode(found, dictionary(["a", "b"]))) == (
        len(value),
        {"a": None, "b": {"a": 1, "b": "x"}},
    )
    assert valid_value(found, AB) is found


def test_names_are_in_the_order_of_their_bytes() -> None:
    names = field_names(dictionary(["\U00010000", "\uffff", "z", "Z", ""]))
    value = object_value(dict.fromkeys(names.names, NULL), names)
    assert [names.names[each] for each in value[2:7]] == ["", "Z", "z", "\uffff", "\U00010000"]


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_dictionary_has_numbers_of_any_width(width: int) -> None:
    names = field_names(dictionary(["b", "", "é"], width))
    assert names == (("b", "", "é"), {"b": 0, "": 1, "é": 2})


def test_the_first_of_two_equal_names_counts() -> None:
    assert field_names(dictionary(["a", "b", "a"])).ids == {"a": 0, "b": 1}


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        pytest.param(b"", "not of version 1", id="nothing"),
        pytest.param(b"\x02\x00\x00", "not of version 1", id="another version"),
        pytest.param(b"\x01", "ends too early", id="no count"),
        pytest.param(b"\x01\x02\x00\x01", "ends too early", id="fewer offsets than names"),
        pytest.param(
            b"\xc1\xff\xff\xff\xff\x00", "ends too early", id="four thousand million names"
        ),
        pytest.param(
            b"\x01\x01\x01\x02ab", "offsets in a dictionary", id="a first offset that is not 0"
        ),
        pytest.param(b"\x01\x02\x00\x02\x01a", "offsets in a dictionary", id="descending offsets"),
        pytest.param(b"\x01\x01\x00\x02a", "offsets in a dictionary", id="an offset past the end"),
        pytest.param(
            b"\x01\x01\x00\x01ab", "offsets in a dictionary", id="bytes behind the last name"
        ),
        pytest.param(b"\x01\x01\x00\x01\xff", "utf-8", id="a name that is not UTF-8"),
    ],
)
def test_a_dictionary_that_is_malformed_is_refused(metadata: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        field_names(metadata)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(b"", "starts after", id="nothing"),
        pytest.param(bytes([21 << 2]), "type 21", id="a type that is not known"),
        pytest.param(NULL + NULL, "bytes after", id="two values"),
        pytest.param(bytes([6 << 2]) + b"\0" * 7, "ends after", id="a number that ends early"),
        pytest.param(bytes([8 << 2, 39, 0, 0, 0, 0]), "scale 39", id="a decimal of the scale 39"),
        pytest.param(
            bytes([16 << 2, 3, 0, 0]), "ends too early", id="a text whose length ends early"
        ),
        pytest.param(
            bytes([16 << 2, 3, 0, 0, 0]) + b"ab", "ends after", id="a text that ends early"
        ),
        pytest.param(
            bytes([16 << 2, 1, 0, 0, 0]) + b"\xff", "utf-8", id="a text that is not UTF-8"
        ),
        pytest.param(bytes([2 << 2 | 1]) + b"a", "ends after", id="a short text that ends early"),
        pytest.param(bytes([1 << 2 | 1]) + b"\xff", "utf-8", id="a short text that is not UTF-8"),
        pytest.param(b"\x03\x01\x00", "ends too early", id="an array whose offsets end early"),
        pytest.param(
            b"\x13\xff\xff\xff\xff\x00", "ends too early", id="an array of four thousand million"
        ),
        pytest.param(b"\x03\x01\x00\x02\x00", "ends after", id="an array that ends early"),
        pytest.param(
            b"\x03\x01\x01\x01\x00", "starts after", id="an element past the end of the array"
        ),
        pytest.param(
            b"\x03\x02\x00\x05\x06\x03\x01\x00\x01\x0c\x00",
            "ends after",
            id="an element longer than the array",
        ),
        pytest.param(
            b"\x03\x02\x00\x00\x02\x0c\x01\x00", "bytes after", id="bytes behind an array"
        ),
        pytest.param(
            b"\x03\x02\x00\x00\x02\x0c\x01", "overlap", id="elements that overlap each other"
        ),
        pytest.param(
            b"\x03\x02\x00\x02\x07\x03\x01\x00\x01\x00\x00\x00",
            "overlap",
            id="an element inside another",
        ),
        pytest.param(
            b"\x02\x01\x02\x00\x01\x00",
            "not in the dictionary of names",
            id="a field whose name is not there",
        ),
        pytest.param(
            b"\x02\x02\x00\x00\x00\x01\x02\x00\x00", "two fields", id="a field that is there twice"
        ),
        pytest.param(b"\x03\x01\x00\x01\x54", "type 21", id="an element of no known type"),
    ],
)
def test_bytes_that_are_no_value_are_refused(value: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        valid_value(value, AB)


def test_an_object_cannot_have_a_name_twice_by_two_ids() -> None:
    names = field_names(dictionary(["a", "a"]))
    with pytest.raises(ValueError, match="two fields with the same name"):
        valid_value(b"\x02\x02\x00\x01\x00\x01\x02\x00\x00", names)


def test_an_array_has_no_fields() -> None:
    with pytest.raises(ValueError, match="not an object"):
        object_fields(array_value([ONE]), AB)


def test_a_field_needs_a_name_in_the_dictionary() -> None:
    with pytest.raises(ValueError, match="'c' of an object is not in the dictionary"):
        object_value({"a": ONE, "c": ONE}, AB)


@pytest.mark.parametrize(
    ("unscaled", "precision"), [(10**9, 9), (-(10**18), 18), (10**38, 38), (1000, 3)]
)
def test_a_decimal_with_too_many_digits_is_refused(unscaled: int, precision: int) -> None:
    with pytest.raises(ValueError, match="digits"):
        decimal_value(unscaled, 0, precision)


def test_values_may_be_nested_deeper_than_functions() -> None:
    value = NULL
    for _ in range(5_000):
        value = array_value([value])
    valid_value(value, AB)
    with pytest.raises(ValueError, match="type 63"):
        valid_value(value[:-1] + b"\xfc", AB)


@pytest.mark.some_cases(9)
@pytest.mark.parametrize("seed", range(20))
def test_damaged_values_are_refused_or_mean_something(seed: int) -> None:
    rnd = seeded(seed)
    original = {"a": [1, "x", None, {"b": 2.5}], "b": {"a": "y" * 70, "b": [True, b"z"]}}
    metadata = dictionary(["b", "a"], 1)
    seeds = [
        encode(original, field_names(metadata)),
        VariantUtils.parse_json('{"a":[{"b":1}]}')[0],
    ]
    for _ in range(500):
        value = rnd.choice([flip, flip, truncate, cut_gap, repeat_piece])(rnd.choice(seeds), rnd)
        try:
            valid_value(value, field_names(metadata))
        except ValueError:
            continue
        fields = object_fields(value, field_names(metadata)) if value[0] & 3 == 2 else {}
        again = object_value(fields, field_names(metadata))
        valid_value(array_value([again, value]), field_names(metadata))


@pytest.mark.parametrize("seed", range(5))
def test_damaged_dictionaries_are_refused_or_have_names(seed: int) -> None:
    rnd = seeded(seed)
    for _ in range(500):
        damaged = rnd.choice([flip, truncate, cut_gap, repeat_piece])(
            dictionary(["a", "bc", "é"]), rnd
        )
        try:
            names = field_names(damaged)
        except ValueError:
            continue
        assert all(names.names[i] == name for name, i in names.ids.items())


def test_a_table_without_names_has_the_empty_dictionary() -> None:
    assert field_names(NO_NAMES) == ((), {})
