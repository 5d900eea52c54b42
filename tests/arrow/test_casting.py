"""Casting of data to a table: accepted and rejected columns and values."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.casting import plan_fit
from delta_ops.ddl import NewColumn, add_columns, change_type, create_table
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import LONG, DataType, StructField, StructType
from tests.support.tiers import seeded

GiB = 2**30
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
INSTANT = pa.timestamp("us", "UTC")
PAIRS = pa.list_(pa.struct({"key": pa.string(), "value": pa.int64()}))
LOCAL = pa.timestamp("us")
RUNS_OF_VIEWS = pa.RunEndEncodedArray.from_arrays(
    pa.array([2, 3], pa.int32()), pa.array(["x", None], pa.string_view())
)


def fitted(argument: pa.Array, target: pa.DataType) -> Any:
    """The values of a column after a cast to the table's type."""
    batch = pa.record_batch({"a": argument})
    fit = plan_fit(batch.schema, pa.schema([pa.field("a", target)]), "t")
    return [value for piece in fit(batch) for value in piece["a"].to_pylist()]


@pytest.mark.parametrize(
    ("argument", "target"),
    [
        pytest.param(pa.array([1, None], pa.int8()), pa.int64(), id="a wider integer"),
        pytest.param(pa.array([-128, None]), pa.int8(), id="a narrower integer"),
        pytest.param(pa.array([7], pa.uint64()), pa.int64(), id="an unsigned integer"),
        pytest.param(pa.array([2**60]), pa.float64(), id="an integer that a double has"),
        pytest.param(pa.array([3.0, None]), pa.int32(), id="a whole double"),
        pytest.param(pa.array([0.5, float("inf")]), pa.float32(), id="a double that a float has"),
        pytest.param(pa.array([1.5], pa.float16()), pa.float64(), id="a 16-bit float"),
        pytest.param(pa.array([2.0], pa.float16()), pa.int16(), id="a whole 16-bit float"),
        pytest.param(pa.array([999]), pa.decimal128(5, 2), id="an integer of few digits"),
        pytest.param(pa.array([0]), pa.decimal128(38, 38), id="zero with many decimals"),
        pytest.param(pa.array([12.5]), pa.decimal128(5, 2), id="a double of few digits"),
        pytest.param(pa.array([Decimal("2.50")]), pa.float64(), id="a decimal that a double has"),
        pytest.param(pa.array([Decimal("2.00")]), pa.int8(), id="a whole decimal"),
        pytest.param(
            pa.array([Decimal("2.00")], pa.decimal32(5, 2)), pa.int64(), id="a 32-bit decimal"
        ),
        pytest.param(
            pa.array([Decimal("2.5")], pa.decimal256(60, 1)),
            pa.decimal128(3, 2),
            id="a 256-bit decimal of few digits",
        ),
        pytest.param(pa.array([date(2026, 1, 1)], pa.date64()), pa.date32(), id="days in ms"),
        pytest.param(pa.array([NOON], pa.timestamp("s", "UTC")), INSTANT, id="a coarser unit"),
        pytest.param(pa.array(["x", None], pa.large_string()), pa.string(), id="large text"),
        pytest.param(pa.array(["x", None], pa.string_view()), pa.string(), id="a text view"),
        pytest.param(pa.array([b"x"], pa.binary(1)), pa.binary(), id="bytes of fixed size"),
        pytest.param(pa.array([b"x"], pa.binary_view()), pa.binary(), id="a view of bytes"),
        pytest.param(pa.array([1, None]).dictionary_encode(), pa.int64(), id="a dictionary"),
        pytest.param(pc.run_end_encode(pa.array(["x", "x"])), pa.string(), id="runs"),
        pytest.param(RUNS_OF_VIEWS.slice(1), pa.string(), id="a slice of runs of views"),
        pytest.param(pa.array(["{}", None], pa.json_()), pa.string(), id="JSON"),
        pytest.param(pa.nulls(2), pa.struct([("x", pa.int64())]), id="nothing but nulls"),
    ],
)
def test_a_value_that_keeps_its_meaning_is_taken(argument: pa.Array, target: pa.DataType) -> None:
    assert fitted(argument, target) == argument.to_pylist()


