"""Checkpoints that contradict their schema or themselves: the error names the file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.protocol.actions import DomainMetadata, Protocol, SetTransaction
from delta_ops.protocol.json.codec import json_body
from tests.support.tables import add, metadata, remove, write_log

Change = Callable[[pa.Table], pa.Table]


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """A log that can only be read from its checkpoint."""
    log = write_log(
        tmp_path,
        [
            [
                metadata(partition_columns=("p",)),
                SetTransaction(app_id="a", version=1, last_updated=1),
                DomainMetadata(domain="d", configuration="{}"),
                add("p=1/x", partition_values={"p": "1"}, size=5),
                add("p=2/y", partition_values={"p": "2"}, size=6),
                remove("p=3/z", deletion_timestamp=2**42),
            ]
        ],
    )
    write_checkpoint(log.snapshot(), now_ms=0)
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    return log


def checkpoint(log: DeltaLog) -> Path:
    return Path(log.uri) / "_delta_log" / f"{0:020d}.checkpoint.parquet"


def rewritten(log: DeltaLog, change: Change) -> None:
    pq.write_table(change(pq.read_table(checkpoint(log))), checkpoint(log))


def read_all(log: DeltaLog) -> None:
    snapshot = DeltaLog(log.uri).snapshot()
    snapshot.files(["path", "size", "partition_values", "stats", "deletion_vector"])
    snapshot.tombstones()


def field_as(action: str, name: str, values: Any, kind: pa.DataType) -> Change:
    """Set the field to one value in every row that has the action."""

    def change(table: pa.Table) -> pa.Table:
        column = table[action].combine_chunks()
        present = column.is_valid().to_pylist()
        array = pa.array([values if each else None for each in present], kind)
        arrays = [array if f.name == name else column.field(f.name) for f in column.type]
        fields = [pa.field(f.name, kind) if f.name == name else f for f in column.type]
        changed = pa.StructArray.from_arrays(arrays, fields=fields, mask=column.is_null())
        return table.set_column(table.column_names.index(action), action, changed)

    return change


def without_field(action: str, name: str) -> Change:
    def change(table: pa.Table) -> pa.Table:
        column = table[action].combine_chunks()
        kept = [f for f in column.type if f.name != name]
        arrays = [column.field(f.name) for f in kept]
        changed = pa.StructArray.from_arrays(arrays, fields=kept, mask=column.is_null())
        return table.set_column(table.column_names.index(action), action, changed)

    return change


def field_twice(action: str, name: str) -> Change:
    def change(table: pa.Table) -> pa.Table:
        column = table[action].combine_chunks()
        fields = [*column.type, column.type.field(name)]
        arrays = [column.field(i) for i in range(len(column.type))] + [column.field(name)]
        changed = pa.StructArray.from_arrays(arrays, fields=fields, mask=column.is_null())
        return table.set_column(table.column_names.index(action), action, changed)

    return change


def column_as(action: str, values: list[Any]) -> Change:
    def change(table: pa.Table) -> pa.Table:
        array = pa.array((values * len(table))[: len(table)])
        return table.set_column(table.column_names.index(action), action, array)

    return change


def with_row(row: dict[str, Any]) -> Change:
    def change(table: pa.Table) -> pa.Table:
        return pa.concat_tables([table, pa.Table.from_pylist([row], schema=table.schema)])

    return change


def with_column(name: str, value: Any) -> Change:
    def change(table: pa.Table) -> pa.Table:
        return table.append_column(name, pa.array([value] + [None] * (len(table) - 1)))

    return change


METADATA = {**json_body(metadata(id="1" * 36)), "configuration": [], "format": None}


@pytest.mark.some_cases(10)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(field_as("add", "path", 5, pa.int64()), "path is int64", id="a path of int"),
        pytest.param(field_as("add", "size", "5", pa.string()), "size is string", id="a text size"),
        pytest.param(field_as("add", "size", 5.0, pa.float64()), "size is double", id="a float"),
        pytest.param(field_as("add", "size", -1, pa.int64()), "negative", id="a negative size"),
        pytest.param(field_as("add", "size", None, pa.int64()), "no size", id="sizes of null"),
        pytest.param(field_as("add", "path", None, pa.string()), "no path", id="paths of null"),
        pytest.param(
            field_as("add", "partitionValues", "p=1", pa.string()),
            "partitionValues is string",
            id="partition values that are no map",
        ),
        pytest.param(
            field_as("add", "partitionValues", None, pa.map_(pa.string(), pa.string())),
            "2 files without partitionValues",
            id="partition values of null",
        ),
        pytest.param(
            field_as("add", "deletionVector", "u", pa.string()),
            "deletionVector is string",
            id="a deletion vector that is no struct",
        ),
        pytest.param(
            field_as("add", "path", b"\xff", pa.binary()), "cannot be read", id="paths of no text"
        ),
        pytest.param(
            field_as("add", "stats", b"\xff", pa.binary()), "cannot be read", id="stats of no text"
        ),
        pytest.param(column_as("add", [5]), "add has no path", id="adds that are numbers"),
        pytest.param(column_as("add", [[5]]), "add has no path", id="adds that are lists"),
        pytest.param(column_as("protocol", ["1"]), "protocol has no", id="protocols of text"),
        pytest.param(
            field_as("protocol", "minReaderVersion", "1", pa.string()),
            "not a whole number",
            id="a version of text",
        ),
        pytest.param(
            field_as("metaData", "partitionColumns", "p", pa.string()),
            "not a list of names",
            id="partition columns of text",
        ),
        pytest.param(
            field_as("metaData", "schemaString", "{", pa.string()), "schema", id="a broken schema"
        ),
        pytest.param(without_field("add", "size"), "add has no size", id="no size"),
        pytest.param(without_field("add", "path"), "add has no path", id="no path"),
        pytest.param(
            without_field("add", "partitionValues"), "no partitionValues", id="no partition values"
        ),
        pytest.param(
            without_field("metaData", "partitionColumns"),
            "metaData has no partitionColumns",
            id="no partition columns",
        ),
        pytest.param(
            without_field("metaData", "configuration"), "has no configuration", id="no properties"
        ),
        pytest.param(without_field("txn", "version"), "txn has no version", id="no txn version"),
        pytest.param(
            field_as("txn", "appId", None, pa.string()), "txn has no appId", id="txns of nobody"
        ),
        pytest.param(
            field_as("domainMetadata", "domain", None, pa.string()),
            "domainMetadata has no domain",
            id="a domain without a name",
        ),
        pytest.param(
            field_as("remove", "path", None, pa.string()), "remove has no path", id="no remove path"
        ),
        pytest.param(field_twice("add", "path"), "column add.path occurs twice", id="two paths"),
        pytest.param(
            lambda t: t.append_column("add", t["add"]),
            "add occurs twice",
            id="two add columns",
        ),
        pytest.param(
            lambda t: t.drop_columns(["protocol"]), "there is no protocol", id="no protocol"
        ),
        pytest.param(
            lambda t: t.drop_columns(["metaData"]), "there is no metaData", id="no metadata"
        ),
        pytest.param(
            with_row({"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}}),
            "more than one protocol",
            id="two protocols",
        ),
        pytest.param(with_row({"metaData": METADATA}), "more than one metaData", id="two tables"),
        pytest.param(
            with_column("checkpointMetadata", {"version": 7}),
            "it claims to be of version 7",
            id="another version",
        ),
        pytest.param(
            with_column("sidecar", {"path": None, "sizeInBytes": 5}),
            "sidecar has no path",
            id="a sidecar of no name",
        ),
        pytest.param(
            with_column("sidecar", {"path": "gone.parquet", "sizeInBytes": 5}),
            "gone.parquet: this checkpoint file is missing",
            id="a sidecar that is gone",
        ),
        pytest.param(
            with_column("sidecar", {"path": "..", "sizeInBytes": 5}),
            "not a file name",
            id="a sidecar that is a directory",
        ),
    ],
)
def test_a_contradiction_is_an_error_that_names_the_file(
    log: DeltaLog, change: Change, reason: str
) -> None:
    rewritten(log, change)
    with pytest.raises(LogCorruptError) as raised:
        read_all(log)
    assert reason in str(raised.value)
    assert re.search(r"0{20}\.checkpoint|_sidecars/|version 0", str(raised.value))


def test_the_same_protocol_twice_is_no_contradiction(log: DeltaLog) -> None:
    recorded = {"minReaderVersion": 1, "minWriterVersion": 2}
    rewritten(log, with_row({"protocol": recorded}))
    assert DeltaLog(log.uri).snapshot().protocol == Protocol(
        min_reader_version=1, min_writer_version=2
    )


def test_a_part_that_is_no_parquet_is_named(log: DeltaLog) -> None:
    directory = checkpoint(log).parent
    checkpoint(log).rename(directory / f"{0:020d}.checkpoint.0000000001.0000000002.parquet")
    second = directory / f"{0:020d}.checkpoint.0000000002.0000000002.parquet"
    second.write_bytes(b"no Parquet")
    with pytest.raises(LogCorruptError, match=r"checkpoint.0000000002.0000000002.parquet"):
        DeltaLog(log.uri).snapshot()


def test_a_json_checkpoint_of_another_version_is_named(tmp_path: Path) -> None:
    actions = [
        {"checkpointMetadata": {"version": 3}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": json_body(metadata())},
    ]
    (tmp_path / "_delta_log").mkdir()
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    name = f"{4:020d}.checkpoint.{uuid}.json"
    (tmp_path / "_delta_log" / name).write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(LogCorruptError, match=f"{name}: .*of version 3"):
        DeltaLog(tmp_path).snapshot()


def test_a_row_with_an_add_and_a_remove_is_read_as_both(log: DeltaLog) -> None:
    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist(maps_as_pydicts=None)
        (removed,) = [row["remove"] for row in rows if row["remove"]]
        for row in rows:
            if row["add"]:
                row["remove"] = removed
        return pa.Table.from_pylist(rows, schema=table.schema)

    rewritten(log, change)
    snapshot = DeltaLog(log.uri).snapshot()
    assert snapshot.num_files == 2
    assert set(snapshot.tombstones()["path"].to_pylist()) == {"p=3/z"}


def test_a_flipped_bit_in_a_page_is_found(log: DeltaLog) -> None:
    footer = pq.read_metadata(checkpoint(log))
    content = bytearray(checkpoint(log).read_bytes())
    for group in range(footer.num_row_groups):
        for i in range(footer.num_columns):
            chunk = footer.row_group(group).column(i)
            if chunk.path_in_schema == "add.size" and chunk.statistics.has_min_max:
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                content[start + chunk.total_compressed_size - 1] ^= 1
    checkpoint(log).write_bytes(content)
    with pytest.raises(LogCorruptError, match=r"checkpoint\.parquet: the checkpoint cannot be"):
        read_all(log)
