"""The change data feed of tables with renamed and remapped columns."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import DataFileError, InvalidRequestError
from delta_ops.protocol.actions import AddCdcFile, Metadata
from delta_ops.protocol.schema import INTEGER, LONG, STRING, StructField, StructType, schema_to_json
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import commit, create, data_file

FEED = {"delta.enableChangeDataFeed": "true"}
BY_NAME = {**FEED, "delta.columnMapping.mode": "name"}


def mapped(name: str, data_type: Any, physical: str, number: int) -> StructField:
    metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return StructField(name, data_type, metadata=metadata)


def metadata(
    schema: StructType, partition_by: tuple[str, ...], configuration: dict[str, str]
) -> Metadata:
    return Metadata(
        id="0" * 36,
        schema_string=schema_to_json(schema),
        partition_columns=partition_by,
        configuration=configuration,
        created_time=0,
    )


PLAIN = StructType((StructField("id", LONG), StructField("p", STRING)))
MAPPED = StructType((mapped("id", LONG, "id", 1), mapped("p", STRING, "p", 2)))
RENAMED = StructType(
    (mapped("key", LONG, "id", 1), mapped("place", STRING, "p", 2), mapped("n", INTEGER, "x", 3))
)


def mapped_late(root: Path) -> DeltaLog:
    """Rows before and after mapping, and after renames of the data and the partition column."""

    def rows(name: str, column: str, *values: int) -> Any:
        ids = pa.table({column: pa.array(values, pa.int64())})
        return data_file(root, name, ids, partition_values={"p": "a"})

    log = create(root, PLAIN, [rows("x", "id", 1)], FEED, ("p",))
    commit(log, 1, [metadata(MAPPED, ("p",), BY_NAME)])
    commit(log, 2, [rows("y", "id", 2)])
    commit(log, 3, [metadata(RENAMED, ("place",), BY_NAME)])
    x = pa.array([5], pa.int32())
    change = data_file(
        root, "_change_data/c", pa.table({"id": [2], "x": x, "_change_type": ["delete"]})
    )
    values = {"p": "b"}
    commit(log, 4, [AddCdcFile(path=change.path, size=change.size, partition_values=values)])
    return log


def test_columns_are_found_under_all_the_names_they_had(tmp_path: Path) -> None:
    found = da.read_changes(mapped_late(tmp_path), 0, columns=["key", "place", "n", "_change_type"])
    assert [tuple(row.values()) for row in found.read_all().to_pylist()] == [
        (1, "a", None, "insert"),
        (2, "a", None, "insert"),
        (2, "b", 5, "delete"),
    ]


def test_a_range_has_the_names_of_its_last_version(tmp_path: Path) -> None:
    found = da.read_changes(mapped_late(tmp_path), 0, 2, columns=["id", "p"]).read_all()
    assert found.to_pylist() == [{"id": 1, "p": "a"}, {"id": 2, "p": "a"}]


PARTITIONED_ANEW = StructType((StructField("ID", LONG), StructField("p", STRING)))


def partitioned_anew(root: Path) -> DeltaLog:
    """Rows partitioned by `p`, replaced by rows partitioned by `id`, then by `ID`, then removed."""

    def rows(name: str, column: str, value: Any, **partition: str) -> Any:
        return data_file(root, name, pa.table({column: [value]}), partition_values=partition)

    by_p, by_id = rows("x", "id", 1, p="a"), rows("y", "p", "b", id="2")
    other = pa.table({"p": ["c"], "_change_type": ["delete"]})
    change = data_file(root, "_change_data/c", other)
    lost = AddCdcFile(path=change.path, size=change.size, partition_values={"id": "3"})
    log = create(root, PLAIN, [by_p], FEED, ("p",))
    silent = replace(tombstone(by_p, 0, data_change=True), partition_values=None)
    commit(log, 1, [metadata(PLAIN, ("id",), FEED), silent, by_id])
    commit(log, 2, [lost])
    commit(log, 3, [metadata(PARTITIONED_ANEW, ("ID",), FEED)])
    removed = tombstone(by_id, 0, data_change=True)
    commit(log, 4, [metadata(PARTITIONED_ANEW, (), FEED), removed])
    return log


def test_rows_that_an_overwrite_partitions_in_another_way_keep_their_values(
    tmp_path: Path,
) -> None:
    found = da.read_changes(
        partitioned_anew(tmp_path), 0, columns=["ID", "p", "_change_type", "_commit_version"]
    )
    assert [tuple(row.values()) for row in found.read_all().to_pylist()] == [
        (1, "a", "insert", 0),
        (1, "a", "delete", 1),
        (2, "b", "insert", 1),
        (3, "c", "delete", 2),
        (2, "b", "delete", 4),
    ]


def test_a_column_that_is_called_in_files_like_one_of_the_feed_is_refused(tmp_path: Path) -> None:
    kind = mapped("kind", STRING, "_change_type", 2)
    schema = StructType((mapped("id", LONG, "id", 1), kind))
    log = create(tmp_path, schema, [], BY_NAME)
    with pytest.raises(
        InvalidRequestError, match="column kind has the name _change_type in data files"
    ):
        da.read_changes(log, 0)


def test_mapping_that_was_dropped_is_refused(tmp_path: Path) -> None:
    log = create(tmp_path, MAPPED, [], BY_NAME, ("p",))
    commit(log, 1, [metadata(PLAIN, ("p",), FEED)])
    with pytest.raises(InvalidRequestError, match=r"version 0 cannot .* mapping was removed"):
        da.read_changes(log, 0)
    assert da.read_changes(log, 1).read_all().num_rows == 0
    assert da.read_changes(log, 0, 0).read_all().num_rows == 0


def test_an_error_names_the_version_that_wrote_the_file(tmp_path: Path) -> None:
    log = create(tmp_path, PLAIN, [], FEED, ("p",))
    commit(log, 1, [])
    add = data_file(tmp_path, "x", pa.table({"id": [1]}), partition_values={"p": "a"})
    commit(log, 2, [add])
    (tmp_path / "x").unlink()
    with pytest.raises(DataFileError, match="version 2: data file x is missing"):
        da.read_changes(log, 0).read_all()


@pytest.mark.parametrize("off", [0, 2])
def test_a_feed_that_is_off_at_either_end_is_refused_before_any_row(
    tmp_path: Path, off: int
) -> None:
    log = create(tmp_path, PLAIN, [], {} if off == 0 else FEED)
    commit(log, 1, [metadata(PLAIN, (), FEED)])
    if off == 2:
        commit(log, 2, [metadata(PLAIN, (), {})])
    with pytest.raises(InvalidRequestError, match=f"version {off} cannot be read, because"):
        da.read_changes(log, 0)


def test_a_time_when_nobody_wrote_has_no_changes(tmp_path: Path) -> None:
    log = create(tmp_path, PLAIN, [], FEED)
    commit(log, 1, [])
    for version in range(2):
        moment = 1_700_000_000 + 100 * version
        os.utime(tmp_path / "_delta_log" / f"{version:020}.json", (moment, moment))
    at = [datetime.fromtimestamp(1_700_000_000 + second, UTC) for second in (10, 90)]
    found = da.read_changes(log, start_timestamp=at[0], end_timestamp=at[1])
    assert found.schema.names[:2] == ["id", "p"]
    assert found.read_all().num_rows == 0
    with pytest.raises(InvalidRequestError, match="give versions in order"):
        da.read_changes(log, start_timestamp=at[1], end_timestamp=at[0])


def test_a_column_that_took_the_name_of_another_is_refused(tmp_path: Path) -> None:
    features = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}
    da.write(tmp_path, pa.table({"id": [1], "p": ["a"]}), configuration=features)
    other = pa.table({"id": [2], "P": [9]})
    da.write(tmp_path, other, mode="overwrite", overwrite_schema=True)
    with pytest.raises(InvalidRequestError, match="p was dropped, and another column has its"):
        da.read_changes(tmp_path, 0)
    assert da.read_changes(tmp_path, 0, 0).read_all()["p"].to_pylist() == ["a"]
    assert len(da.read_changes(tmp_path, 1).read_all()) == 2