@pytest.mark.parametrize(
    ("argument", "target"),
    [
        pytest.param(pa.array([128]), pa.int8(), id="an integer out of range"),
        pytest.param(pa.array([2**63], pa.uint64()), pa.int64(), id="an unsigned one"),
        pytest.param(pa.array([2**53 + 1]), pa.float64(), id="an integer between doubles"),
        pytest.param(pa.array([2**63 - 1]), pa.float64(), id="the greatest integer"),
        pytest.param(pa.array([2.0**63]), pa.int64(), id="a double beyond integers"),
        pytest.param(pa.array([1.5]), pa.int64(), id="a double with a fraction"),
        pytest.param(pa.array([float("nan")]), pa.int64(), id="NaN for an integer"),
        pytest.param(pa.array([float("nan")]), pa.decimal128(5, 2), id="NaN for a decimal"),
        pytest.param(pa.array([0.1]), pa.float32(), id="a double between floats"),
        pytest.param(pa.array([1e300]), pa.float32(), id="a double beyond floats"),
        pytest.param(pa.array([0.123]), pa.decimal128(5, 2), id="a double of many digits"),
        pytest.param(pa.array([1000]), pa.decimal128(5, 2), id="an integer of many digits"),
        pytest.param(pa.array([Decimal("0.5")]), pa.int64(), id="a decimal with a fraction"),
        pytest.param(
            pa.array([Decimal("1E+30")], pa.decimal128(31, 0)),
            pa.decimal128(38, 18),
            id="a decimal whose digits do not fit beside the fraction",
        ),
        pytest.param(
            pa.array([[Decimal("374.1290473")]], pa.list_(pa.decimal128(16, 7))),
            pa.list_(pa.decimal128(38, 36)),
            id="an element that is such a decimal",
        ),
        pytest.param(pa.array([1e30]), pa.decimal128(38, 18), id="a double of too many digits"),
        pytest.param(
            pa.array([Decimal("0.5"), Decimal(9223372036854776000)], pa.decimal128(38, 18)),
            pa.float32(),
            id="the digits that a double of the same value has",
        ),
        pytest.param(pa.array([1], pa.timestamp("ns")), LOCAL, id="a nanosecond"),
        pytest.param(pa.array([2**62], pa.timestamp("s")), LOCAL, id="a time too far away"),
        pytest.param(pa.array([[300]]), pa.list_(pa.int8()), id="an element out of range"),
    ],
)
def test_a_value_that_would_be_changed_is_refused(argument: pa.Array, target: pa.DataType) -> None:
    with pytest.raises(InvalidRequestError, match=r"t: column 'a.*a value does not fit .*; cast"):
        fitted(argument, target)


@pytest.mark.parametrize(
    ("argument", "target"),
    [
        pytest.param(pa.array(["7"]), pa.int64(), id="a text for a number"),
        pytest.param(pa.array([7]), pa.string(), id="a number for a text"),
        pytest.param(pa.array(["2026-01-01"]), pa.date32(), id="a text for a date"),
        pytest.param(pa.array([1]), INSTANT, id="a number for a time"),
        pytest.param(pa.array([NOON]), pa.int64(), id="a time for a number"),
        pytest.param(pa.array([NOON]), pa.date32(), id="a time for a date"),
        pytest.param(pa.array([2]), pa.bool_(), id="a number for a boolean"),
        pytest.param(pa.array([True]), pa.int64(), id="a boolean for a number"),
        pytest.param(pa.array([b"x"]), pa.string(), id="bytes for a text"),
        pytest.param(pa.array([time(1)]), pa.int64(), id="a time of day"),
        pytest.param(pa.array([timedelta(1)]), pa.int64(), id="a duration"),
        pytest.param(pa.array([b"x" * 16], pa.uuid()), pa.binary(), id="an extension type"),
        pytest.param(pa.array([[1]]), pa.int64(), id="a list for a number"),
        pytest.param(pa.array([], pa.string()), pa.int64(), id="another type without rows"),
    ],
)
def test_a_type_of_another_meaning_is_refused(argument: pa.Array, target: pa.DataType) -> None:
    with pytest.raises(InvalidRequestError, match=r"t: column 'a' is .* in the data; cast it"):
        fitted(argument, target)


