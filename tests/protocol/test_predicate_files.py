"""A file with a matching row is never skipped, and a full match is never claimed wrongly.

This holds for statistics of any writer.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import combinations_with_replacement
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.protocol.predicate import (
    Comparison,
    In,
    Not,
    Predicate,
    might_match,
    must_match,
    resolve,
)
from delta_ops.protocol.schema import DOUBLE, DataType, DecimalType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.stats.file_domains import (
    PartitionColumn,
    domains_at_once,
    domains_one_by_one,
)
from delta_ops.protocol.stats.from_footer import stats_from_footer
from delta_ops.protocol.stats.indexed_columns import StatsSettings
from delta_ops.protocol.values.partition_values import round_to_float
from tests.protocol.test_predicate_properties import (
    DATA,
    OPERATORS,
    PARTITION_COLUMNS,
    SCHEMA,
    TYPES,
    Row,
    evaluate,
    every_leaf,
    predicates,
    rank,
    row_with,
    rows,
    value_at,
)
from tests.protocol.typed_values import FEW

DATA_TYPES: Mapping[tuple[str, ...], DataType] = {
    path: data_type for path, data_type in TYPES.items() if path[0] not in PARTITION_COLUMNS
}
IN_EACH_RUN = (("s",), ("d",), ("ts",))
"""Columns that `make test` judges by pairs of values."""
Judged = tuple["File", str | None]
"""Rows, and their statistics in the log."""


class File:
    """Rows of one partition."""

    def __init__(self, listed: Sequence[Row]) -> None:
        self.partition_values = {name: listed[0][name] for name in PARTITION_COLUMNS}
        self.rows = [{**row, **self.partition_values} for row in listed]

    def our_stats(self, prefix_length: int = 3, row_group_size: int = 2) -> str:
        table = pa.Table.from_pylist(self.rows, schema=arrow_schema_from_schema(DATA))
        file = io.BytesIO()
        pq.write_table(table, file, row_group_size=row_group_size)
        without_nan = [
            path
            for path in TYPES
            if not any(rank(value_at(path, row)) == (1, 0) for row in self.rows)
        ]
        return stats_from_footer(
            pq.read_metadata(file),
            SCHEMA,
            PARTITION_COLUMNS,
            StatsSettings(string_prefix_length=prefix_length),
            columns_without_nan=without_nan,
        )

    def loosest_stats(self, prefix_length: int = 3) -> str:
        """Rounded bounds, as of writers whose statistics we must not trust."""
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for path in DATA_TYPES:
            values = [value_at(path, row) for row in self.rows]
            put(nulls, path, values.count(None))
            numbers = [v for v in values if v is not None and rank(v) != (1, 0)]
            if numbers and not isinstance(numbers[0], bytes):
                put(low, path, loose(min(numbers, key=rank), prefix_length, is_high=False))
                put(high, path, loose(max(numbers, key=rank), prefix_length, is_high=True))
        parts = {"minValues": low, "maxValues": high, "nullCount": nulls}
        return json.dumps({"numRecords": len(self.rows), **parts})


def put(parts: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if len(path) > 1:
        put(parts.setdefault(path[0], {}), path[1:], value)
    else:
        parts[path[0]] = value


def loose(value: Any, prefix_length: int, *, is_high: bool) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return float(value)
        case datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
            return text + ("Z" if value.tzinfo else "")
        case str():
            return cut_by_utf16(value, prefix_length) if is_high else value[:prefix_length]
        case bool() | int():
            return value
    return value.isoformat()


def cut_by_utf16(text: str, length: int) -> str:
    """Bounds as of older versions of the reference: in UTF-16, with U+FFFD as a tie-breaker."""
    data = text.encode("utf-16-le")
    units = [int.from_bytes(data[i : i + 2], "little") for i in range(0, len(data), 2)]
    if len(units) <= length:
        return text
    end = length
    while end < len(units) and units[end] >= 0xFFFD:
        end += 1
    kept = b"".join(unit.to_bytes(2, "little") for unit in units[:end])
    halved = 0xD800 <= units[end - 1] < 0xDC00
    prefix = kept[:-2].decode("utf-16-le") + "?" if halved else kept.decode("utf-16-le")
    return prefix + "\ufffd"


def judge(
    question: Callable[..., pa.BooleanArray], predicate: Predicate, judged: Sequence[Judged]
) -> list[bool]:
    """The answer for each file."""
    partitions = {
        name: PartitionColumn(
            codes=pa.array(range(len(judged)), pa.int64()),
            values=[file.partition_values[name] for file, _ in judged],
        )
        for name in PARTITION_COLUMNS
    }
    stats = pa.array([text for _, text in judged], pa.string())
    answers: list[bool] = question(resolve(predicate, SCHEMA), partitions, stats).to_pylist()
    return answers


def check(predicate: Predicate, judged: Sequence[Judged]) -> None:
    might = judge(might_match, predicate, judged)
    must = judge(must_match, predicate, judged)
    files = {id(file): file for file, _ in judged}
    outcomes = {key: {evaluate(predicate, row) for row in f.rows} for key, f in files.items()}
    for (file, text), may, must_all in zip(judged, might, must, strict=True):
        assert may or True not in outcomes[id(file)], (predicate, text)
        assert not must_all or outcomes[id(file)] == {True}, (predicate, text)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=".".join(path), marks=() if path in IN_EACH_RUN else pytest.mark.full)
        for path in TYPES
    ],
)
def test_every_file_of_two_values_is_judged_rightly(path: tuple[str, ...]) -> None:
    size = 1 if path[0] in PARTITION_COLUMNS else 2
    listed = [
        File([row_with(path, value) for value in values])
        for values in combinations_with_replacement((None, *FEW[TYPES[path]]), size)
    ]
    judged: list[Judged] = [(file, None) for file in listed]
    judged += [(file, file.our_stats()) for file in listed]
    judged += [(file, file.loosest_stats()) for file in listed]
    for predicate in every_leaf(path):
        check(predicate, judged)
        check(Not(predicate), judged)


FILES = st.lists(rows, min_size=1, max_size=4).map(File)


KINDS = ["whole", "whole", "wide", "swapped", "partial", "odd", "none", "no JSON"]


@st.composite
def judged_files(draw: st.DrawFn) -> Judged:
    """A file and its statistics by some writer, some of them missing or malformed."""
    file = draw(FILES)
    if draw(st.booleans()):
        text = file.our_stats(draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    else:
        text = file.loosest_stats(draw(st.integers(2, 4)))
    parts = json.loads(text, parse_float=Decimal)
    match draw(
        st.sampled_from(["whole", "whole", "wide", "swapped", "partial", "odd", "none", "no JSON"])
    ):
        case "none":
            return file, None
        case "no JSON":
            return file, draw(st.sampled_from(["", " ", "null", "[]", "{", "{}\n{}", '"', "NaN"]))
        case "wide":
            parts["tightBounds"] = False
            file = File(draw(st.lists(st.sampled_from(file.rows), min_size=1)))
        case "swapped":
            swap(parts["minValues"], parts["maxValues"])
        case "partial":
            damage(draw, parts, st.none())
        case "odd":
            damage(draw, parts, ODD)
    text = json.dumps(parts, default=float)
    return file, draw(st.sampled_from([text, text, text.replace(",", ",\n", 1)]))


ODD = st.sampled_from([None, {}, [], "", "x", "NaN", True, {"x": None}, [1]])
"""Invalid as a bound and as a count, for any type; True is valid for the boolean column only."""


def swap(low: dict[str, Any], high: dict[str, Any]) -> None:
    """Swap the bounds of a column if both exist and the swap can be detected."""
    for name in low.keys() & high.keys():
        if isinstance(low[name], dict):
            swap(low[name], high[name])
        elif low[name] is not None and high[name] is not None and low[name] <= high[name]:
            low[name], high[name] = high[name], low[name]


def damage(draw: st.DrawFn, parts: dict[str, Any], values: st.SearchStrategy[Any]) -> None:
    """Replace or remove values in some places."""
    for name in draw(st.sets(st.sampled_from(sorted(parts)))):
        place = parts[name]
        if not isinstance(place, dict) or draw(st.integers(0, 9)) == 0:
            parts[name] = draw(values)
            continue
        for column in draw(st.sets(st.sampled_from([path[0] for path in DATA_TYPES]))):
            if column not in ("s", "flag"):
                place[column] = draw(values)


@settings(max_examples=100, deadline=None)
@given(predicates(), st.lists(judged_files(), max_size=5))
def test_files_are_judged_rightly_whatever_their_statistics(
    predicate: Predicate, judged: list[Judged]
) -> None:
    check(predicate, judged)


@pytest.mark.full
@settings(max_examples=50, deadline=None)
@given(predicates(), st.lists(judged_files(), min_size=2, max_size=4))
def test_a_file_is_judged_as_it_would_be_alone(predicate: Predicate, judged: list[Judged]) -> None:
    for question in (might_match, must_match):
        alone = [judge(question, predicate, [each])[0] for each in judged]
        assert judge(question, predicate, judged) == alone


@pytest.mark.full
@settings(max_examples=50, deadline=None)
@given(st.lists(judged_files(), min_size=1, max_size=4))
def test_statistics_say_the_same_read_at_once_as_one_by_one(judged: list[Judged]) -> None:
    texts = pa.array([text for _, text in judged], pa.string())
    one_by_one = domains_one_by_one(texts, DATA_TYPES)
    for path, domain in domains_at_once(texts, DATA_TYPES).items():
        expected = one_by_one[path]
        assert domain.has_nulls.equals(expected.has_nulls)
        assert domain.has_values.equals(expected.has_values)
        assert domain.low.equals(expected.low)
        # Python has no time after the year 9999, so it has no bound there.
        high = pc.if_else(expected.high.is_null(), None, domain.high)
        assert (high if path in (("ts",), ("ntz",)) else domain.high).equals(expected.high)


def test_files_are_compared_with_very_many_values() -> None:
    """Checked one by one, they would take minutes, and memory for each value and file."""
    requested = set(range(0, 40_000, 7))
    predicate = resolve(In(("i",), tuple(requested)), SCHEMA)
    bounds = [(low, low + width) for low in range(-9, 2_000) for width in (0, 2)]
    stats = pa.array(
        f'{{"numRecords":2,"minValues":{{"i":{low}}},"maxValues":{{"i":{high}}},'
        f'"nullCount":{{"i":0}}}}'
        for low, high in bounds
    )
    might = [not requested.isdisjoint(range(low, high + 1)) for low, high in bounds]
    must = [low == high and low in requested for low, high in bounds]
    assert might_match(predicate, {}, stats).to_pylist() == might
    assert must_match(predicate, {}, stats).to_pylist() == must


def test_two_objects_are_not_the_statistics_of_two_files() -> None:
    low, high = (File([row_with(("i",), value)]).our_stats() for value in (0, 2))
    texts = pa.array([f"{low} {high}", " "], pa.string())
    assert domains_at_once(texts, DATA_TYPES) == {}


def test_all_but_decimals_is_read_at_once() -> None:
    file = File([row_with(("i",), 1)])
    texts = pa.array([file.our_stats(), None, file.loosest_stats()], pa.string())
    found = set(domains_at_once(texts, DATA_TYPES))
    assert found == {p for p, t in DATA_TYPES.items() if not isinstance(t, DecimalType)}


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("column", "bound"),
    [
        pytest.param("day", "yesterday", id="a date that is none"),
        pytest.param("ts", "2020-01-31T00:00:00", id="an instant without a zone"),
        pytest.param("ts", "1850-01-31T00:00:00+00:53", id="an instant with a cut offset"),
        pytest.param("ntz", "2020-01-31T00:00:00Z", id="a local time with a zone"),
        pytest.param("n", "1", id="a number as text"),
        pytest.param("n", 1.5, id="a fraction"),
        pytest.param("n", 10**30, id="a number beyond the type"),
        pytest.param("f", 1e300, id="a number beyond float"),
        pytest.param("d", "NaN", id="NaN"),
        pytest.param("dec", "0.01", id="a decimal as text"),
        pytest.param("big", 10**90, id="a decimal beyond all decimals"),
        pytest.param("s", "\ud800", id="half a character"),
    ],
)
def test_a_bound_that_is_none_of_its_type_leaves_out_no_file(column: str, bound: object) -> None:
    path = (column,)
    parts = {"minValues": {column: bound}, "maxValues": {column: bound}, "nullCount": {column: 0}}
    text = json.dumps({"numRecords": 1, **parts})
    judged: list[Judged] = [(File([row_with(path, value)]), text) for value in FEW[TYPES[path]]]
    beside = File([row_with(path, None)])
    for predicate in every_leaf(path):
        check(predicate, judged)
        check(predicate, [*judged, (beside, beside.our_stats())])


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("text", ["0.7", "-0.7", "0.1", "-0.1", "3.4028235e38", "1e-45", "1e308"])
def test_a_column_that_was_float_has_bounds_in_the_digits_of_one(text: str) -> None:
    """Type widening keeps the old statistics, while rows are read as doubles."""
    path, written = ("d",), float(text)
    value = round_to_float(written) if written < 1e300 else written
    parts = f'"minValues":{{"d":{text}}},"maxValues":{{"d":{text}}},"nullCount":{{"d":0}}'
    judged: list[Judged] = [(File([row_with(path, value)]), f'{{"numRecords":1,{parts}}}')]
    for literal in (written, value):
        for operator in OPERATORS:
            check(Comparison(path, operator, literal), judged)
            check(Not(Comparison(path, operator, literal)), judged)
    types: dict[tuple[str, ...], DataType] = {path: DOUBLE}
    stats = pa.array([text for _, text in judged], pa.string())
    at_once, alone = domains_at_once(stats, types)[path], domains_one_by_one(stats, types)[path]
    assert (at_once.low.equals(alone.low), at_once.high.equals(alone.high)) == (True, True)


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("value", ["x" * 40, "é" * 40, "😀" * 40, "x" * 31 + "éé"])
@pytest.mark.parametrize("length", [32, 33, 64])
def test_strings_that_were_cut_and_nothing_else_are_bounds(value: str, length: int) -> None:
    """Bounds of writers that cut by characters or bytes and do not raise the maximum."""
    file = File([row_with(("s",), value)])
    for cut in (value[:length], value.encode()[:length].decode(errors="ignore")):
        if len(cut.encode()) < 32:
            continue
        parts = {"minValues": {"s": cut}, "maxValues": {"s": cut}, "nullCount": {"s": 0}}
        text = json.dumps({"numRecords": 1, **parts})
        for literal in (value, cut, "x", "😀"):
            for operator in OPERATORS:
                check(Comparison(("s",), operator, literal), [(file, text)])
