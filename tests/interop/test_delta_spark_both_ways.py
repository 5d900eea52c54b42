"""delta-spark reads our tables, and we read its tables."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import create_checkpoint
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows

PARTITIONS = pa.schema(
    [
        ("boolean", pa.bool_()),
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(20, 4)),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
    ]
)
INSTANT = datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "byte": [-128, 127],
    "short": [-32768, 32767],
    "integer": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "float": [0.1, 1e-7],
    "double": [1.5e300, -0.1],
    "decimal": [Decimal("-1234567890123456.7890"), Decimal("0.1000")],
    "string": ["a b/c=d:e%f#g?\"h'", "ü€😀\\\t{}[]^*+"],
    "binary": [b"\x01a/b", "é".encode()],
    "date": [date(1, 1, 1), date(9999, 12, 31)],
    "timestamp": [INSTANT, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)],
    # The reference omits trailing zeros of the fraction in this type, and we do not.
    "timestamp_ntz": [INSTANT.replace(tzinfo=None), datetime(1, 1, 1, microsecond=1)],
}
NESTED = pa.table(
    {
        "id": pa.array([0, 1, 2], pa.int64()),
        "struct": pa.array([{"a": 1, "b": [1.5, None]}, None, {"a": None, "b": []}]),
        "map": pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string())),
        "binary": pa.array([b"\x00\xff", b"", None]),
    }
)


def every_partition() -> pa.Table:
    columns = {name: [*values, None] for name, values in VALUES.items()}
    partitions = pa.table(columns, PARTITIONS)
    return pa.table(
        [*NESTED.columns, *partitions.columns], [*NESTED.column_names, *partitions.column_names]
    ).rename_columns([*NESTED.column_names, *(f"p_{name}" for name in PARTITIONS.names)])


def partition_texts(table: Path, version: int) -> list[dict[str, str | None]]:
    """Partition values of a commit's adds, in a fixed order."""
    commit = (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    adds = [action["add"] for line in commit if "add" in (action := json.loads(line))]
    return sorted(
        (add["partitionValues"] for add in adds), key=lambda values: values["p_byte"] or ""
    )


@pytest.mark.full
def test_partition_values_of_every_type_are_the_same_text_to_both(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    data = every_partition()
    partition_by = [name for name in data.column_names if name.startswith("p_")]
    da.write(tmp_path / "t", data, partition_by=partition_by)

    assert rows(delta_spark.read(tmp_path / "t")) == rows(data)
    assert not delta_spark.warnings

    delta_spark.write(tmp_path / "t", data)
    assert not delta_spark.warnings
    assert partition_texts(tmp_path / "t", 1) == partition_texts(tmp_path / "t", 0)
    twice = pa.concat_tables([data, data])
    assert rows(da.to_table(DeltaLog(tmp_path / "t"))) == rows(twice)


def test_a_txn_of_either_stops_the_other_from_writing_twice(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table, data = tmp_path / "t", pa.table({"id": [1]})
    da.write(table, data, txn=("job", 1))
    delta_spark.write(table, data, txnAppId="job", txnVersion="1")
    assert DeltaLog(table).snapshot().version == 0

    delta_spark.write(table, data, txnAppId="job", txnVersion="2")
    again = da.write(table, data, txn=("job", 2))
    assert (again.already_committed, again.version) == (True, 1)
    assert da.to_table(DeltaLog(table)).num_rows == 2


@pytest.mark.full
def test_its_changes_and_its_restore_are_ours_to_read(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    da.write(table, pa.table({"id": range(10), "p": ["a", "b"] * 5}), partition_by=["p"])

    def ids(version: int | None = None) -> list[int]:
        return sorted(da.to_table(DeltaLog(table).snapshot(version))["id"].to_pylist())

    delta_spark.sql(f"DELETE FROM delta.`{table}` WHERE id IN (0, 1)")
    delta_spark.sql(f"UPDATE delta.`{table}` SET id = id + 100 WHERE p = 'b' AND id < 5")
    delta_spark.sql(
        f"MERGE INTO delta.`{table}` t USING (SELECT 2 AS id, 'a' AS p UNION SELECT 50, 'c') s "
        "ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    assert ids() == [4, 5, 6, 7, 8, 9, 50, 103]
    create_checkpoint(DeltaLog(table))
    delta_spark.sql(f"RESTORE delta.`{table}` TO VERSION AS OF 1")
    assert ids() == list(range(2, 10))
    assert ids(3) == [4, 5, 6, 7, 8, 9, 50, 103]
    da.write(table, pa.table({"id": [1000], "p": ["d"]}))
    for version in (0, 3, 5):
        theirs = sorted(delta_spark.read(table, version)["id"].to_pylist())
        assert not delta_spark.warnings
        assert theirs == ids(version)


@pytest.mark.full
def test_the_properties_and_columns_it_sets_hold_for_us(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    da.write(table, pa.table({"id": [1]}), configuration={"delta.checkpointInterval": "3"})
    (detail,) = delta_spark.sql(f"DESCRIBE DETAIL delta.`{table}`")
    assert detail["properties"] == {"delta.checkpointInterval": "3"}

    delta_spark.sql(f"ALTER TABLE delta.`{table}` ADD COLUMNS (name STRING)")
    delta_spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(InvalidRequestError, match="append-only"):
        da.write(table, pa.table({"id": [2]}), "overwrite")
    result = da.write(table, pa.table({"id": [2], "name": ["two"]}))
    assert result.version == 3
    assert (table / "_delta_log" / "00000000000000000003.checkpoint.parquet").exists()
    assert rows(delta_spark.read(table)) == rows(da.to_table(DeltaLog(table)))
    assert delta_spark.validate(table)["version"] == 3
    assert not delta_spark.warnings


def test_it_opens_our_checkpoint_where_the_commits_before_it_are_gone(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    data = every_partition()
    names = [name for name in data.column_names if name.startswith("p_")]
    da.write(table, data, partition_by=names, txn=("job", 7))
    da.write(table, data, "overwrite")
    create_checkpoint(DeltaLog(table))
    (table / "_delta_log" / f"{0:020}.json").unlink()

    assert rows(delta_spark.read(table)) == rows(data)
    assert not delta_spark.warnings
    state = delta_spark.validate(table)
    assert not delta_spark.warnings
    snapshot = DeltaLog(table).snapshot()
    assert state["transactions"] == {"job": 7}
    assert (state["version"], state["num_files"], state["size_bytes"]) == (
        snapshot.version,
        snapshot.num_files,
        snapshot.size_bytes,
    )