@pytest.mark.parametrize(
    ("argument", "target", "cure"),
    [
        pytest.param(LOCAL, INSTANT, "assume_timezone", id="a time without a zone"),
        pytest.param(INSTANT, LOCAL, "local_timestamp", id="a time with one"),
        pytest.param(PAIRS, pa.map_(pa.string(), pa.int64()), "MapArray", id="a map of polars"),
    ],
)
def test_the_message_says_how_to_convert_a_type_of_another_meaning(
    argument: pa.DataType, target: pa.DataType, cure: str
) -> None:
    with pytest.raises(InvalidRequestError, match=cure):
        fitted(pa.array([None], argument), target)


def test_a_time_of_any_zone_is_the_same_instant() -> None:
    data = pa.array([NOON], pa.timestamp("ms", "America/New_York"))
    assert fitted(data, INSTANT) == [NOON]


@pytest.mark.parametrize("names", [["a", "a"], ["a", "A"]], ids=["alike", "only in case"])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, names: list[str]) -> None:
    da.write(tmp_path, pa.table({"a": [1]}))
    with pytest.raises(InvalidRequestError, match="column 'a' is in the data twice"):
        da.write(tmp_path, pa.table([[2], [3]], names=names))


POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        pytest.param({"y": "b", "x": 1}, {"x": 1, "y": "b"}, id="in another order"),
        pytest.param({"X": 1, "Y": "b"}, {"x": 1, "y": "b"}, id="in another case"),
        pytest.param({"y": "b"}, {"x": None, "y": "b"}, id="one missing"),
        pytest.param(None, None, id="the struct is null"),
    ],
)
@pytest.mark.parametrize("nest", [lambda v: v, lambda v: [v], lambda v: {"in": v}])
def test_fields_of_structs_are_found_by_name(
    tmp_path: Path, argument: Any, expected: Any, nest: Any
) -> None:
    da.write(tmp_path, pa.table({"a": [nest({"x": 0, "y": "a"})]}))
    da.write(tmp_path, pa.table({"a": [nest(argument)]}))
    assert {"a": nest(expected)} in da.to_table(DeltaLog(tmp_path)).to_pylist()


def test_fields_in_maps_are_found_by_name() -> None:
    data = pa.map_(pa.string(), pa.struct([("Y", pa.large_string()), ("x", pa.int32())]))
    pairs = pa.array([[("no", None)], None, [("k", {"Y": "b", "x": 1})], []], data).slice(1)
    expected = [None, [("k", {"x": 1, "y": "b"})], []]
    assert fitted(pairs, pa.map_(pa.string(), POINT)) == expected


@pytest.mark.parametrize(
    ("argument", "target", "name"),
    [
        pytest.param([{"z": 1}], POINT, "a.z", id="in a struct"),
        pytest.param([[{"z": 1}]], pa.list_(POINT), "a.element.z", id="in a list"),
    ],
)
def test_a_field_that_the_table_lacks_is_refused(
    argument: list[Any], target: pa.DataType, name: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"no column '{name}'"):
        fitted(pa.array(argument), target)


def test_a_field_that_is_there_twice_is_refused() -> None:
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["x", "X"])
    with pytest.raises(InvalidRequestError, match=r"column 'a\.x' is in the data twice"):
        fitted(twice, POINT)


def test_values_in_a_null_struct_need_not_fit() -> None:
    hidden = pa.StructArray.from_arrays(
        [pa.array([300, 1])], names=["x"], mask=pa.array([True, False])
    )
    assert fitted(hidden, pa.struct([("x", pa.int8())])) == [None, {"x": 1}]


def test_unused_dictionary_values_need_not_fit() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([1, None]), pa.array([300, 1]))
    assert fitted(values, pa.int8()) == [1, None]


@pytest.mark.parametrize(
    "argument",
    [
        pa.large_list(pa.int64()),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int64()),
        pa.list_(pa.int64(), 2),
    ],
    ids=str,
)
def test_lists_of_every_layout_become_plain_lists(argument: pa.DataType) -> None:
    lists = pa.array([[9, 9], [1, 2], None, [3, None]], argument).slice(1)
    assert fitted(lists, pa.list_(pa.int64())) == [[1, 2], None, [3, None]]


