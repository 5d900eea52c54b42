"""Schema: converts between the columns of a table and Spark's schemas.

Both use the same JSON. As in the reference, nullability is not carried over. Spark marks columns as
not null only because they happen to have no null, and it trusts the schema of a scan. Comments are
kept. A new table column also keeps the other metadata of the DataFrame, except Spark's internal
keys. A default beside `EXISTS_DEFAULT` comes from one of Spark's own tables and is dropped, as in
the reference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.schema import (
    CURRENT_DEFAULT,
    VARIANT,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    schema_from_json,
    schema_to_json,
    walk,
)
from delta_ops.protocol.schema.arrow_types import MAX_LEVELS, levels
from delta_ops.protocol.schema.field_metadata import column_metadata
from delta_ops.protocol.values.literals import is_comparable
from delta_ops.spark.java_classes import java_class
from delta_ops.spark.versions import VARIANTS, is_connect, require_installed

_COMMENT = "comment"
_EXISTS_DEFAULT = "EXISTS_DEFAULT"
_INTERNAL = ("__", "spark.")
"""Prefixes of Spark's own metadata keys."""


def spark_schema_from_schema(
    schema: StructType, metadata: Sequence[str] = (_COMMENT,)
) -> spark_types.StructType:
    """Convert table columns to a Spark schema with nullable columns.

    Args:
        metadata: Keys of each field's metadata to keep.

    Raises:
        InvalidRequestError: As `validate_levels`, or this version of Spark has no variants.
    """
    validate_levels(schema)
    if any(data_type == VARIANT for _, data_type in walk(schema)):
        require_installed(VARIANTS, "A column with a variant")
    nullable = _nullable_struct(schema, metadata)
    return spark_types.StructType.fromJson(json.loads(schema_to_json(nullable)))


def validate_levels(schema: StructType) -> None:
    """Reject columns that are nested too deeply for Spark to compare their types.

    Raises:
        InvalidRequestError: Names the column.
    """
    for each in schema.fields:
        if (found := levels(each.data_type)) > MAX_LEVELS:
            raise InvalidRequestError(
                f"Column {each.name} has {found} levels, but delta_ops reads at most "
                f"{MAX_LEVELS}, the most that files can have; leave the column out with "
                f"{option('columns', ...)}"
            )


def schema_from_spark(schema: spark_types.StructType) -> StructType:
    """Convert a Spark schema to the columns of a new table, all nullable.

    Raises:
        InvalidRequestError: Delta does not have a type. The message names the column.
    """
    for field in schema:
        if has_collation(field.dataType):
            raise InvalidRequestError(
                f"Column {field.name} is of the type {field.dataType.simpleString()}, and "
                "delta_ops does not write collations; cast it to string, and use collate() in "
                "queries."
            )
    found = data_schema_from_spark(schema)
    for path, data_type in walk(found):
        is_nested = isinstance(data_type, StructType | ArrayType | MapType)
        if not is_nested and data_type != VARIANT and not is_comparable(data_type):
            raise InvalidRequestError(
                f"Column {'.'.join(path)} is of Spark's type {data_type.name}, which a Delta table "
                "cannot hold in this version of delta_ops; cast or drop the column."
            )
    return describe(found, schema)


def describe(columns: StructType, source: spark_types.StructType) -> StructType:
    """Add the DataFrame's metadata to new table columns.

    Args:
        columns: Some of the DataFrame's columns, in its order.
        source: The schema of the DataFrame.

    Raises:
        InvalidRequestError: A table column cannot have this metadata.
    """
    names = {each.name for each in columns.fields}
    known = [each for each in schema_from_json(source.json()).fields if each.name in names]
    described = _describe(columns, StructType(tuple(known)), ())
    assert isinstance(described, StructType)
    return described


def _describe(data_type: DataType, source: DataType, path: ColumnPath) -> DataType:
    """Add the metadata of a DataFrame's fields to a type."""
    match data_type, source:
        case StructType(), StructType():
            return StructType(
                tuple(
                    replace(
                        each,
                        data_type=_describe(each.data_type, known.data_type, (*path, each.name)),
                        metadata=column_metadata(_own_metadata(known), (*path, each.name)),
                    )
                    for each, known in zip(data_type.fields, source.fields, strict=True)
                )
            )
        case ArrayType(), ArrayType():
            inner = _describe(data_type.element_type, source.element_type, (*path, "element"))
            return replace(data_type, element_type=inner)
        case MapType(), MapType():
            key = _describe(data_type.key_type, source.key_type, (*path, "key"))
            value = _describe(data_type.value_type, source.value_type, (*path, "value"))
            return replace(data_type, key_type=key, value_type=value)
    return data_type


def _own_metadata(field: StructField) -> Mapping[str, Any]:
    """Metadata that Spark did not add itself."""
    defaults = (CURRENT_DEFAULT, _EXISTS_DEFAULT) if _EXISTS_DEFAULT in field.metadata else ()
    return {
        key: value
        for key, value in field.metadata.items()
        if not key.startswith(_INTERNAL) and key not in defaults
    }


def has_collation(data_type: spark_types.DataType) -> bool:
    """Whether strings in the type compare by a collation and not by their bytes."""
    return " collate " in data_type.simpleString()


def data_schema_from_spark(schema: spark_types.StructType) -> StructType:
    """Convert the Spark schema of rows to write.

    A type that Delta does not have keeps its name, like `void`.

    Raises:
        InvalidRequestError: A column is of a user-defined type.
    """
    return _nullable_struct(schema_from_json(schema.json()), (_COMMENT,))


def _nullable_struct(schema: StructType, metadata: Sequence[str]) -> StructType:
    return StructType(
        tuple(
            StructField(
                each.name,
                _nullable_type(each.data_type, metadata),
                True,
                {key: each.metadata[key] for key in metadata if key in each.metadata},
            )
            for each in schema.fields
        )
    )


def _nullable_type(data_type: DataType, metadata: Sequence[str]) -> DataType:
    match data_type:
        case StructType():
            return _nullable_struct(data_type, metadata)
        case ArrayType(element_type=element_type):
            return ArrayType(_nullable_type(element_type, metadata), True)
        case MapType(key_type=key_type, value_type=value_type):
            key_type, value_type = (
                _nullable_type(each, metadata) for each in (key_type, value_type)
            )
            return MapType(key_type, value_type, True)
    return data_type


def empty_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Create a DataFrame with these columns and no rows.

    On a classic session it is created in the JVM: `createDataFrame` would send the rows from
    Python, which takes longer.
    """
    columns = spark_schema_from_schema(schema)
    if is_connect(spark):
        return spark.createDataFrame([], columns)
    jvm: Any = spark._jvm
    in_jvm = java_class(jvm, "org.apache.spark.sql.types.DataType").fromJson(columns.json())
    session: Any = spark._jsparkSession
    no_rows = java_class(jvm, "java.util.ArrayList")()
    return DataFrame(session.createDataFrame(no_rows, in_jvm), spark)
