"""A table change computes the whole definition of the table, without a table on a store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.protocol.columns.mapping import field_id, physical_name
from delta_ops.protocol.schema import DOUBLE, LONG, STRING, StructField, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction.table_change import (
    DefineTable,
    MergeColumns,
    OverwriteColumns,
    SetColumns,
    SetMetadata,
    SetProperties,
    TableChange,
    changed_definition,
)

ID, NAME, PRICE = (StructField("id", LONG), StructField("name", STRING), StructField("p", DOUBLE))
MODE = {"delta.columnMapping.mode": "name"}


def change(
    before: TableDefinition | None, change: TableChange, *, has_files: bool = True
) -> TableDefinition:
    return changed_definition(before, change, table="t", has_files=has_files)


def new_table(*fields: StructField, **properties: str) -> TableDefinition:
    wanted = DefineTable(schema=StructType(fields), created_ms=0, properties=properties)
    return change(None, wanted, has_files=False)


def test_a_new_table_has_the_lowest_protocol_that_its_columns_allow() -> None:
    protocol = new_table(ID, NAME).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


@pytest.mark.parametrize(
    "argument",
    [
        pytest.param(MergeColumns(data_schema=StructType((NAME,))), id="merged columns"),
        pytest.param(
            OverwriteColumns(data_schema=StructType((ID, NAME))), id="overwritten columns"
        ),
    ],
)
@pytest.mark.parametrize("properties", [{}, MODE], ids=["by name", "mapped"])
def test_data_without_other_columns_leave_the_definition(
    argument: TableChange, properties: dict[str, str]
) -> None:
    before = new_table(ID, NAME, **properties)
    assert change(before, argument) is before


def test_a_merged_column_comes_last_and_gets_the_next_id() -> None:
    before = new_table(ID, NAME, **MODE)
    after = change(before, MergeColumns(data_schema=StructType((PRICE, ID))))
    assert [each.name for each in after.schema.fields] == ["id", "name", "p"]
    assert [field_id(each) for each in after.schema.fields] == [1, 2, 3]


def test_columns_of_a_table_that_becomes_mapped_keep_their_names_in_files() -> None:
    after = change(new_table(ID, NAME), SetProperties(properties=MODE))
    assert [physical_name(each) for each in after.schema.fields] == ["id", "name"]
    assert after.has("columnMapping")


def test_a_replaced_table_keeps_its_id_and_its_column_mapping() -> None:
    before = new_table(ID, NAME, **MODE)
    after = change(before, DefineTable(schema=StructType((PRICE,)), created_ms=1))
    assert after.metadata.id == before.metadata.id
    assert after.is_mapped
    assert [field_id(each) for each in after.schema.fields] == [3]


def test_a_feature_comes_with_the_columns_that_need_it() -> None:
    required = StructType((replace(ID, nullable=False), NAME))
    after = change(new_table(ID, NAME), SetColumns(schema=required, features=("checkConstraints",)))
    assert after.has("checkConstraints")
    assert after.schema == required


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        pytest.param(
            SetProperties(properties={"delta.constraints.c": "id > 0"}),
            "without a check of the existing rows",
            id="a constraint is no property",
        ),
        pytest.param(
            OverwriteColumns(data_schema=StructType((ID,)), partition_by=["id"]),
            "every column is a partition column",
            id="a column is left for the files",
        ),
        pytest.param(
            SetColumns(schema=StructType((ID, replace(NAME, name="a b")))),
            "has a character that Delta tables forbid",
            id="a name suits other engines",
        ),
    ],
)
def test_a_change_that_does_not_fit_is_refused(wanted: TableChange, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        change(new_table(ID, NAME), wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(SetProperties(properties={"owner": "us"}), id="properties"),
        pytest.param(MergeColumns(data_schema=StructType((ID,))), id="columns"),
        pytest.param(SetMetadata(metadata=new_table(ID).metadata), id="metadata"),
    ],
)
def test_only_a_definition_makes_a_table(wanted: TableChange) -> None:
    with pytest.raises(TableNotFoundError):
        change(None, wanted, has_files=False)
