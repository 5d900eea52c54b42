"""Metadata of Arrow fields: applied to the table's columns, or rejected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import create_table
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import ArrayType, StructType, schema_from_json
from delta_ops.protocol.schema.arrow_types import columns_from_arrow

POSITIVE = '{"expression":{"expression":"a > 0"}}'

A = pa.field("a", pa.int64(), metadata={"comment": "the price", "unit": "EUR"})
TWICE = pa.field("twice", pa.int64(), metadata={"delta.generationExpression": "a * 2"})


def metadata_of(root: Path) -> Mapping[str, Mapping[str, Any]]:
    """By column, in the newest version."""
    schema = schema_from_json(DeltaLog(root).snapshot().metadata.schema_string)
    return {each.name: each.metadata for each in schema.fields}


def rows(schema: pa.Schema, **columns: list[Any]) -> pa.Table:
    return pa.table([columns[each.name] for each in schema], schema=schema)


def created(root: Path, schema: pa.Schema) -> None:
    create_table(root, schema)


def written(root: Path, schema: pa.Schema) -> None:
    da.write(root, schema.empty_table())


def overwritten(root: Path, schema: pa.Schema) -> None:
    da.write(root, pa.table({"old": [1]}))
    da.write(root, schema.empty_table(), mode="overwrite", overwrite_schema=True)


def widened(root: Path, schema: pa.Schema) -> None:
    da.write(root, pa.table({"old": [1]}))
    da.write(root, schema.empty_table(), merge_schema=True)


def merged(root: Path, schema: pa.Schema) -> None:
    da.write(root, pa.table({"old": [1]}))
    source = schema.append(pa.field("k", pa.int64())).empty_table()
    merge = da.merge(root, source, "old = k", merge_schema=True)
    merge.when_not_matched_insert_all(except_cols=["k"]).execute()


Make = Callable[[Path, pa.Schema], None]


@pytest.mark.parametrize("make", [created, written, overwritten, widened])
def test_a_column_keeps_its_metadata(tmp_path: Path, make: Make) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), metadata={"comment": "inside"})])
    file_id = pa.field("b", pa.list_(inner), metadata={"PARQUET:field_id": "7"})
    make(tmp_path, pa.schema([A, file_id]))
    found = metadata_of(tmp_path)
    assert found["a"] == {"comment": "the price", "unit": "EUR"}
    assert found["b"] == {}
    b = DeltaLog(tmp_path).snapshot().schema.fields[-1].data_type
    assert isinstance(b, ArrayType)
    assert isinstance(b.element_type, StructType)
    (x,) = b.element_type.fields
    assert x.metadata == {"comment": "inside"}


def test_a_merge_keeps_the_metadata_of_columns_that_it_adds(tmp_path: Path) -> None:
    merged(tmp_path, pa.schema([A]))
    da.merge(
        tmp_path, rows(pa.schema([pa.field("k", pa.int64()), A]), k=[9], a=[1]), "old = k",
        merge_schema=True,
    ).when_not_matched_insert_all(except_cols=["k"]).execute()  # fmt: skip
    assert metadata_of(tmp_path)["a"] == {"comment": "the price", "unit": "EUR"}


def test_columns_of_a_table_keep_their_own_metadata(tmp_path: Path) -> None:
    da.write(tmp_path, rows(pa.schema([A]), a=[1]))
    other = A.with_metadata({"comment": "another"})
    da.write(tmp_path, rows(pa.schema([other]), a=[2]), merge_schema=True)
    assert metadata_of(tmp_path)["a"]["comment"] == "the price"


@pytest.mark.parametrize("make", [created, written])
def test_values_are_made_as_the_metadata_say(tmp_path: Path, make: Make) -> None:
    identity = {"delta.identity.start": "10", "delta.identity.step": "5",
                "delta.identity.allowExplicitInsert": "true"}  # fmt: skip
    make(
        tmp_path,
        pa.schema(
            [
                A.with_metadata({"delta.invariants": POSITIVE}),
                TWICE,
                pa.field("id", pa.int64(), metadata=identity),
                pa.field("state", pa.string(), metadata={"CURRENT_DEFAULT": "'new'"}),
            ]
        ),
    )
    da.write(tmp_path, pa.table({"a": [1, 2]}))
    assert da.to_table(tmp_path).to_pylist() == [
        {"a": 1, "twice": 2, "id": 10, "state": "new"},
        {"a": 2, "twice": 4, "id": 15, "state": "new"},
    ]
    with pytest.raises(InvalidRequestError, match="a > 0"):
        da.write(tmp_path, pa.table({"a": [-1]}))


def test_a_table_gets_the_features_that_its_new_columns_need(tmp_path: Path) -> None:
    default = pa.field("state", pa.string(), metadata={"CURRENT_DEFAULT": "'new'"})
    da.write(tmp_path, pa.table({"old": [1]}))
    data = rows(pa.schema([A, TWICE, default]), a=[1], twice=[2], state=["old"])
    da.write(tmp_path, data, mode="overwrite", overwrite_schema=True)
    da.write(tmp_path, pa.table({"a": [2]}))
    assert da.to_table(tmp_path).to_pylist() == [
        {"a": 2, "twice": 4, "state": "new"},
        {"a": 1, "twice": 2, "state": "old"},
    ]
    features = DeltaLog(tmp_path).snapshot().protocol.writer_features or ()
    assert {"generatedColumns", "allowColumnDefaults"} <= set(features)


@pytest.mark.parametrize("make", [widened, merged])
def test_a_new_column_of_a_table_with_rows_is_not_generated(tmp_path: Path, make: Make) -> None:
    with pytest.raises(InvalidRequestError, match="column twice is new and gener"):
        make(tmp_path, pa.schema([A, TWICE]))
    assert DeltaLog(tmp_path).snapshot().version == 0


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"delta.identity.start": "one", "delta.identity.step": "1"}, "give a whole number"),
        ({"delta.identity.allowExplicitInsert": "maybe"}, "give true or false"),
        ({"delta.generationExpression": " "}, "give a SQL string"),
        ({"delta.unknown": "x"}, "delta.unknown, a reserved key"),
        ({"__COLLATIONS": "{}"}, "leave it out"),
        ({"comment": b"\xff"}, "not valid UTF-8"),
    ],
)
def test_metadata_that_no_column_can_have_are_refused(
    tmp_path: Path, metadata: dict[Any, Any], message: str
) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata=metadata)])
    with pytest.raises(InvalidRequestError, match=rf"Column a has the metadata .*{message}"):
        da.write(tmp_path, schema.empty_table())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda x: pa.struct([x]), "Field s.x has the metadata delta.generationExpression"),
        (pa.list_, r"s\.element has the metadata delta.generationExpression"),
    ],
)
def test_metadata_of_columns_are_refused_in_fields(wrap: Any, message: str) -> None:
    x = pa.field("x", pa.int64(), metadata={"delta.generationExpression": "1"})
    with pytest.raises(InvalidRequestError, match=message):
        columns_from_arrow(pa.schema([("s", wrap(x))]))


def test_column_mapping_metadata_are_left_behind() -> None:
    metadata = {
        "delta.columnMapping.id": "4",
        "delta.columnMapping.physicalName": "col-1",
        "PARQUET:field_id": "4",
        "delta.typeChanges": "[]",
    }
    found = columns_from_arrow(pa.schema([pa.field("a", pa.int64(), metadata=metadata)]))
    assert isinstance(found, StructType)
    assert found.fields[0].metadata == {}
