"""Variants in Arrow data, as a struct of two fields."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, ddl
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.protocol.schema import (
    LONG,
    VARIANT,
    ArrayType,
    StructField,
    StructType,
)
from tests.support.tables import rows
from tests.support.variants import NO_NAMES, NULL

INNER = StructType((StructField("w", VARIANT), StructField("n", LONG)))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    fields = (
        StructField("id", LONG),
        StructField("v", VARIANT),
        StructField("s", INNER),
        StructField("many", ArrayType(VARIANT, True)),
    )
    ddl.create_table(tmp_path, StructType(fields))
    one = {"metadata": NO_NAMES, "value": NULL}
    data = {"id": [1, 2], "v": [one, None], "s": [{"w": one, "n": 1}, None], "many": [[one], None]}
    da.write(tmp_path, pa.table(data))
    return tmp_path


def test_an_overwrite_of_the_schema_keeps_variants(table: Path) -> None:
    before = DeltaLog(table).snapshot()
    found = da.to_table(before)
    da.write(table, found.select(["v", "many", "s", "id"]), "overwrite", overwrite_schema=True)
    after = DeltaLog(table).snapshot()
    types = {each.name: each.data_type for each in after.schema.fields}
    assert types == {each.name: each.data_type for each in before.schema.fields}
    assert rows(da.to_table(after).select(found.column_names)) == rows(found)


def test_a_struct_of_other_fields_is_none(table: Path) -> None:
    other = pa.table({"id": [1], "v": [{"metadata": b"", "value": b"", "more": 1}]})
    da.write(table, other, "overwrite", overwrite_schema=True)
    assert isinstance(DeltaLog(table).snapshot().schema.fields[1].data_type, StructType)


def test_no_column_is_generated_as_a_variant(tmp_path: Path) -> None:
    made = StructField("g", VARIANT, metadata={"delta.generationExpression": "v"})
    schema = StructType((StructField("v", VARIANT), made, StructField("id", LONG)))
    with pytest.raises(InvalidRequestError, match="holds a variant"):
        ddl.create_table(tmp_path, schema)
    transaction = begin(DeltaLog(tmp_path))
    with pytest.raises(DeltaOpsError, match="g"):
        transaction.create_table(schema)
    assert not list(tmp_path.rglob("*.json"))


def test_a_table_that_allows_shredded_variants_is_written_unshredded(tmp_path: Path) -> None:
    properties = {"delta.enableVariantShredding": "true"}
    ddl.create_table(tmp_path, StructType((StructField("v", VARIANT),)), properties=properties)
    assert "variantShredding" in (DeltaLog(tmp_path).snapshot().protocol.reader_features or ())
    data = pa.array([{"metadata": NO_NAMES, "value": NULL}])
    da.write(tmp_path, pa.table({"v": data, "id": [1]}), merge_schema=True)
    assert da.to_table(tmp_path)["v"].to_pylist() == data.to_pylist()
