"""Rows of other writers: deletion vectors, mapped names, older types, unusual encodings."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import col
from delta_ops.errors import DataFileError, InvalidRequestError, LogCorruptError
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from tests.arrow.foreign_table import (
    create,
    data_file,
    inline_vector,
    stored_vector,
    vector_file,
)

ID = StructType((StructField("id", LONG),))


def ids(num_rows: int) -> pa.Table:
    return pa.table({"id": pa.array(range(num_rows), pa.int64())})


def mapped(name: str, data_type: DataType, number: int) -> StructField:
    metadata = {
        "delta.columnMapping.id": number,
        "delta.columnMapping.physicalName": f"col-{number}",
    }
    return StructField(name, data_type, metadata=metadata)


def with_ids(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(number)})


@pytest.mark.parametrize("kind", ["inline", "relative", "with a prefix", "absolute"])
def test_deleted_rows_are_left_out(tmp_path: Path, kind: str) -> None:
    deleted = [0, 7, 8, 99, 250, 299]
    vectors = {
        "inline": lambda: inline_vector(deleted),
        "relative": lambda: stored_vector(tmp_path, deleted),
        "with a prefix": lambda: stored_vector(tmp_path, deleted, "a b%"),
        "absolute": lambda: replace(
            stored_vector(tmp_path, deleted),
            storage_type="p",
            path_or_inline_dv=vector_file(tmp_path).as_uri(),
        ),
    }
    options = {"row_group_size": 100}
    add = data_file(tmp_path, "x", ids(300), deletion_vector=vectors[kind](), options=options)
    log = create(tmp_path, ID, [add])
    live = [i for i in range(300) if i not in deleted]
    assert da.to_table(log)["id"].to_pylist() == live
    assert da.count_rows(log) == len(live)
    assert da.to_table(log, predicate=col("id") > 248)["id"].to_pylist() == [
        i for i in live if i > 248
    ]


def test_two_vectors_in_one_file_are_independent(tmp_path: Path) -> None:
    one, other = stored_vector(tmp_path, [1]), stored_vector(tmp_path, [0, 2])
    adds = [
        data_file(tmp_path, "x", ids(3), deletion_vector=one),
        data_file(tmp_path, "y", ids(3), deletion_vector=other),
    ]
    assert da.to_table(create(tmp_path, ID, adds))["id"].to_pylist() == [0, 2, 1]


def test_a_file_whose_rows_are_all_deleted_has_none(tmp_path: Path) -> None:
    add = data_file(tmp_path, "x", ids(5), deletion_vector=inline_vector(range(5)))
    log = create(tmp_path, ID, [add])
    assert len(da.to_table(log)) == da.count_rows(log) == 0


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(lambda path: path.unlink(), "is missing", id="gone"),
        pytest.param(
            lambda path: path.write_bytes(path.read_bytes()[:-3]),
            "its file is too short",
            id="cut off",
        ),
        pytest.param(
            lambda path: path.write_bytes(path.read_bytes()[:-9] + bytes(9)),
            "its checksum does not match",
            id="other bytes",
        ),
    ],
)
def test_a_damaged_vector_brings_no_row_back(tmp_path: Path, damage: Any, reason: str) -> None:
    add = data_file(tmp_path, "x", ids(5), deletion_vector=stored_vector(tmp_path, [1]))
    log = create(tmp_path, ID, [add])
    damage(vector_file(tmp_path))
    with pytest.raises(DataFileError, match=reason) as error:
        da.to_table(log)
    assert (error.value.version, error.value.file) == (0, "x")
    assert "deletion vector" in str(error.value)


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(replace(inline_vector([1, 2]), cardinality=1), id="other rows than it says"),
        pytest.param(replace(inline_vector([1]), storage_type="x"), id="an unknown kind"),
        pytest.param(
            DeletionVector(
                storage_type="u",
                path_or_inline_dv="../../" + "0" * 20,
                offset=1,
                size_in_bytes=8,
                cardinality=1,
            ),
            id="outside of the table",
        ),
    ],
)
def test_a_vector_that_contradicts_the_log_is_refused(
    tmp_path: Path, vector: DeletionVector
) -> None:
    log = create(tmp_path, ID, [data_file(tmp_path, "x", ids(5), deletion_vector=vector)])
    with pytest.raises(DataFileError, match="deletion vector"):
        da.to_table(log)


NESTED = StructType(
    (
        mapped("id", LONG, 1),
        mapped(
            "s",
            StructType(
                (
                    mapped("a", INTEGER, 3),
                    mapped("l", ArrayType(StructType((mapped("x", STRING, 5),))), 4),
                )
            ),
            2,
        ),
        mapped("m", MapType(STRING, StructType((mapped("y", LONG, 7),))), 6),
        mapped("p", STRING, 8),
        mapped("later", STRING, 9),
    )
)
ROWS = [
    {
        "id": 1,
        "s": {"a": 5, "l": [{"x": "q"}, None]},
        "m": [("k", {"y": 9})],
        "p": "P",
        "later": None,
    },
    {"id": 2, "s": None, "m": None, "p": "P", "later": None},
]


def physical(*, by_id: bool) -> pa.Table:
    """The rows under physical names, or under other names with ids."""

    def field(number: int, data_type: pa.DataType) -> pa.Field:
        name = f"other{number}" if by_id else f"col-{number}"
        return with_ids(pa.field(name, data_type), number)

    element = pa.struct([field(5, pa.string())])
    schema = pa.schema(
        [
            field(6, pa.map_(pa.string(), pa.struct([field(7, pa.int64())]))),
            field(2, pa.struct([field(4, pa.list_(element)), field(3, pa.int32())])),
            field(1, pa.int64()),
        ]
    )
    one, two, three, four, five, six, seven = (
        f"other{i}" if by_id else f"col-{i}" for i in range(1, 8)
    )
    return pa.Table.from_pylist(
        [
            {one: 1, two: {three: 5, four: [{five: "q"}, None]}, six: [("k", {seven: 9})]},
            {one: 2, two: None, six: None},
        ],
        schema,
    )


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_found_at_every_depth(tmp_path: Path, mode: str) -> None:
    add = data_file(tmp_path, "x", physical(by_id=mode == "id"), partition_values={"col-8": "P"})
    log = create(tmp_path, NESTED, [add], {"delta.columnMapping.mode": mode}, ("p",))
    table = da.to_table(log)
    assert table.schema == log.snapshot().arrow_schema
    assert table.to_pylist() == ROWS
    assert da.to_table(log, ["p", "s.a", "id"], col("id") == 1).to_pylist() == [
        {"p": "P", "s": {"a": 5}, "id": 1}
    ]


def test_a_file_without_ids_is_refused_where_columns_go_by_them(tmp_path: Path) -> None:
    schema = StructType((mapped("id", LONG, 1),))
    log = create(
        tmp_path, schema, [data_file(tmp_path, "x", ids(3))], {"delta.columnMapping.mode": "id"}
    )
    with pytest.raises(DataFileError, match="have no ids"):
        da.to_table(log)


@pytest.mark.parametrize(
    ("stored", "wanted", "read"),
    [
        pytest.param(pa.array([1], pa.int8()), SHORT, 1, id="byte to short"),
        pytest.param(pa.array([1], pa.int32()), BYTE, 1, id="a byte as Parquet has it"),
        pytest.param(pa.array([2**31 - 1], pa.int32()), LONG, 2**31 - 1, id="integer to long"),
        pytest.param(pa.array([7], pa.int16()), DOUBLE, 7.0, id="short to double"),
        pytest.param(pa.array([0.1], pa.float32()), DOUBLE, 0.10000000149011612, id="float"),
        pytest.param(
            pa.array([2**63 - 1], pa.int64()),
            DecimalType(20, 0),
            Decimal(2**63 - 1),
            id="long to decimal",
        ),
        pytest.param(
            pa.array([-5], pa.int32()), DecimalType(12, 2), Decimal("-5.00"), id="int to decimal"
        ),
        pytest.param(
            pa.array([Decimal("1.5")], pa.decimal128(3, 1)),
            DecimalType(38, 10),
            Decimal("1.5000000000"),
            id="decimal to decimal",
        ),
        pytest.param(
            pa.array([date(1, 1, 1)]), TIMESTAMP_NTZ, datetime(1, 1, 1), id="date to timestamp"
        ),
    ],
)
def test_a_type_that_was_widened_is_widened(
    tmp_path: Path, stored: pa.Array, wanted: DataType, read: Any
) -> None:
    nested = StructType(
        (
            StructField("v", wanted),
            StructField("s", StructType((StructField("v", wanted),))),
            StructField("l", ArrayType(wanted)),
        )
    )
    rows = pa.table(
        {
            "v": stored,
            "s": pa.StructArray.from_arrays([stored], ["v"]),
            "l": pa.ListArray.from_arrays([0, 1], stored),
        }
    )
    options = {"store_decimal_as_integer": True}
    log = create(tmp_path, nested, [data_file(tmp_path, "x", rows, options=options)])
    assert da.to_table(log).to_pylist() == [{"v": read, "s": {"v": read}, "l": [read]}]


@pytest.mark.parametrize("unit", ["ms", "us", "ns", "INT96"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_timestamps_of_every_unit_are_read(tmp_path: Path, unit: str, zone: str | None) -> None:
    wanted = TIMESTAMP_NTZ if zone is None else TIMESTAMP
    moments = [datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(2024, 2, 29, 12)]
    if unit in {"ms", "us", "INT96"}:
        moments += [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999000)]
    data = moments if zone is None else [each.replace(tzinfo=UTC) for each in moments]
    values = pa.array(data, pa.timestamp("us" if unit == "INT96" else unit, zone))
    options = {"use_deprecated_int96_timestamps": True} if unit == "INT96" else {}
    add = data_file(tmp_path, "x", pa.table({"t": values}), options=options)
    log = create(tmp_path, StructType((StructField("t", wanted),)), [add])
    assert da.to_table(log)["t"].to_pylist() == data


def test_fractions_of_a_microsecond_are_dropped(tmp_path: Path) -> None:
    values = pa.array([1_999, -1], pa.timestamp("ns"))
    add = data_file(tmp_path, "x", pa.table({"t": values}))
    log = create(tmp_path, StructType((StructField("t", TIMESTAMP_NTZ),)), [add])
    epoch = datetime(1970, 1, 1)
    assert da.to_table(log)["t"].to_pylist() == [
        epoch + timedelta(microseconds=1),
        epoch - timedelta(microseconds=1),
    ]


@pytest.mark.parametrize("precision", [1, 9, 10, 18, 19, 38])
@pytest.mark.parametrize("as_integer", [True, False])
def test_decimals_of_every_width_are_read(tmp_path: Path, precision: int, as_integer: bool) -> None:
    largest, least = Decimal("9" * precision), Decimal("-" + "9" * precision)
    values = pa.array([largest, least, None], pa.decimal128(precision, 0))
    options = {"store_decimal_as_integer": as_integer, "use_dictionary": as_integer}
    add = data_file(tmp_path, "x", pa.table({"d": values}), options=options)
    log = create(tmp_path, StructType((StructField("d", DecimalType(precision, 0)),)), [add])
    assert da.to_table(log)["d"].to_pylist() == [largest, least, None]


def test_lists_and_texts_of_old_writers_are_read(tmp_path: Path) -> None:
    schema = StructType((StructField("l", ArrayType(STRING)), StructField("b", BINARY)))
    rows = pa.table({"l": [[b"a", None], None], "b": ["x", None]})
    options = {"use_compliant_nested_type": False}
    log = create(tmp_path, schema, [data_file(tmp_path, "x", rows, options=options)])
    assert da.to_table(log).to_pylist() == [{"l": ["a", None], "b": b"x"}, {"l": None, "b": None}]


def test_names_differ_in_case_and_columns_are_missing(tmp_path: Path) -> None:
    schema = StructType(
        (
            StructField("Id", LONG),
            StructField("s", StructType((StructField("A", STRING), StructField("new", LONG)))),
            StructField("nothing", VOID),
        )
    )
    rows = pa.table({"s": [{"a": "x"}, None], "ID": [1, 2], "dropped": [0, 0]})
    log = create(tmp_path, schema, [data_file(tmp_path, "x", rows)])
    assert da.to_table(log).to_pylist() == [
        {"Id": 1, "s": {"A": "x", "new": None}, "nothing": None},
        {"Id": 2, "s": None, "nothing": None},
    ]
    assert da.to_table(log, ["nothing"]).to_pylist() == [{"nothing": None}] * 2
    assert da.to_table(log, ["s.new"]).to_pylist() == [{"s": {"new": None}}, {"s": None}]


def test_a_variant_is_its_metadata_and_its_value(tmp_path: Path) -> None:
    stored = pa.table({"v": [{"value": b"\x0c\x01", "metadata": b"\x01\0\0"}, None]})
    log = create(
        tmp_path, StructType((StructField("v", VARIANT),)), [data_file(tmp_path, "x", stored)]
    )
    assert da.to_table(log).to_pylist() == [
        {"v": {"metadata": b"\x01\0\0", "value": b"\x0c\x01"}},
        {"v": None},
    ]


def test_a_time_without_a_zone_in_the_log_is_of_the_requested_zone(tmp_path: Path) -> None:
    schema = StructType((StructField("id", LONG), StructField("t", TIMESTAMP)))
    texts = ["2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z"]
    adds = [
        data_file(tmp_path, f"{i}", ids(1), partition_values={"t": text})
        for i, text in enumerate(texts)
    ]
    log = create(tmp_path, schema, adds, partition_by=("t",))
    utc = datetime(2024, 1, 1, tzinfo=UTC)
    tokyo = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=9)))
    assert da.to_table(log)["t"].to_pylist() == [utc, utc]
    table = da.to_table(log, partition_time_zone="Asia/Tokyo")
    assert table["t"].to_pylist() == [tokyo, utc]


def test_a_malformed_partition_value_names_its_file(tmp_path: Path) -> None:
    schema = StructType((StructField("id", LONG), StructField("p", LONG)))
    add = data_file(tmp_path, "x", ids(1), partition_values={"p": "one"})
    log = create(tmp_path, schema, [add], partition_by=("p",))
    with pytest.raises(LogCorruptError, match=r"data file x: .*'one'.*column p"):
        da.to_table(log)


def test_row_groups_without_a_matching_row_are_not_read(tmp_path: Path) -> None:
    options = {"row_group_size": 1000, "compression": "none", "use_dictionary": False}
    add = data_file(tmp_path, "x", ids(4000), options=options)
    log = create(tmp_path, ID, [add])
    place = tmp_path / "x"
    content = bytearray(place.read_bytes())
    content[100:300] = bytes(200)  # in the first row group
    place.write_bytes(content)
    matching = da.to_table(log, predicate=(col("id") >= 2000) & (col("id") < 2003))
    assert matching["id"].to_pylist() == [2000, 2001, 2002]


def test_rows_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    adds = [
        data_file(
            tmp_path,
            f"{i:03}",
            ids(1 + 5000 * (i % 7 == 0)).append_column("n", [[i] * (1 + 5000 * (i % 7 == 0))]),
        )
        for i in range(60)
    ]
    schema = StructType((StructField("id", LONG), StructField("n", LONG)))
    log = create(tmp_path, schema, adds)
    files = log.snapshot().files(("path",))["path"].to_pylist()
    found = da.to_table(log, ["n"])["n"].to_pylist()
    assert list(dict.fromkeys(found)) == [int(path) for path in files]


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        pytest.param(pa.array(["1"]), LONG, id="a text that is a number"),
        pytest.param(pa.array([1]), STRING, id="a number as a text"),
        pytest.param(pa.array([3]), BOOLEAN, id="a number as a truth value"),
        pytest.param(pa.array([0.1]), FLOAT, id="more digits than a float has"),
        pytest.param(pa.array([1.5]), DecimalType(5, 2), id="a number that has no exact digits"),
        pytest.param(pa.array([5]), TIMESTAMP, id="a number as a time"),
        pytest.param(pa.array([datetime(2020, 1, 1, 12)]), DATE, id="a time as a date"),
        pytest.param(pa.array([{"a": 1}]), STRING, id="a struct as a text"),
    ],
)
def test_a_type_that_none_was_widened_from_is_refused(
    tmp_path: Path, stored: pa.Array, wanted: DataType
) -> None:
    nested = StructType((StructField("s", StructType((StructField("v", wanted),))),))
    rows = pa.table({"s": pa.StructArray.from_arrays([stored], ["v"])})
    log = create(tmp_path, nested, [data_file(tmp_path, "x", rows)])
    with pytest.raises(
        DataFileError, match=r"version 0: data file x .*column s\.v is .* in the file"
    ):
        da.to_table(log)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        pytest.param(pa.array([2**60 + 1]), DOUBLE, id="too long for a double"),
        pytest.param(pa.array([2**40]), INTEGER, id="too long for an integer"),
        pytest.param(pa.array([Decimal("1.55")]), DecimalType(3, 1), id="a digit too many"),
    ],
)
def test_a_value_that_would_be_changed_is_refused(
    tmp_path: Path, stored: pa.Array, wanted: DataType
) -> None:
    schema = StructType((StructField("v", wanted),))
    log = create(tmp_path, schema, [data_file(tmp_path, "x", pa.table({"v": stored}))])
    with pytest.raises(DataFileError, match="version 0: data file x cannot be read"):
        da.to_table(log)


def test_dates_go_from_the_first_year_to_the_last(tmp_path: Path) -> None:
    values = pa.table({"d": [date(1, 1, 1), date(9999, 12, 31)]})
    log = create(
        tmp_path, StructType((StructField("d", DATE),)), [data_file(tmp_path, "x", values)]
    )
    assert da.to_table(log)["d"].to_pylist() == [date(1, 1, 1), date(9999, 12, 31)]


def test_a_field_of_what_is_no_struct_is_not_there(tmp_path: Path) -> None:
    log = create(tmp_path, ID)
    with pytest.raises(InvalidRequestError, match="id is long, which has no fields"):
        da.to_table(log, ["id.x"])


def test_the_schema_is_exported_once(tmp_path: Path) -> None:
    log = create(tmp_path / "t", ID)
    da.export_schema(log, tmp_path / "s.parquet")
    import pyarrow.parquet as pq

    empty = pq.read_table(tmp_path / "s.parquet")
    assert (empty.schema, len(empty)) == (log.snapshot().arrow_schema, 0)
    with pytest.raises(InvalidRequestError, match="already exists"):
        da.export_schema(log, tmp_path / "s.parquet")