FRAME = pl.DataFrame(
    {
        "id": [1, 2],
        "c": pl.Series(["u", None], dtype=pl.Categorical),
        "e": pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])),
        "in_list": pl.Series([["u"], None], dtype=pl.List(pl.Categorical)),
        "in_struct": pl.Series([{"c": "u"}, None], dtype=pl.Struct({"c": pl.Categorical})),
        "pair": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2)),
    }
)


@pytest.mark.parametrize("partition_by", [[], ["c"]], ids=["flat", "partitioned by one"])
def test_categories_of_polars_are_created_and_appended(
    tmp_path: Path, partition_by: list[str]
) -> None:
    da.write(tmp_path, FRAME, partition_by=partition_by)
    da.write(tmp_path, FRAME)
    found = da.to_table(DeltaLog(tmp_path)).sort_by("id").to_pylist()
    assert found == [row for row in FRAME.to_dicts() for _ in range(2)]


def test_python_objects_in_a_frame_of_polars_are_refused_not_stored_as_addresses(
    tmp_path: Path,
) -> None:
    frame = pl.DataFrame({"a": [1], "b": pl.Series([{1}], dtype=pl.Object)})
    with pytest.raises(InvalidRequestError, match="column b of a polars frame holds Python obj"):
        da.write(tmp_path, frame)
    da.write(tmp_path, pa.table({"a": [1], "b": [b"x"]}))
    with pytest.raises(InvalidRequestError, match="column b of a polars frame holds Python obj"):
        da.merge(tmp_path, frame, "target.a = source.a").when_matched_update_all().execute()
    assert da.to_table(tmp_path)["b"].to_pylist() == [b"x"]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "surface",
    [
        pytest.param(lambda root, data, _: da.write(root, data), id="write"),
        pytest.param(
            lambda root, data, _: da.write(root, data, merge_schema=True), id="merge_schema"
        ),
        pytest.param(
            lambda root, data, _: (
                da.merge(root, data, "target.id = source.id")
                .when_not_matched_insert({"id": "source.id"})
                .execute()
            ),
            id="merge",
        ),
        pytest.param(
            lambda root, data, _: create_table(root / "new", data.schema), id="create, by Arrow"
        ),
        pytest.param(
            lambda root, _, data_type: create_table(
                root / "new", StructType((StructField("x", data_type),))
            ),
            id="create",
        ),
        pytest.param(
            lambda root, _, data_type: add_columns(
                root, [NewColumn(name="x", data_type=data_type)]
            ),
            id="add_columns",
        ),
        pytest.param(lambda root, _, data_type: change_type(root, "id", data_type), id="change"),
    ],
)
def test_columns_nested_deeper_than_functions_can_call_themselves_are_refused(
    tmp_path: Path, surface: Callable[[Path, pa.Table, DataType], object]
) -> None:
    da.write(tmp_path, pa.table({"id": [1]}), configuration={"delta.enableTypeWidening": "true"})
    arrow_type = pa.int64()
    data_type: DataType = LONG
    for _ in range(400):
        arrow_type = pa.struct([("a", arrow_type)])
        data_type = StructType((StructField("a", data_type),))
    data = pa.schema([("id", pa.int64()), ("x", arrow_type)]).empty_table()
    with pytest.raises(InvalidRequestError, match="nested too deeply"):
        surface(tmp_path, data, data_type)
    assert DeltaLog(tmp_path).snapshot().version == 0


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([time(1)]), id="a time of day"),
        pytest.param(pa.array([timedelta(1)]), id="a duration"),
        pytest.param(pa.array([1.0], pa.float16()), id="a 16-bit float"),
        pytest.param(pa.array([1], pa.decimal256(50, 2)), id="a long decimal"),
        pytest.param(pa.array([b"x" * 16], pa.uuid()), id="an extension type"),
        pytest.param(pa.array([{}], pa.struct([])), id="a struct without fields"),
    ],
)
def test_a_table_is_not_created_with_what_delta_lacks(tmp_path: Path, column: pa.Array) -> None:
    with pytest.raises(InvalidRequestError, match=r"column '?a"):
        da.write(tmp_path / "t", pa.table({"a": column}))
    assert not (tmp_path / "t").exists()


