"""Checkpoints that are empty, damaged, or in another writer's layout."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.protocol.actions import SetTransaction
from tests.support.tables import add, clean_up, live_paths, remove, write_log

STATS = '{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":0}}'


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """A log of one commit and its checkpoint."""
    log = write_log(
        tmp_path,
        [
            [
                SetTransaction(app_id="a", version=1, last_updated=1),
                add("x.parquet", stats=STATS, partition_values={"p": None}, size=5),
                add("y.parquet", stats=STATS, partition_values={"p": "ü"}, size=6),
            ]
        ],
    )
    write_checkpoint(log.snapshot(), now_ms=0)
    return log


def checkpoint(log: DeltaLog) -> Path:
    return Path(log.uri) / "_delta_log" / f"{0:020d}.checkpoint.parquet"


def test_an_empty_file_in_a_checkpoints_place_makes_room(log: DeltaLog) -> None:
    checkpoint(log).write_bytes(b"")
    assert write_checkpoint(log.snapshot(), now_ms=0) is not None
    assert log.snapshot().checkpoint is not None


def test_a_damaged_file_in_a_checkpoints_place_is_an_error_that_names_it(log: DeltaLog) -> None:
    snapshot = log.snapshot()
    clean_up(log)
    checkpoint(log).write_bytes(b"PAR1 damaged")
    with pytest.raises(LogCorruptError, match=r"checkpoint\.parquet: the checkpoint cannot be"):
        write_checkpoint(snapshot, now_ms=0)


@pytest.mark.parametrize(
    "column", ["add.size", "add.path", "metaData.schemaString", "txn.appId", "protocol"]
)
def test_damaged_pages_are_an_error_that_names_the_file(log: DeltaLog, column: str) -> None:
    footer = pq.read_metadata(checkpoint(log))
    content = bytearray(checkpoint(log).read_bytes())
    for group in range(footer.num_row_groups):
        for i in range(footer.num_columns):
            chunk = footer.row_group(group).column(i)
            if chunk.path_in_schema.startswith(column):
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                size = chunk.total_compressed_size
                content[start : start + size] = b"\xff" * size
    checkpoint(log).write_bytes(content)
    clean_up(log)
    with pytest.raises(LogCorruptError, match=r"checkpoint\.parquet: the checkpoint cannot be"):
        DeltaLog(log.uri).snapshot().files(["size"])


def struct_without_absence(table: pa.Table, name: str) -> pa.Table:
    """A struct that is present in each row; absent structs become structs of nulls."""
    column = table[name].combine_chunks()
    present = pa.StructArray.from_arrays(column.flatten(), fields=list(column.type))
    return table.set_column(table.column_names.index(name), name, present)


def cast_field(table: pa.Table, action: str, field: str, to: pa.DataType) -> pa.Table:
    column = table[action].combine_chunks()
    fields = [
        pa.field(f.name, to) if f.name == field else f for f in column.type
    ]  # the type is iterable by its fields
    changed = column.cast(pa.struct(fields))
    return table.set_column(table.column_names.index(action), action, changed)


def drop_field(table: pa.Table, action: str, *names: str) -> pa.Table:
    column = table[action].combine_chunks()
    kept = [f for f in column.type if f.name not in names]
    arrays = [column.field(f.name) for f in kept]
    changed = pa.StructArray.from_arrays(arrays, fields=kept, mask=column.is_null())
    return table.set_column(table.column_names.index(action), action, changed)


def vectors_of(table: pa.Table, vector: dict[str, Any]) -> pa.Table:
    """All files with this deletion vector."""
    rows = table.to_pylist()
    for row in rows:
        if row["add"]:
            row["add"]["deletionVector"] = vector
    return pa.Table.from_pylist(rows, schema=table.schema)


@pytest.mark.parametrize("vector", [{"storageType": "u"}, {"pathOrInlineDv": "x"}])
def test_a_deletion_vector_that_is_nowhere_is_an_error(
    log: DeltaLog, vector: dict[str, Any]
) -> None:
    pq.write_table(vectors_of(pq.read_table(checkpoint(log)), vector), checkpoint(log))
    clean_up(log)
    with pytest.raises(LogCorruptError, match="a deletion vector lacks its storageType or path"):
        log.snapshot().files(["path"])


@pytest.mark.some_cases(7)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: struct_without_absence(t, "protocol"), id="protocols of nulls"),
        pytest.param(lambda t: struct_without_absence(t, "metaData"), id="metadata of nulls"),
        pytest.param(lambda t: struct_without_absence(t, "txn"), id="txns of nulls"),
        pytest.param(lambda t: cast_field(t, "add", "size", pa.int32()), id="sizes of 32 bits"),
        pytest.param(lambda t: cast_field(t, "add", "path", pa.large_string()), id="large paths"),
        pytest.param(
            lambda t: cast_field(t, "add", "path", pa.dictionary(pa.int32(), pa.string())),
            id="paths in a dictionary",
        ),
        pytest.param(
            lambda t: cast_field(t, "add", "path", pa.string_view()), id="paths in a view"
        ),
        pytest.param(
            lambda t: cast_field(
                t, "add", "partitionValues", pa.map_(pa.string_view(), pa.string_view())
            ),
            id="partition values in a view",
        ),
        pytest.param(
            lambda t: cast_field(t, "metaData", "schemaString", pa.string_view()),
            id="a schema in a view",
        ),
        pytest.param(lambda t: vectors_of(t, {}), id="deletion vectors of nulls"),
        pytest.param(lambda t: drop_field(t, "add", "tags", "deletionVector"), id="fewer fields"),
        pytest.param(lambda t: drop_field(t, "metaData", "name", "createdTime"), id="no name"),
        pytest.param(lambda t: t.drop_columns(["remove", "domainMetadata"]), id="fewer actions"),
        pytest.param(
            lambda t: t.append_column("novelty", pa.array([1] * len(t))), id="an unknown action"
        ),
    ],
)
def test_checkpoints_of_other_writers_are_read(
    log: DeltaLog, change: Callable[[pa.Table], pa.Table]
) -> None:
    before = log.snapshot()
    columns = ["path", "size", "stats", "partition_values", "deletion_vector"]
    expected = before.files(columns).to_pylist()
    pq.write_table(change(pq.read_table(checkpoint(log))), checkpoint(log))
    after = DeltaLog(log.uri).snapshot()
    assert after.files(columns).to_pylist() == expected
    assert after.transactions() == before.transactions()
    assert after.metadata.schema_string == before.metadata.schema_string
    assert live_paths(log) == {"x.parquet", "y.parquet"}


def test_actions_without_values_are_absent_from_a_checkpoint_without_files(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[add("x.parquet")], [remove("x.parquet")]])
    write_checkpoint(log.snapshot(), now_ms=0)
    path = tmp_path / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    rows = pq.read_table(path)
    add_type = rows.schema.field("add").type
    without_values = [dict.fromkeys(field.name for field in add_type)] * len(rows)
    place = rows.schema.get_field_index("add")
    pq.write_table(rows.set_column(place, "add", pa.array(without_values, add_type)), path)
    clean_up(log, 2)
    assert live_paths(log) == set()


@pytest.mark.parametrize(
    ("written", "damaged"),
    [
        ("remove", "reoove"),
        ("txn", "tyn"),
        ("add.deletionVector", "deletionVectob"),
        ("protocol.readerFeatures", "readerFeaturds"),
    ],
)
def test_a_name_that_damage_made_of_another_is_refused(
    log: DeltaLog, written: str, damaged: str
) -> None:
    table = pq.read_table(checkpoint(log))
    column, _, field = written.partition(".")
    stored = table.schema.field(column).type
    if field:
        fields = [each.with_name(damaged if each.name == field else each.name) for each in stored]
        structs = table[column].combine_chunks()
        renamed = pa.StructArray.from_arrays(
            [structs.field(i) for i in range(stored.num_fields)],
            fields=fields,
            mask=structs.is_null(),
        )
        table = table.set_column(table.column_names.index(column), column, renamed)
    else:
        table = table.rename_columns({column: damaged})
    pq.write_table(table, checkpoint(log))
    clean_up(log)
    with pytest.raises(LogCorruptError, match=f"a column {damaged} and no"):
        DeltaLog(log.uri).snapshot().files()


DAY_US = 86_400_000_000
YEAR_1, YEAR_10000 = -719_162 * DAY_US, 2_932_897 * DAY_US
"""Microseconds from 1970 on."""


def with_parsed_stats(log: DeltaLog, low: Any, data_type: pa.DataType) -> dict[str, Any]:
    """The statistics read from a checkpoint that stores them only as a struct."""
    table = pq.read_table(checkpoint(log))
    adds = table["add"].combine_chunks()
    bounds = pa.struct([("id", pa.int64()), ("odd", data_type)])
    parsed = pa.array(
        [
            {"numRecords": 2, "minValues": {"id": 1, "odd": low}, "maxValues": {"id": 2}}
            if present
            else None
            for present in adds.is_valid().to_pylist()
        ],
        pa.struct([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds)]),
    )
    kept = [f for f in adds.type if f.name != "stats"]
    changed = pa.StructArray.from_arrays(
        [*(adds.field(f.name) for f in kept), parsed],
        fields=[*kept, pa.field("stats_parsed", parsed.type)],
        mask=adds.is_null(),
    )
    index = table.column_names.index("add")
    pq.write_table(table.set_column(index, "add", changed), checkpoint(log))
    stats = DeltaLog(log.uri).snapshot().files(["stats"])["stats"].to_pylist()
    assert len(set(stats)) == 1
    read: dict[str, Any] = json.loads(stats[0])
    assert (read["numRecords"], read["maxValues"]) == (2, {"id": 2})
    return dict(read["minValues"])


@pytest.mark.parametrize(
    ("low", "data_type", "text"),
    [
        pytest.param("a", pa.string(), "a", id="a text"),
        pytest.param("a", pa.dictionary(pa.int8(), pa.string()), "a", id="a text of few"),
        pytest.param(date(2026, 1, 31), pa.date32(), "2026-01-31", id="a date"),
        pytest.param(
            datetime(2026, 1, 31, 1, 2, 3, 456789, UTC),
            pa.timestamp("us", "UTC"),
            "2026-01-31T01:02:03.456789Z",
            id="a timestamp",
        ),
        pytest.param(1.5, pa.float64(), 1.5, id="a number"),
    ],
)
def test_statistics_in_a_struct_are_read(
    log: DeltaLog, low: Any, data_type: pa.DataType, text: Any
) -> None:
    assert with_parsed_stats(log, low, data_type) == {"id": 1, "odd": text}


@pytest.mark.some_cases(9)
@pytest.mark.parametrize(
    ("low", "data_type"),
    [
        pytest.param(Decimal("1.50"), pa.decimal128(9, 2), id="a decimal"),
        pytest.param(math.nan, pa.float64(), id="not a number"),
        pytest.param(-math.inf, pa.float64(), id="an infinity"),
        pytest.param(b"\xff", pa.binary(), id="a binary"),
        pytest.param(2**62, pa.timestamp("us", "UTC"), id="a timestamp beyond all years"),
        pytest.param(2**30, pa.date32(), id="a date beyond all years"),
        pytest.param(2**60, pa.time64("us"), id="a time of day beyond all days"),
        pytest.param(2**60, pa.duration("s"), id="a duration beyond all of Python's"),
        pytest.param([1], pa.list_(pa.int64()), id="a list"),
        pytest.param(YEAR_1 - 1, pa.timestamp("us", "UTC"), id="a moment before the year 1"),
        pytest.param(YEAR_10000, pa.timestamp("us"), id="a local time after the year 9999"),
        pytest.param(
            YEAR_1, pa.timestamp("us", "America/New_York"), id="the year 1 in a zone behind"
        ),
        pytest.param(
            YEAR_10000 - 1, pa.timestamp("us", "Asia/Tokyo"), id="the year 9999 in a zone ahead"
        ),
        pytest.param(YEAR_1 // DAY_US - 1, pa.date32(), id="a date before the year 1"),
        pytest.param(YEAR_10000 // DAY_US, pa.date32(), id="a date after the year 9999"),
    ],
)
def test_a_bound_that_json_cannot_hold_leaves_the_others(
    log: DeltaLog, low: Any, data_type: pa.DataType
) -> None:
    assert with_parsed_stats(log, low, data_type) == {"id": 1}
