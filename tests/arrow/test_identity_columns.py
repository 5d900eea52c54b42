"""Identity columns and column defaults in the Arrow engine."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.ddl import NewColumn, add_columns
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import optimize, restore, revert
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
    StructField,
    StructType,
    schema_to_json,
)

KEY = "delta.identity."


def identity(
    start: int = 1, step: int = 1, *, allows_values: bool = False, **more: int
) -> StructField:
    metadata: dict[str, Any] = {
        KEY + "start": start,
        KEY + "step": step,
        KEY + "allowExplicitInsert": allows_values,
        **{KEY + name: value for name, value in more.items()},
    }
    return StructField("id", LONG, metadata=metadata)


def create(root: Path, *fields: StructField, **configuration: str) -> None:
    transaction = begin(DeltaLog(root))
    schema = StructType((*fields, StructField("v", STRING)))
    transaction.create_table(schema, configuration=configuration)
    transaction.commit(operation="CREATE TABLE")


def values(n: int, text: str = "x") -> pa.Table:
    return pa.table({"v": [text] * n})


def ids(root: Path) -> list[int]:
    return sorted(da.to_table(root)["id"].to_pylist())


def mark(root: Path) -> int | None:
    schema = json.loads(DeltaLog(root).snapshot().metadata.schema_string)
    found: int | None = schema["fields"][0]["metadata"].get(KEY + "highWaterMark")
    return found


def test_a_table_with_an_identity_column_requires_the_feature_of_writers(tmp_path: Path) -> None:
    create(tmp_path, identity())
    protocol = DeltaLog(tmp_path).snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 7)
    assert protocol.writer_features == ("appendOnly", "invariants", "identityColumns")


@pytest.mark.parametrize(
    ("field", "first", "last"),
    [
        pytest.param(identity(), [1, 2, 3], 5, id="from 1 on"),
        pytest.param(identity(10, -5), [0, 5, 10], -10, id="downwards"),
        pytest.param(
            identity(0, 10, highWaterMark=33), [40, 50, 60], 80, id="after a crooked mark"
        ),
        pytest.param(
            identity(100, 1, highWaterMark=7), [100, 101, 102], 104, id="not before start"
        ),
    ],
)
def test_values_are_counted_on(
    tmp_path: Path, field: StructField, first: list[int], last: int
) -> None:
    create(tmp_path, field)
    da.write(tmp_path, values(3))
    assert ids(tmp_path) == first
    batches = pa.Table.from_batches([*values(1).to_batches(), *values(1).to_batches()])
    da.write(tmp_path, batches)
    assert mark(tmp_path) == last
    assert len(set(ids(tmp_path))) == 5


def test_no_rows_move_no_mark(tmp_path: Path) -> None:
    create(tmp_path, identity())
    da.write(tmp_path, values(0))
    assert mark(tmp_path) is None


def test_one_of_two_concurrent_writers_wins(tmp_path: Path) -> None:
    create(tmp_path, identity())
    slow = begin(DeltaLog(tmp_path))
    da.write(tmp_path, values(2))
    with pytest.raises(CommitConflictError):
        da.write(slow, values(2))
    assert ids(tmp_path) == [1, 2]


def test_writers_without_identity_columns_do_not_conflict(tmp_path: Path) -> None:
    create(tmp_path, identity())
    for _ in range(3):
        da.write(tmp_path, values(1))
    deletes = begin(DeltaLog(tmp_path))
    da.write(tmp_path, values(1, "y"))
    da.delete(deletes, col("id") == 1)
    raced: list[Any] = []

    def rewrite(snapshot: Any, group: Any) -> Any:
        if not raced:
            raced.append(da.write(tmp_path, values(1, "z")))
        return da.rewrite(snapshot, group)

    assert optimize(tmp_path, engine=rewrite).files_removed == 3
    assert ids(tmp_path) == [2, 3, 4, 5]
    assert mark(tmp_path) == 5
    validate_checksum(DeltaLog(tmp_path).snapshot())
    da.write(tmp_path, values(1))
    assert ids(tmp_path) == [2, 3, 4, 5, 6]


def test_another_schema_still_hinders(tmp_path: Path) -> None:
    create(tmp_path, identity())
    da.write(tmp_path, values(2))
    deletes = begin(DeltaLog(tmp_path))
    add_columns(tmp_path, [NewColumn(name="w", data_type="int")])
    with pytest.raises(CommitConflictError, match="changed the schema"):
        da.delete(deletes, col("id") == 1)


def test_a_write_is_reverted_and_its_identity_values_are_not_reused(tmp_path: Path) -> None:
    create(tmp_path, identity())
    da.write(tmp_path, values(1))
    written = da.write(tmp_path, values(2)).version
    deleted = da.delete(tmp_path, col("id") == 1).version
    assert written is not None
    assert deleted is not None
    da.write(tmp_path, values(1))
    revert(tmp_path, written)
    revert(tmp_path, deleted)
    assert ids(tmp_path) == [1, 4]
    da.write(tmp_path, values(1))
    assert ids(tmp_path) == [1, 4, 5]


def test_one_of_two_concurrent_creators_of_a_table_wins(tmp_path: Path) -> None:
    schema = StructType((identity(), StructField("v", STRING)))
    makers = [begin(DeltaLog(tmp_path)) for _ in range(2)]
    for each in makers:
        each.create_table(schema)
    da.write(makers[0], values(2))
    with pytest.raises(CommitConflictError):
        da.write(makers[1], values(2))
    assert ids(tmp_path) == [1, 2]


def test_rows_that_were_staged_before_others_counted_are_refused(tmp_path: Path) -> None:
    create(tmp_path, identity())
    staged = da.stage_write(tmp_path, values(1))
    da.write(tmp_path, values(1))
    transaction = begin(DeltaLog(tmp_path))
    with pytest.raises(InvalidRequestError, match="write the rows again"):
        transaction.stage(staged)


def test_generated_always_identities_accept_no_values(tmp_path: Path) -> None:
    create(tmp_path, identity())
    with pytest.raises(InvalidRequestError, match="drop it from the data"):
        da.write(tmp_path, pa.table({"ID": [7], "v": ["x"]}))


def test_explicit_values_move_no_high_water_mark(tmp_path: Path) -> None:
    create(tmp_path, identity(allows_values=True))
    da.write(tmp_path, pa.table({"id": [7], "v": ["x"]}))
    assert mark(tmp_path) is None
    da.write(tmp_path, values(1))
    assert ids(tmp_path) == [1, 7]


def test_a_type_without_more_identity_values_is_an_error(tmp_path: Path) -> None:
    create(tmp_path, identity(highWaterMark=2**63 - 2))
    da.write(tmp_path, values(1))
    with pytest.raises(InvalidRequestError, match="no 1 values of its type left"):
        da.write(tmp_path, values(1))
    assert ids(tmp_path) == [2**63 - 1]


def test_rows_that_stay_keep_their_values(tmp_path: Path) -> None:
    create(tmp_path, identity())
    da.write(tmp_path, pa.table({"v": ["a", "b"]}))
    da.write(tmp_path, values(2, "a"), "overwrite", replace_where=col("v") == "a")
    assert ids(tmp_path) == [2, 3, 4]
    da.write(tmp_path, values(1))
    assert optimize(DeltaLog(tmp_path)).files_removed
    assert (ids(tmp_path), mark(tmp_path)) == ([2, 3, 4, 5], 5)


def test_a_restored_table_counts_on_where_it_was(tmp_path: Path) -> None:
    create(tmp_path, identity())
    da.write(tmp_path, values(3))
    restore(DeltaLog(tmp_path), version=0)
    da.write(tmp_path, values(1))
    assert ids(tmp_path) == [4]


def default(name: str, data_type: DataType, text: str) -> StructField:
    return StructField(name, data_type, metadata={"CURRENT_DEFAULT": text, "EXISTS_DEFAULT": text})


@pytest.mark.parametrize(
    ("data_type", "text", "value"),
    [
        (LONG, "7", 7),
        (LONG, "NULL", None),
        (STRING, "'it\\'s'", "it's"),
        (DOUBLE, "-1.5", -1.5),
        (BOOLEAN, "true", True),
        (DecimalType(5, 2), "1.2", 1.2),
        (DATE, "DATE '2026-01-31'", date(2026, 1, 31)),
        (BINARY, "X'1F'", b"\x1f"),
        (TIMESTAMP, "TIMESTAMP '2026-01-31 12:00:00Z'", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_a_column_that_the_data_lack_has_its_default(
    tmp_path: Path, data_type: DataType, text: str, value: object
) -> None:
    create(tmp_path, default("d", data_type, text))
    assert DeltaLog(tmp_path).snapshot().definition.has("allowColumnDefaults")
    da.write(tmp_path, values(2))
    found = da.to_table(tmp_path)["d"].to_pylist()
    assert [each if not isinstance(value, float) else float(each) for each in found] == [value] * 2


def test_an_explicit_null_stays_null(tmp_path: Path) -> None:
    create(tmp_path, default("d", LONG, "7"))
    da.write(tmp_path, pa.table({"D": pa.array([None, 1], pa.int64()), "v": ["x", "y"]}))
    assert da.to_table(tmp_path)["d"].to_pylist() == [None, 1]


def test_the_time_of_a_write_is_one(tmp_path: Path) -> None:
    create(
        tmp_path, default("t", TIMESTAMP, "current_timestamp()"), default("d", DATE, "current_date")
    )
    before = datetime.now(UTC)
    da.write(tmp_path, values(2))
    found = da.to_table(tmp_path)
    (moment,) = set(found["t"].to_pylist())
    assert abs((moment - before).total_seconds()) < 60
    assert set(found["d"].to_pylist()) == {moment.date()}


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        pytest.param(LONG, "1 + 1", id="an expression"),
        pytest.param(LONG, "1.5", id="a value of another type"),
        pytest.param(STRING, "uuid()", id="a function"),
        pytest.param(
            TIMESTAMP, "TIMESTAMP '2026-01-31 12:00:00'", id="a time of the session's zone"
        ),
        pytest.param(DATE, "current_timestamp()", id="a time that would be cut"),
        pytest.param(LONG, "", id="nothing"),
    ],
)
def test_another_default_needs_the_spark_engine(
    tmp_path: Path, data_type: DataType, text: str
) -> None:
    create(tmp_path, default("d", data_type, text))
    with pytest.raises(InvalidRequestError, match="needs the Spark engine"):
        da.write(tmp_path, values(1))
    da.write(tmp_path, pa.table({"d": pa.nulls(1), "v": ["x"]}))


def test_without_the_feature_a_default_means_nothing(tmp_path: Path) -> None:
    da.write(tmp_path, values(1))
    transaction = begin(DeltaLog(tmp_path))
    fields = (StructField("v", STRING), default("d", LONG, "7"))
    transaction.set_metadata(
        replace(transaction.metadata, schema_string=schema_to_json(StructType(fields)))
    )
    transaction.commit(operation="CHANGE COLUMN")
    da.write(tmp_path, values(1))
    assert da.to_table(tmp_path)["d"].to_pylist() == [None, None]
