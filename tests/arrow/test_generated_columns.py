"""Tables with generated columns, written by the Arrow engine."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import InvalidRequestError, UnsupportedFeatureError
from delta_ops.protocol.schema import DATE, LONG, STRING, TIMESTAMP, StructField, StructType
from tests.support.tables import rows

DAY = datetime(2026, 1, 31, 23, tzinfo=UTC)
NEXT = datetime(2026, 2, 1, 1, tzinfo=UTC)


def generated(name: str, data_type: Any, expression: Any, *, nullable: bool = True) -> StructField:
    metadata = {"delta.generationExpression": expression}
    return StructField(name, data_type, nullable=nullable, metadata=metadata)


SOURCE = (StructField("id", LONG), StructField("ts", TIMESTAMP), StructField("name", STRING))
COLUMNS = (
    *SOURCE,
    generated("day", DATE, "CAST(ts AS DATE)"),
    generated("key", STRING, "concat(upper(name), '-', id)"),
    generated("twice", LONG, "id * 2", nullable=False),
)


def create(place: Path, *fields: StructField, by: tuple[str, ...] = (), **properties: str) -> None:
    txn = begin(DeltaLog(place))
    txn.create_table(StructType(fields), partition_by=by, configuration=properties)
    txn.commit(operation="CREATE TABLE")


@pytest.fixture(params=["whole", "partitioned", "vectors", "mapped", "feed"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    properties = {
        "vectors": {"delta.enableDeletionVectors": "true"},
        "mapped": {"delta.columnMapping.mode": "name"},
        "feed": {"delta.enableChangeDataFeed": "true"},
    }.get(request.param, {})
    by = ("day",) if request.param in ("partitioned", "mapped") else ()
    create(tmp_path, *COLUMNS, by=by, **properties)
    ts = pa.array([DAY, NEXT, None], pa.timestamp("us", "UTC"))
    da.write(tmp_path, pa.table({"ts": ts, "id": [1, 2, 3], "name": ["a", None, "c"]}))
    return tmp_path


def found(place: Path) -> list[tuple[Any, ...]]:
    listed = rows(da.to_table(place))
    return sorted((r["id"], r["name"], r["day"], r["key"], r["twice"]) for r in listed)


def test_columns_that_the_data_leave_out_are_generated(table: Path) -> None:
    assert found(table) == [
        (1, "a", date(2026, 1, 31), "A-1", 2),
        (2, None, date(2026, 2, 1), None, 4),
        (3, "c", None, "C-3", 6),
    ]
    assert DeltaLog(table).snapshot().definition.has("generatedColumns")


def test_an_explicit_value_must_equal_the_generated_value(table: Path) -> None:
    da.write(table, pa.table({"id": [4], "TWICE": [8]}))
    before = sorted(table.rglob("*"))
    for wrong in ([9], pa.array([None], pa.int64())):
        with pytest.raises(InvalidRequestError, match=r"twice \(id \* 2\) differs from the value"):
            da.write(table, pa.table({"id": [4], "twice": wrong}))
    assert sorted(table.rglob("*")) == before
    assert (4, None, None, None, 8) in found(table)


def test_the_message_shows_a_row(table: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"the first: id = 5, ts = None.*twice = 1"):
        da.write(table, pa.table({"id": [4, 5], "twice": [8, 1]}))


@pytest.mark.some_cases(3)
def test_generated_values_follow_updated_values(table: Path) -> None:
    da.update(table, {"id": "id + 10", "ts": NEXT}, col("id") != 2)
    assert found(table) == [
        (2, None, date(2026, 2, 1), None, 4),
        (11, "a", date(2026, 2, 1), "A-11", 22),
        (13, "c", date(2026, 2, 1), "C-13", 26),
    ]
    da.update(table, {"id": "7L", "twice": "14L"}, col("id") == 2)
    assert (7, None, date(2026, 2, 1), None, 14) in found(table)
    with pytest.raises(InvalidRequestError, match="twice"):
        da.update(table, {"twice": "1L"}, col("id") == 7)


@pytest.mark.some_cases(3)
def test_generated_values_follow_merged_values(table: Path) -> None:
    ts = pa.array([NEXT, DAY], pa.timestamp("us", "UTC"))
    source = pa.table({"id": [1, 9], "ts": ts, "name": ["z", "n"]})
    merge = da.merge(table, source, "target.id = source.id").when_matched_update_all()
    merge = merge.when_not_matched_insert_all()
    merge.when_not_matched_by_source_update({"id": "target.id + 100"}).execute()
    assert found(table) == [
        (1, "z", date(2026, 2, 1), "Z-1", 2),
        (9, "n", date(2026, 1, 31), "N-9", 18),
        (102, None, date(2026, 2, 1), None, 204),
        (103, "c", None, "C-103", 206),
    ]
    wrong = pa.table({"id": [1], "twice": [5]})
    with pytest.raises(InvalidRequestError, match="twice"):
        da.merge(table, wrong, "target.id = source.id").when_matched_update_all().execute()
    if DeltaLog(table).snapshot().definition.has_change_feed:
        changes = pa.table(da.read_changes(table, 2, 2, columns=["id", "twice", "_change_type"]))
        assert {r["twice"] == 2 * r["id"] for r in rows(changes)} == {True}


def test_rows_that_an_overwrite_leaves_keep_their_values(table: Path) -> None:
    new = pa.table({"id": [2], "name": ["new"]})
    da.write(table, new, "overwrite", replace_where=col("twice") == 4)
    assert found(table) == [
        (1, "a", date(2026, 1, 31), "A-1", 2),
        (2, "new", None, "NEW-2", 4),
        (3, "c", None, "C-3", 6),
    ]


def test_an_expression_for_another_engine_is_refused_before_a_file_is_written(
    tmp_path: Path,
) -> None:
    create(tmp_path, StructField("id", LONG), generated("h", LONG, "xxhash64(id)"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=r"xxhash64.*needs the Spark engine"):
        da.write(tmp_path, pa.table({"id": [1]}))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([generated("g", LONG, "nope + 1")], "no column nope"),
        ([generated("g", LONG, "g + 1")], "g is generated from g"),
        ([generated("g", LONG, "id"), generated("h", LONG, "g")], "h is generated from g"),
        ([generated("g", LONG, 7)], "give a SQL string"),
        ([StructField("s", StructType((generated("g", LONG, "id"),)))], "only columns can have"),
    ],
)
def test_columns_that_no_row_could_have_are_not_made(
    tmp_path: Path, fields: list[StructField], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        create(tmp_path, StructField("id", LONG), *fields)
    assert list(tmp_path.iterdir()) == []


def test_a_value_keeps_its_meaning_in_its_column(tmp_path: Path) -> None:
    create(tmp_path, StructField("id", LONG), generated("g", STRING, "id + 1"))
    with pytest.raises(InvalidRequestError, match="g"):
        da.write(tmp_path, pa.table({"id": [1]}))


def test_unreadable_features_are_refused_by_name(tmp_path: Path) -> None:
    create(tmp_path, StructField("id", LONG), generated("g", LONG, "id"))
    first = tmp_path / "_delta_log" / "00000000000000000000.json"
    text = first.read_text().replace('expression\\":\\"id', 'expression\\":7,\\"x\\":\\"id')
    text = text.replace('Expression\\":\\"id\\"', 'Expression\\":7')
    first.write_text(text)
    for crc in (tmp_path / "_delta_log").glob("*.crc"):
        crc.unlink()
    with pytest.raises(UnsupportedFeatureError, match="generated column g"):
        da.write(tmp_path, pa.table({"id": [1]}))
