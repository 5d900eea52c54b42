"""Shredded variants: the separate columns become one value again in the table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.variant_utils import VariantUtils

import delta_ops.arrow as da
from delta_ops.errors import DataFileError
from delta_ops.protocol.schema import VARIANT, StructField, StructType
from delta_ops.protocol.variant import (
    Primitive,
    array_value,
    binary_value,
    decimal_value,
    field_names,
    primitive_value,
    string_value,
)
from tests.support.variants import (
    NO_NAMES,
    NULL,
    dictionary,
    encode,
    fields,
    group,
    read,
    row,
    says,
    shredded_type,
    write_log,
)


def test_numbers_of_a_type_and_others(tmp_path: Path) -> None:
    stored = [row(34), row(None, NULL), row(None, string_value("n/a")), row(100), None]
    column = read(tmp_path, pa.array(stored, shredded_type(pa.int64())))
    assert says(column) == [34, None, "n/a", 100, "SQL NULL"]


def test_a_variant_that_is_missing_where_there_must_be_one_is_the_variant_null(
    tmp_path: Path,
) -> None:
    tags = pa.list_(group(pa.string()))
    stored = [row(None), row([{"value": None, "typed_value": None}]), None]
    assert says(read(tmp_path, pa.array(stored, shredded_type(tags)))) == [None, [None], "SQL NULL"]


def test_arrays(tmp_path: Path) -> None:
    def texts(*each: str | None) -> list[dict[str, Any]]:
        return [{"value": None if text else NULL, "typed_value": text} for text in each]

    stored = [
        row(texts("comedy", "drama")),
        row(texts("horror", None)),
        row(None, NULL),
        row([]),
        None,
        row(None, string_value("none")),
        row(texts("x")),
    ]
    column = read(tmp_path, pa.array(stored, shredded_type(pa.list_(group(pa.string())))))
    expected = [["comedy", "drama"], ["horror", None], None, [], "SQL NULL", "none", ["x"]]
    assert says(column) == expected


EVENT = fields(event_type=pa.string(), event_ts=pa.timestamp("us", "UTC"))
EVENT_NAMES = dictionary(["event_ts", "email", "click", "event_type", "error_msg"])
AT_VALUE = 12, (1_729_794_114_000_000).to_bytes(8, "little")


def event(event_type: Any = None, event_ts: Any = None) -> dict[str, Any]:
    """The columns of an event; bytes are values that do not fit their column."""
    return {
        name: {
            "value": each if isinstance(each, bytes) else None,
            "typed_value": None if isinstance(each, bytes) else each,
        }
        for name, each in {"event_type": event_type, "event_ts": event_ts}.items()
    }


def others(value: Any) -> bytes:
    """The fields of an event without columns of their own."""
    return encode(value, field_names(EVENT_NAMES))


@pytest.mark.parametrize(
    ("value", "typed", "expected"),
    [
        pytest.param(
            None,
            event("noop", 1_729_794_114_000_000),
            {"event_type": "noop", "event_ts": AT_VALUE},
            id="an object all of whose fields have columns",
        ),
        pytest.param(
            others({"email": "user@example.com"}),
            event("login", 1_729_794_114_000_000),
            {"event_type": "login", "event_ts": AT_VALUE, "email": "user@example.com"},
            id="an object with one field without a name",
        ),
        pytest.param(
            others({"error_msg": "malformed"}),
            event(),
            {"error_msg": "malformed"},
            id="an object that lacks the fields that have columns",
        ),
        pytest.param(others("malformed"), None, "malformed", id="no object"),
        pytest.param(
            others({"click": "_button"}),
            event(event_ts=1_729_794_114_000_000),
            {"click": "_button", "event_ts": AT_VALUE},
            id="an object that lacks a field",
        ),
        pytest.param(
            None,
            event(NULL, 1_729_794_114_000_000),
            {"event_type": None, "event_ts": AT_VALUE},
            id="a field that is the variant null",
        ),
        pytest.param(
            None,
            event("noop", string_value("2024-10-24")),
            {"event_type": "noop", "event_ts": "2024-10-24"},
            id="a field of another type than its column",
        ),
        pytest.param(None, event(), {}, id="an empty object"),
        pytest.param(NULL, None, None, id="the variant null"),
        pytest.param(None, None, None, id="missing"),
        pytest.param(
            others({"event_type": "login"}),
            None,
            {"event_type": "login"},
            id="an object without its columns, which has but one meaning",
        ),
    ],
)
def test_objects(tmp_path: Path, value: bytes | None, typed: Any, expected: Any) -> None:
    column = read(tmp_path, pa.array([None, row(typed, value, EVENT_NAMES)], shredded_type(EVENT)))
    assert says(column) == ["SQL NULL", expected]


def test_a_field_without_its_group_is_missing(tmp_path: Path) -> None:
    typed = pa.struct([pa.field("a", group(pa.int64())), pa.field("b", group(pa.int64()))])
    stored = [row({"a": None, "b": {"value": None, "typed_value": 1}}, None, dictionary(["b"]))]
    assert says(read(tmp_path, pa.array(stored, shredded_type(typed)))) == [{"b": 1}]


def test_objects_in_arrays_in_objects(tmp_path: Path) -> None:
    point = fields(lat=pa.float64(), tags=pa.list_(group(pa.int16())))
    typed = fields(at=pa.list_(group(point)), n=pa.int8())

    def part(typed: Any, value: bytes | None = None) -> dict[str, Any]:
        return {"value": value, "typed_value": typed}

    first, second = dictionary(["at", "x", "lat", "tags", "n"]), dictionary(["n", "lat", "at"])
    some = encode({"x": 1}, field_names(first))
    stored = [
        row(
            {
                "at": part(
                    [
                        part({"lat": part(1.5), "tags": part([part(1), part(None, NULL)])}, some),
                        part(None, string_value("nowhere")),
                        part({"lat": part(None, NULL), "tags": part([])}),
                    ]
                ),
                "n": part(None),
            },
            None,
            first,
        ),
        None,
        row(
            {"at": part([part({"lat": part(2.5), "tags": part(None)})]), "n": part(7)}, None, second
        ),
    ]
    assert says(read(tmp_path, pa.array(stored, shredded_type(typed)))) == [
        {"at": [{"lat": 1.5, "tags": [1, None], "x": 1}, "nowhere", {"lat": None, "tags": []}]},
        "SQL NULL",
        {"at": [{"lat": 2.5}], "n": 7},
    ]


def fixed(kind: Primitive, number: int, width: int) -> bytes:
    """A number value of this many bytes."""
    return primitive_value(kind, number.to_bytes(width, "little", signed=True))


@pytest.mark.parametrize(
    ("data_type", "typed", "expected"),
    [
        (pa.bool_(), True, primitive_value(Primitive.TRUE)),
        (pa.bool_(), False, primitive_value(Primitive.FALSE)),
        (pa.int8(), -(2**7), fixed(Primitive.INT8, -(2**7), 1)),
        (pa.int16(), 2**15 - 1, fixed(Primitive.INT16, 2**15 - 1, 2)),
        (pa.int32(), -(2**31), fixed(Primitive.INT32, -(2**31), 4)),
        (pa.int64(), 2**63 - 1, fixed(Primitive.INT64, 2**63 - 1, 8)),
        (pa.float32(), 0.5, primitive_value(Primitive.FLOAT, b"\x00\x00\x00\x3f")),
        (pa.float64(), -2.0, primitive_value(Primitive.DOUBLE, b"\0\0\0\0\0\0\0\xc0")),
        (pa.decimal128(9, 2), Decimal("-1234567.89"), decimal_value(-123456789, 2, 9)),
        (pa.decimal128(10, 2), Decimal("-1.25"), decimal_value(-125, 2, 10)),
        (pa.decimal128(18, 0), Decimal(10**18 - 1), decimal_value(10**18 - 1, 0, 18)),
        (pa.decimal128(19, 19), Decimal("0.1"), decimal_value(10**18, 19, 19)),
        (pa.decimal128(38, 0), Decimal(1 - 10**38), decimal_value(1 - 10**38, 0, 38)),
        (pa.date32(), date(1, 1, 1), fixed(Primitive.DATE, -719_162, 4)),
        (pa.time64("us"), time(0, 0, 1), fixed(Primitive.TIME_NTZ, 1_000_000, 8)),
        (pa.timestamp("us", "UTC"), -1, fixed(Primitive.TIMESTAMP, -1, 8)),
        (pa.timestamp("us"), 2**62, fixed(Primitive.TIMESTAMP_NTZ, 2**62, 8)),
        (pa.timestamp("ns", "UTC"), 1, fixed(Primitive.TIMESTAMP_NANOS, 1, 8)),
        (pa.timestamp("ns"), -1, fixed(Primitive.TIMESTAMP_NTZ_NANOS, -1, 8)),
        (pa.binary(), b"\x00\xff", binary_value(b"\x00\xff")),
        (pa.string(), "é" * 32, string_value("é" * 32)),
        (pa.string(), "", string_value("")),
    ],
    ids=str,
)
def test_values_of_every_type(
    tmp_path: Path, data_type: pa.DataType, typed: Any, expected: bytes
) -> None:
    column = read(tmp_path, pa.array([row(typed), None, row(None, NULL)], shredded_type(data_type)))
    assert [each and each["value"] for each in column.to_pylist()] == [expected, None, NULL]


def test_uuids(tmp_path: Path) -> None:
    uuids = pa.array([UUID(int=1).bytes, None], pa.uuid())
    metadata = pa.array([NO_NAMES] * 2)
    stored = pa.StructArray.from_arrays([metadata, uuids], names=["metadata", "typed_value"])
    (found, missing) = read(tmp_path, stored).field("value").to_pylist()
    assert found == primitive_value(Primitive.UUID, b"\0" * 15 + b"\x01")
    assert missing == NULL


def test_another_decoder_reads_what_was_put_together(tmp_path: Path) -> None:
    typed = fields(d=pa.date32(), t=pa.timestamp("us"), n=pa.decimal128(12, 3), f=pa.float32())
    values = {"d": date(2024, 2, 29), "t": datetime(1582, 10, 4), "n": Decimal("-0.125"), "f": 0.5}
    stored = {name: {"value": None, "typed_value": each} for name, each in values.items()}
    metadata = dictionary(sorted(values, reverse=True), 1)
    (found,) = read(
        tmp_path, pa.array([row(stored, None, metadata)], shredded_type(typed))
    ).to_pylist()
    by_spark: Any = VariantUtils.to_python(found["value"], found["metadata"])
    assert by_spark == values


@pytest.mark.parametrize(
    "typed",
    [
        pa.uint8(),
        pa.uint32(),
        pa.float16(),
        pa.null(),
        pa.binary(4),
        pa.binary(16),
        pa.time32("ms"),
        pa.time64("ns"),
        pa.timestamp("ms"),
        pa.decimal256(39, 0),
        pa.map_(pa.string(), group(pa.int64())),
        pa.list_(pa.int64()),
        pa.struct([pa.field("a", pa.int64())]),
        pa.struct([pa.field("a", pa.struct([pa.field("b", pa.int64())]))]),
        pa.struct([pa.field("a", pa.struct([pa.field("value", pa.string())]))]),
    ],
    ids=str,
)
def test_columns_of_no_type_of_variants_are_refused(tmp_path: Path, typed: pa.DataType) -> None:
    with pytest.raises(DataFileError, match=r"x\.parquet.*variant v"):
        read(tmp_path, pa.array([row(None, NULL)], shredded_type(typed)))


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"value": pa.binary(), "typed_value": pa.int64()}, "has no metadata"),
        ({"metadata": pa.binary()}, "is not a variant"),
        ({"metadata": pa.binary(), "value": pa.binary(), "other": pa.int64()}, "is not a variant"),
        ({"metadata": pa.binary(), "value": pa.string(), "typed_value": pa.int64()}, "string"),
    ],
    ids=["no metadata", "neither value", "an unknown part", "a value that is text"],
)
def test_groups_that_are_no_variants_are_refused(
    tmp_path: Path, parts: Mapping[str, pa.DataType], reason: str
) -> None:
    stored = pa.array([dict.fromkeys(parts)], pa.struct(list(parts.items())))
    with pytest.raises(DataFileError, match=reason):
        read(tmp_path, stored)


INT = encode(1, field_names(NO_NAMES))


@pytest.mark.parametrize(
    ("typed", "stored", "reason"),
    [
        pytest.param(pa.int64(), row(1, INT), "two values", id="a number twice"),
        pytest.param(pa.int64(), row(1, NULL), "two values", id="a number and the variant null"),
        pytest.param(
            pa.list_(group(pa.int64())),
            row([], array_value([])),
            "two values",
            id="an array twice",
        ),
        pytest.param(
            pa.list_(group(pa.int64())),
            row([{"value": INT, "typed_value": 1}]),
            r"v\.element has two values",
            id="an element twice",
        ),
        pytest.param(
            EVENT,
            row(event("login"), others({"event_type": "login"}), EVENT_NAMES),
            "'event_type' is in value",
            id="a field in the value and its column",
        ),
        pytest.param(
            EVENT,
            row(event(), others({"event_type": "login"}), EVENT_NAMES),
            "'event_type' is in value",
            id="a field in the value and not in its column",
        ),
        pytest.param(
            EVENT,
            row(event(), others("a"), EVENT_NAMES),
            "not an object",
            id="an object and a text",
        ),
        pytest.param(
            EVENT,
            row({**event(), "event_type": {"value": INT, "typed_value": "a"}}, None, EVENT_NAMES),
            r"v\.event_type has two values",
            id="a field twice",
        ),
        pytest.param(
            EVENT, row(event("a")), "'event_type'.*not in the dictionary", id="a name not there"
        ),
        pytest.param(pa.int64(), row(1, None, b""), "version", id="an empty dictionary"),
        pytest.param(pa.int64(), row(None, b""), "starts after", id="an empty value"),
        pytest.param(pa.int64(), row(None, INT[:-1]), "ends after", id="a value cut short"),
        pytest.param(
            pa.list_(group(pa.int64())),
            row([{"value": INT[:-1], "typed_value": None}]),
            r"v\.element: a value ends after",
            id="an element cut short, so that it would use bytes of the next element",
        ),
    ],
)
def test_malformed_values_are_refused(
    tmp_path: Path, typed: pa.DataType, stored: Any, reason: str
) -> None:
    with pytest.raises(DataFileError, match=reason):
        read(tmp_path, pa.array([row(None, NULL), stored], shredded_type(typed)))


def test_a_field_with_two_columns_is_refused(tmp_path: Path) -> None:
    one = pa.array([{"value": None, "typed_value": 1}], group(pa.int64()))
    typed = pa.StructArray.from_arrays([one, one], names=["a", "a"])
    metadata = pa.array([dictionary(["a"])])
    stored = pa.StructArray.from_arrays([metadata, typed], names=["metadata", "typed_value"])
    with pytest.raises(DataFileError, match="two fields with the same name"):
        read(tmp_path, stored)


def test_a_part_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    names = ["metadata", "value", "value"]
    fields = [pa.field(name, pa.binary(), nullable=False) for name in names]
    parts = [pa.array([NO_NAMES]), pa.array([NULL]), pa.array([INT])]
    stored = pa.StructArray.from_arrays(parts, fields=fields)
    with pytest.raises(DataFileError, match="two parts with the same name"):
        read(tmp_path, stored)


def test_rows_without_metadata_are_refused(tmp_path: Path) -> None:
    typed = pa.struct([("metadata", pa.binary()), ("typed_value", pa.int64())])
    with pytest.raises(DataFileError, match="rows without metadata"):
        read(tmp_path, pa.array([{"metadata": None, "typed_value": 1}, None], typed))


def test_a_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    texts = pa.array([b"\xff"]).cast(pa.binary()).view(pa.string())
    metadata = pa.array([NO_NAMES])
    stored = pa.StructArray.from_arrays([metadata, texts], names=["metadata", "typed_value"])
    with pytest.raises(DataFileError, match=r"variant v: .*utf-8"):
        read(tmp_path, stored)


def test_a_decimal_with_more_digits_than_its_type_is_refused(tmp_path: Path) -> None:
    number = (10**9).to_bytes(16, "little")
    decimals = pa.Array.from_buffers(pa.decimal128(9, 0), 1, [None, pa.py_buffer(number)])
    table = pa.table(
        {
            "v": pa.StructArray.from_arrays(
                [pa.array([NO_NAMES]), decimals], names=["metadata", "typed_value"]
            )
        }
    )
    pq.write_table(
        table, tmp_path / "x.parquet", store_schema=False, store_decimal_as_integer=False
    )
    log = write_log(tmp_path, StructType((StructField("v", VARIANT),)))
    with pytest.raises(DataFileError, match="digits"):
        da.to_table(log)
