"""DeltaTableBuilder: delta-spark's builder for new tables, column by column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from delta_ops import ddl
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.log import DeltaLog
from delta_ops.protocol.row_rules import GENERATION_EXPRESSION
from delta_ops.protocol.schema import StructField as Column
from delta_ops.protocol.schema import schema_from_json
from delta_ops.protocol.schema.char_types import SQL_TYPE
from delta_ops.spark.delta_format.catalog_entries import require_place
from delta_ops.spark.delta_format.named_tables import Claims, CreateMode, create_named
from delta_ops.spark.expressions.analysis import why_unusable
from delta_ops.spark.schema import describe, schema_from_spark
from delta_ops.spark.session.settings import default_properties, user_metadata_of
from delta_ops.spark.versions import is_connect, type_of_ddl
from delta_ops.tables.argument_checks import check_names, check_text
from delta_ops.tables.exceptions import translating
from delta_ops.tables.opening import open_log, path_in

T = TypeVar("T")
Mode = CreateMode


@dataclass
class IdentityGenerator:
    """Values of an identity column: `start`, then steps of `step`.

    Examples:
        >>> builder = DeltaTable.createIfNotExists(spark).location("lake/people")
        >>> numbers = IdentityGenerator(start=100, step=10)
        >>> table = builder.addColumn("id", "bigint", generatedAlwaysAs=numbers).execute()
    """

    start: int = 1
    step: int = 1


class DeltaTableBuilder(Generic[T]):
    """A builder for a new table; each step changes this builder and returns it.

    Examples:
        >>> builder = DeltaTable.createIfNotExists(spark).location("lake/people")
        >>> table = builder.addColumn("id", "bigint", nullable=False).execute()
        >>> table.toDF().columns
        ['id']
    """

    def __init__(
        self,
        spark: SparkSession,
        mode: Mode,
        open_table: Callable[[SparkSession, str], T],
        open_log: Callable[[SparkSession, str], DeltaLog] = open_log,
    ) -> None:
        self._spark, self._mode, self._open_table = spark, mode, open_table
        self._open_log = open_log
        self._name: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._columns: list[StructField] = []
        self._partition_by: tuple[str, ...] = ()
        self._cluster_by: tuple[str, ...] = ()
        self._properties: dict[str, str] = {}

    def tableName(self, identifier: str) -> DeltaTableBuilder[T]:
        """Set the table's name; delta.`/path` gives its path."""
        self._name = check_text(identifier, "The name of a table")
        return self

    def location(self, location: str) -> DeltaTableBuilder[T]:
        """Set the table's location."""
        self._location = check_text(location, "The location of a table")
        return self

    def comment(self, comment: str) -> DeltaTableBuilder[T]:
        """Set the table's description."""
        self._comment = check_text(comment, "The comment of a table")
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder[T]:
        """Add a column.

        Args:
            dataType: A Spark type, or a string such as "bigint".
            generatedAlwaysAs: An expression over other columns, or identity values.
            generatedByDefaultAs: Identity values for rows without a value.
        """
        check_text(colName, "The name of a column")
        if not isinstance(dataType, str | DataType):
            raise TypeError(f"The type of a column must be str or DataType; found {dataType!r}")
        if not isinstance(nullable, bool):
            raise TypeError(f"nullable must be bool; found {nullable!r}")
        metadata: dict[str, Any] = {}
        if comment is not None:
            metadata["comment"] = check_text(comment, "The comment of a column")
        data_type = type_of_ddl(dataType) if isinstance(dataType, str) else dataType
        metadata |= _generation(generatedAlwaysAs, generatedByDefaultAs)
        if "delta.identity.start" in metadata and not isinstance(data_type, LongType):
            raise UnsupportedOperationException(
                f"Column {colName} is of type {data_type.simpleString()}, but an identity column "
                "must have type bigint; change its type"
            )
        self._columns.append(StructField(colName, data_type, nullable, metadata))
        return self

    def addColumns(self, cols: StructType | list[StructField]) -> DeltaTableBuilder[T]:
        """Add the columns of a schema."""
        fields = cols.fields if isinstance(cols, StructType) else cols
        if not isinstance(fields, list) or not all(isinstance(e, StructField) for e in fields):
            raise TypeError(
                f"Columns must be a StructType or a list of StructField; found {cols!r}"
            )
        self._columns += fields
        return self

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder[T]:
        """Partition the table by columns."""
        self._partition_by = check_names(cols, "A column to partition by")
        return self

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder[T]:
        """Cluster the table by columns."""
        self._cluster_by = check_names(cols, "A column to cluster by")
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder[T]:
        """Set a property of the table."""
        check_text(key, "The name of a property")
        self._properties[key] = check_text(value, "The value of a property")
        return self

    @translating
    def execute(self) -> T:
        """Create the table, or replace the existing table, and open it."""
        if self._name is not None and path_in(self._name, "delta") is None:
            return self._execute_named(self._name)
        place = self._place()
        log = self._open_log(self._spark, place)
        if self._mode == "replace" and not log.exists():
            raise TableNotFoundError(log.uri)
        self._create(log)
        return self._open_table(self._spark, place)

    def _execute_named(self, name: str) -> T:
        place = require_place(
            self._spark,
            name,
            self._location,
            method="tableName",
            cure="create the table by its path, with location() and without tableName()",
        )
        log = self._open_log(self._spark, place.path)
        if place.is_known and self._location is not None:
            self._require_location(place.path, self._location)
        claims = Claims(
            columns=StructType(self._columns) if self._columns else None,
            partition_by=self._partition_by,
            cluster_by=self._cluster_by,
            properties=self._properties,
            comment=self._comment,
        )
        create_named(self._spark, place, log, self._mode, claims, lambda: self._create(log))
        return self._open_table(self._spark, place.path)

    def _create(self, log: DeltaLog) -> None:
        self._validate_generated(log)
        ddl.create_table(
            log,
            self._schema(),
            partition_by=self._partition_by,
            cluster_by=self._cluster_by,
            properties={**default_properties(self._spark), **self._properties},
            description=self._comment,
            if_exists=_IF_EXISTS[self._mode],
            user_metadata=user_metadata_of(self._spark),
        )

    def _validate_generated(self, log: DeltaLog) -> None:
        """Reject generated columns that no write could compute, or that have another type.

        delta-spark compares the types without a cast, and could not write to such a table.

        Raises:
            InvalidRequestError: Names the column.
        """
        generated = {
            each.name: (text, _stored_type(each.dataType).simpleString())
            for each in self._columns
            if (text := each.metadata.get(GENERATION_EXPRESSION)) is not None
        }
        if not generated or is_connect(self._spark):
            return
        inputs = [_stored_field(each) for each in self._columns if each.name not in generated]
        empty = self._spark.createDataFrame([], StructType(inputs))
        for name, (text, data_type) in generated.items():
            if obstacle := why_unusable(text, empty):
                raise InvalidRequestError(
                    f"{log.uri}: column {name} is generated ({text}), but {obstacle}; use an "
                    "expression of other columns that gives the same value for the same row",
                    "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
                )
            made = empty.select(sf.expr(text)).schema[0].dataType
            if made.simpleString() != data_type:
                raise InvalidRequestError(
                    f"{log.uri}: column {name} has the type {data_type}, but is generated ({text}) "
                    f"as {made.simpleString()}; write CAST(... AS {data_type})",
                    "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH",
                )

    def _require_location(self, known: str, given: str) -> None:
        if DeltaLog(known).uri != DeltaLog(given).uri:
            raise InvalidRequestError(
                f"a table has one location, but tableName() names {known} and location() names "
                f"{given}; give one of them"
            )

    def _place(self) -> str:
        named = None if self._name is None else path_in(self._name, "delta")
        if named is not None and self._location not in (None, named):
            raise InvalidRequestError(
                f"a table has one location, but tableName() names {named} and location() names "
                f"{self._location}; give one of them"
            )
        place = named or self._location
        if place is None:
            raise InvalidRequestError(
                "a table needs a name or a location; give tableName() or location()"
            )
        return place

    def _schema(self) -> Any:
        made = StructType([_stored_field(each) for each in self._columns])
        schema_from_spark(made)  # rejects columns that a table cannot hold
        columns = describe(schema_from_json(made.json()), made)
        return replace(columns, fields=tuple(map(_add_sql_type, columns.fields, self._columns)))


