"""deltalake reads our tables, and we read its tables."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.maintenance import create_checkpoint
from tests.support.tables import rows, rows_by_deltalake

BEFORE_1970 = datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
# No negative decimal: deltalake writes -12.50 as "-12.-50" and fails.
PARTITIONS = pa.table(
    {
        "p_boolean": [True, False, None],
        "p_integer": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
        "p_long": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
        "p_double": [1.5e10, -0.1, None],
        "p_decimal": pa.array([Decimal("12.50"), Decimal("0.10"), None], pa.decimal128(20, 2)),
        "p_string": ["a b/c=d:e%f#g?\"h'", "ü€😀[]^*+", None],
        "p_date": [date(1, 1, 1), date(9999, 12, 31), None],
        "p_timestamp": pa.array(
            [datetime(2024, 2, 29, 23, 59, 59, 123456, UTC), BEFORE_1970, None],
            pa.timestamp("us", "UTC"),
        ),
    }
)
DATA = PARTITIONS.append_column("id", pa.array([0, 1, 2], pa.int64()))


def test_partition_values_of_many_types_are_read_by_either(tmp_path: Path) -> None:
    names = PARTITIONS.column_names
    da.write(tmp_path / "ours", DATA, partition_by=names)
    write_deltalake(tmp_path / "theirs", DATA, partition_by=names)

    assert rows_by_deltalake(tmp_path / "ours") == rows(DATA)
    assert rows(da.to_table(DeltaLog(tmp_path / "theirs"))) == rows(DATA)

    write_deltalake(tmp_path / "ours", DATA, mode="append")
    da.write(tmp_path / "theirs", DATA)
    twice = rows(pa.concat_tables([DATA, DATA]))
    for table in (tmp_path / "ours", tmp_path / "theirs"):
        assert rows(da.to_table(DeltaLog(table))) == twice
        assert rows_by_deltalake(table) == twice


def test_replacing_a_partition_finds_the_files_of_either(tmp_path: Path) -> None:
    first = pa.table({"id": [1, 2, 3], "p": ["a b", "ü/=", None]})
    da.write(tmp_path, first, partition_by=["p"])
    write_deltalake(tmp_path, first, mode="append")

    da.write(
        tmp_path, pa.table({"id": [9], "p": ["a b"]}), "overwrite", replace_where=col("p") == "a b"
    )
    write_deltalake(
        tmp_path, pa.table({"id": [8], "p": ["ü/="]}), mode="overwrite", predicate="p = 'ü/='"
    )
    expected = rows(pa.table({"id": [9, 8, 3, 3], "p": ["a b", "ü/=", None, None]}))
    assert rows_by_deltalake(tmp_path) == rows(da.to_table(DeltaLog(tmp_path))) == expected


def test_it_can_remove_our_files_whatever_is_in_their_names(tmp_path: Path) -> None:
    characters = [
        *map(chr, range(0x20, 0x7F)),
        "\t",
        "\x7f",
        "é",
        "ß",
        "日",
        "😀",
        "\u00a0",
        "e\u0301",
    ]
    data = pa.table({"id": range(len(characters)), "p": [f"<{c}>" for c in characters]})
    da.write(tmp_path, data, partition_by=["p"])

    DeltaTable(str(tmp_path)).delete("id >= 0")
    assert DeltaTable(str(tmp_path)).file_uris() == []
    assert DeltaLog(tmp_path).snapshot().num_files == 0


def test_its_txn_is_a_hit_for_us_and_ours_is_there_for_it(tmp_path: Path) -> None:
    data = pa.table({"id": [1]})
    da.write(tmp_path, data, txn=("job", 1))
    assert DeltaTable(str(tmp_path)).transaction_version("job") == 1

    properties = CommitProperties(app_transactions=[Transaction("job", 2)])
    write_deltalake(tmp_path, data, mode="append", commit_properties=properties)
    again = da.write(tmp_path, data, txn=("job", 2))
    assert (again.already_committed, again.version) == (True, 1)


def test_its_changes_its_restore_and_its_checkpoint_are_ours_to_read(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": range(10), "p": ["a", "b"] * 5}), partition_by=["p"])

    def ids(version: int | None = None) -> list[int]:
        return sorted(da.to_table(DeltaLog(tmp_path).snapshot(version))["id"].to_pylist())

    theirs = DeltaTable(str(tmp_path))
    theirs.delete("id < 2")
    theirs.update(updates={"id": "id + 100"}, predicate="p = 'b' and id < 5")
    theirs.optimize.compact()
    create_checkpoint(DeltaLog(tmp_path))
    assert ids() == [2, 4, 5, 6, 7, 8, 9, 103]
    DeltaTable(str(tmp_path)).restore(1)
    assert ids() == list(range(2, 10))
    DeltaTable(str(tmp_path)).create_checkpoint()
    da.write(tmp_path, pa.table({"id": [1000], "p": ["c"]}))
    for version in range(DeltaLog(tmp_path).snapshot().version + 1):
        table = DeltaTable(str(tmp_path), version=version).to_pyarrow_table()
        assert sorted(table["id"].to_pylist()) == ids(version)


def test_it_reads_our_history(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}), user_metadata="why")
    da.write(tmp_path, pa.table({"id": [2]}), "overwrite")

    newest, oldest = DeltaTable(str(tmp_path)).history()
    assert (newest["version"], newest["operation"]) == (1, "WRITE")
    assert newest["operationParameters"] == {"mode": "Overwrite", "partitionBy": "[]"}
    assert oldest["userMetadata"] == "why"