def test_texts_that_one_array_cannot_hold_become_several_batches() -> None:
    sizes = [2 * GiB - 2**20, 2**21, 3]
    data = _large_texts(sizes)
    fit = plan_fit(data.schema, pa.schema([("a", pa.string())]), "t")
    found = [pc.binary_length(piece["a"]).to_pylist() for piece in fit(data)]
    assert found == [[sizes[0]], sizes[1:]]


def test_a_text_that_no_array_can_hold_is_refused() -> None:
    data = _large_texts([2 * GiB])
    fit = plan_fit(data.schema, pa.schema([("a", pa.string())]), "t")
    with pytest.raises(InvalidRequestError, match="a row of the data is too large"):
        list(fit(data))


def _large_texts(sizes: list[int]) -> pa.RecordBatch:
    """Texts of NUL characters, which take no memory until they are read."""
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    values = pa.py_buffer(mmap.mmap(-1, ends[-1]))
    offsets = pa.array(ends, pa.int64()).buffers()[1]
    texts = pa.Array.from_buffers(pa.large_string(), len(sizes), [None, offsets, values])
    return pa.record_batch({"a": texts})


@pytest.mark.parametrize(("precision", "scale"), [(5, 5), (15, 0), (18, 6), (20, 4), (38, 37)])
def test_decimals_become_the_nearest_floating_point_numbers(precision: int, scale: int) -> None:
    draw = seeded(precision)
    most = 10 ** min(precision, 15)
    exact = [Decimal(draw.randrange(-most, most)).scaleb(-scale) for _ in range(500)]
    data = pa.array([*exact, None], pa.decimal128(precision, scale))
    floats = fitted(data, pa.float64())
    assert floats == [*map(float, exact), None]
    assert fitted(pa.array(floats), data.type) == data.to_pylist()


@pytest.mark.parametrize("target", [pa.float32(), pa.float64()])
def test_digits_of_a_number_are_the_number_at_any_scale(target: pa.DataType) -> None:
    decimals = [Decimal("0.1"), None, Decimal(2**24), Decimal("0.000244140625")]
    numbers = fitted(pa.array(decimals, pa.decimal128(38, 18)), target)
    assert numbers == pa.array([0.1, None, 2**24, 2**-12], target).to_pylist()


@pytest.mark.parametrize("argument", [pa.float32(), pa.float64()])
def test_a_floating_point_number_becomes_the_decimal_that_it_is_written_as(
    argument: pa.DataType,
) -> None:
    numbers = pa.array([0.1, -2.5, 1e-7, None], argument)
    assert fitted(numbers, pa.decimal128(38, 18)) == [
        Decimal("0.1"), Decimal("-2.5"), Decimal("1E-7"), None
    ]  # fmt: skip


def test_a_decimal_with_a_wider_scale_is_the_same_or_refused() -> None:
    draw = seeded(7)
    for _ in range(400):
        precision, wanted_precision = draw.randint(1, 38), draw.randint(1, 38)
        scale, wanted_scale = draw.randint(0, precision), draw.randint(0, wanted_precision)
        value = Decimal(draw.randrange(10 ** draw.randint(0, precision))).scaleb(-scale)
        data = pa.array([value], pa.decimal128(precision, scale))
        try:
            found = fitted(data, pa.decimal128(wanted_precision, wanted_scale))
        except InvalidRequestError:
            continue
        assert found == [value]


def test_keys_and_values_that_are_decimals_meet_floating_point_columns(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"price": [0.3, 0.5, 0.7], "n": [1, 1, 1]}))
    prices = pa.array([Decimal("0.3"), Decimal("0.5"), Decimal("0.7")], pa.decimal128(3, 1))
    merge = da.merge(tmp_path, pa.table({"price": prices, "n": [2, 2, 2]}), "t.price = s.price",
                     target_alias="t", source_alias="s")  # fmt: skip
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert da.to_table(tmp_path)["n"].to_pylist() == [2, 2, 2]
    da.update(tmp_path, {"price": "0.3"})
    assert da.to_table(tmp_path)["price"].to_pylist() == [0.3, 0.3, 0.3]