_IF_EXISTS: dict[Mode, ddl.IfExists] = {
    "create": "error",
    "create if not exists": "ignore",
    "replace": "replace",
    "create or replace": "replace",
}


def _generation(always: Any, by_default: Any) -> dict[str, Any]:
    """The metadata of a generated column or an identity column."""
    if always is not None and by_default is not None:
        raise ValueError("give generatedAlwaysAs or generatedByDefaultAs, not both")
    if isinstance(always, str):
        return {"delta.generationExpression": always}
    generator = by_default if always is None else always
    if generator is None:
        return {}
    if not isinstance(generator, IdentityGenerator):
        name = (
            "generatedAlwaysAs must be a str or"
            if always is not None
            else ("generatedByDefaultAs must be")
        )
        raise TypeError(f"{name} an IdentityGenerator; found {generator!r}")
    if generator.step == 0:
        raise ValueError("An identity column needs a step that is not 0.")
    return identity_metadata(generator, allows_values=always is None)


def identity_metadata(generator: IdentityGenerator, *, allows_values: bool) -> dict[str, Any]:
    """The metadata of an identity column.

    Args:
        allows_values: Whether rows may have values of their own.
    """
    return {
        "delta.identity.start": generator.start,
        "delta.identity.step": generator.step,
        "delta.identity.allowExplicitInsert": allows_values,
    }


def _stored_field(field: StructField) -> StructField:
    """The column as stored in a table: CHAR and VARCHAR become strings."""
    return StructField(field.name, _stored_type(field.dataType), field.nullable, field.metadata)


def _stored_type(data_type: DataType) -> DataType:
    match data_type:
        case CharType() | VarcharType():
            return StringType()
        case StructType():
            return StructType([_stored_field(each) for each in data_type])
        case ArrayType():
            return ArrayType(_stored_type(data_type.elementType), data_type.containsNull)
        case MapType():
            key, value = _stored_type(data_type.keyType), _stored_type(data_type.valueType)
            return MapType(key, value, data_type.valueContainsNull)
    return data_type


def _add_sql_type(field: Column, source: StructField) -> Column:
    """Add a type with CHAR or VARCHAR to the column's metadata."""
    if _stored_type(source.dataType) == source.dataType:
        return field
    return replace(field, metadata={**field.metadata, SQL_TYPE: source.dataType.simpleString()})
