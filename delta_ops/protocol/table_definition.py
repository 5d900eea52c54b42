"""Table definition: the requirements of a protocol and a metadata action, as one value.

Source: PROTOCOL.md, "Protocol Evolution", "Change Metadata", "Column Mapping", "Table Features".

Snapshots and transactions hold it; reading, writing, pruning and maintenance take it. `validate`
alone decides whether an operation supports a table, by the rows of `features`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from delta_ops.errors import InvalidRequestError, LogCorruptError, UnsupportedFeatureError
from delta_ops.lazy import lazy
from delta_ops.option_words import option
from delta_ops.protocol.actions import Metadata, Protocol
from delta_ops.protocol.columns.identity import identity_columns
from delta_ops.protocol.columns.mapping import (
    mapping_mode,
    physical_name,
    physical_path,
    rename_columns,
)
from delta_ops.protocol.features import (
    FEATURES,
    Engine,
    Operation,
    contradictions,
    feature_of,
    features_of_properties,
    features_of_readers,
    features_of_writers,
    unsupported_features,
)
from delta_ops.protocol.properties.known import CHANGE_DATA_FEED
from delta_ops.protocol.properties.table_properties import (
    TableProperties,
    table_properties_from_configuration,
)
from delta_ops.protocol.row_rules import (
    Check,
    Generated,
    Identity,
    Invariant,
    NotNull,
    RowRule,
    not_null_rules,
    rules_of_expressions,
)
from delta_ops.protocol.schema import (
    VARIANT,
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    find_field,
    schema_from_json,
    walk,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.stats.indexed_columns import StatsSettings
from delta_ops.protocol.values.literals import is_comparable

_DONE: Mapping[Operation, str] = {
    "open": "opened",
    "read": "read",
    "write": "written",
    "restore": "written",
    "vacuum": "vacuumed",
    "checkpoint": "checkpointed",
    "clean up": "cleaned up",
    "compact": "compacted",
}
_WRITTEN: tuple[DataType, ...] = (VARIANT,)
_READ: tuple[DataType, ...] = (*_WRITTEN, VOID)
"""Types without comparable values that engines still write or read."""
_ENFORCED = (NotNull, Check, Invariant)
"""Row rules that engines check; the Arrow engine rejects expressions that it cannot evaluate."""


@dataclass(frozen=True, kw_only=True)
class TableDefinition:
    """Schema, properties and features of a table, without its rows.

    A malformed part raises `InvalidRequestError` when it is first used; `validate` rejects it.
    """

    protocol: Protocol
    metadata: Metadata

    @lazy
    def features(self) -> frozenset[str]:
        """The names of the features in force, listed or implied by the protocol's versions."""
        names = (*features_of_readers(self.protocol), *features_of_writers(self.protocol))
        return frozenset(names)

    @lazy
    def schema(self) -> StructType:
        """The table's columns under the names that users see, partition columns among them."""
        return schema_from_json(self.metadata.schema_string)

    @lazy
    def types(self) -> frozenset[DataType]:
        """The types of the columns and of everything nested in them."""
        return frozenset(data_type for _, data_type in walk(self.schema))

    @lazy
    def physical_schema(self) -> StructType:
        """The table's columns under their names in statistics and partition values."""
        return rename_columns(self.schema, physical_name) if self.is_mapped else self.schema

    @lazy
    def arrow_schema(self) -> pa.Schema:
        """`schema` as an Arrow schema."""
        return arrow_schema_from_schema(self.schema)

    @lazy
    def mapping_mode(self) -> str:
        """`delta.columnMapping.mode`: "none", "name" or "id"."""
        return mapping_mode(self.metadata)

    @property
    def is_mapped(self) -> bool:
        """Whether column names in files differ from the names in the table."""
        return self.mapping_mode != "none"

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names, in directory order."""
        return self.metadata.partition_columns

    @lazy
    def partition_fields(self) -> tuple[StructField, ...]:
        """The partition columns, in directory order."""
        return tuple(find_field(self.schema, name) for name in self.partition_columns)

    @lazy
    def partition_names(self) -> Mapping[str, str]:
        """The name of each partition column in `partitionValues`, by logical name."""
        return {
            each.name: physical_name(each) if self.is_mapped else each.name
            for each in self.partition_fields
        }

    @lazy
    def data_schema(self) -> StructType:
        """The columns that data files hold, under the names that users see.

        Columns of type void are in no file, as in the reference.
        """
        left_out = {name.lower() for name in self.partition_columns}
        left_out |= {f.name.lower() for f in self.schema.fields if f.data_type == VOID}
        return StructType(tuple(f for f in self.schema.fields if f.name.lower() not in left_out))

    @lazy
    def file_columns(self) -> StructType:
        """The columns of new data files, under the names that users see.

        Source: PROTOCOL.md, "Materialize Partition Columns".
        """
        columns = self.data_schema
        if self.has("materializePartitionColumns"):
            columns = StructType((*columns.fields, *self.partition_fields))
        return columns

    @lazy
    def file_schema(self) -> StructType:
        """The columns of new data files, under their names in those files."""
        columns = self.file_columns
        return rename_columns(columns, physical_name) if self.is_mapped else columns

    @lazy
    def properties(self) -> TableProperties:
        """The table's `delta.*` properties, parsed.

        Raises:
            InvalidRequestError: One of them cannot be parsed.
        """
        return table_properties_from_configuration(self.metadata.configuration)

    @property
    def has_change_feed(self) -> bool:
        """Whether commits must record the rows that they change."""
        is_on = CHANGE_DATA_FEED.value_in(self.metadata.configuration)
        return self.has("changeDataFeed") and is_on

    @lazy
    def stats_settings(self) -> StatsSettings:
        """The settings for statistics; columns have their physical names if they are mapped."""
        settings = self.properties.stats
        if settings.columns is None or not self.is_mapped:
            return settings
        return replace(settings, columns=tuple(self._physical_paths(settings.columns)))

    def _physical_paths(self, columns: Collection[ColumnPath]) -> Iterator[ColumnPath]:
        for path in columns:
            # A setting may name a column that was dropped or renamed; it gets no statistics.
            with suppress(InvalidRequestError):
                yield physical_path(path, self.schema)

    @lazy
    def row_rules(self) -> tuple[RowRule, ...]:
        """The rules that every row must satisfy, each once."""
        return (
            *not_null_rules(self.schema),
            *rules_of_expressions(self.schema, self.metadata.configuration),
        )

    def has(self, feature: str) -> bool:
        """Whether a feature is in force."""
        return feature in self.features


def validate(
    definition: TableDefinition,
    operation: Operation,
    *,
    table: str,
    engine: Engine | None = "arrow",
) -> None:
    """Reject a table that the operation does not fully support.

    Args:
        table: For the message.
        engine: Matters for reads and writes; None: either engine suffices.

    Raises:
        UnsupportedFeatureError: The message names everything that is not supported.
        LogCorruptError: The protocol contradicts itself, or the schema is malformed or lacks a
            partition column.
    """
    for reason in contradictions(definition.protocol):
        raise LogCorruptError(table, "protocol", reason)
    engines: tuple[Engine, ...] = ("arrow", "spark") if engine is None else (engine,)
    unsupported: list[str] = []
    for each in engines:
        found = _find_unsupported(definition, operation, each, table)
        if not found:
            break
        unsupported = unsupported or found
    else:
        by_spark = " by Spark" if engine == "spark" and operation == "read" else ""
        names = tuple(dict.fromkeys(unsupported))
        raise UnsupportedFeatureError(table, names, _DONE[operation] + by_spark)
    if operation == "open":
        _validate_schema(definition, table)


def is_supported(
    definition: TableDefinition, operation: Operation, *, engine: Engine | None = "arrow"
) -> bool:
    """Whether `validate` accepts the table."""
    try:
        validate(definition, operation, table="", engine=engine)
    except (UnsupportedFeatureError, LogCorruptError):
        return False
    return True


def validate_properties(definition: TableDefinition, *, table: str) -> None:
    """Reject properties that require a feature missing from the protocol.

    Raises:
        InvalidRequestError: The message names the property and the feature.
    """
    for name, property_name in features_of_properties(definition.metadata.configuration).items():
        if not definition.has(name):
            raise InvalidRequestError(
                f"{table}: {property_name} = {definition.metadata.configuration[property_name]} "
                f"needs the feature {name}, which the table's protocol does not have; leave the "
                f"property out, or {_to_add(name)}"
            )


def validate_types(
    schema: StructType, definition: TableDefinition, table: str, added: Collection[str] = ()
) -> None:
    """Reject column types that require a feature missing from the protocol.

    Args:
        added: Features that the protocol gets together with the columns.

    Raises:
        InvalidRequestError: The message names the column, its type and the feature.
    """
    needed = {each: f.name for f in FEATURES for each in f.types if not definition.has(f.name)}
    missing = {each: name for each, name in needed.items() if name not in added}
    for path, data_type in walk(schema):
        if data_type in missing:
            feature = missing[data_type]
            raise InvalidRequestError(
                f"{table}: column {'.'.join(path)} would have type {data_type.name}, which needs "
                f"the feature {feature} that the table's protocol does not have; choose another "
                f"type, or {_to_add(feature)}"
            )


def _to_add(feature: str) -> str:
    return f"add the feature {feature} first, by {option('ddl.add_feature')}"


def needed_features(definition: TableDefinition) -> Iterator[str]:
    """The features that the table's properties, types and row rules require."""
    yield from features_of_properties(definition.metadata.configuration)
    kinds = {type(rule) for rule in definition.row_rules}
    keys = {key for each in definition.schema.fields for key in each.metadata}
    for feature in FEATURES:
        if not (
            definition.types.isdisjoint(feature.types)
            and kinds.isdisjoint(feature.rules)
            and keys.isdisjoint(feature.field_keys)
        ):
            yield feature.name


def _find_unsupported(
    definition: TableDefinition, operation: Operation, engine: Engine, table: str
) -> list[str]:
    """Names of unsupported features, versions, formats, types and row rules."""
    found = list(unsupported_features(definition.protocol, operation, engine))
    if operation in ("vacuum", "checkpoint", "clean up", "compact"):  # these look at no rows
        return found
    found += _unread_format(definition.metadata)
    if operation == "open":
        return found
    _validate_schema(definition, table)
    found += _undeclared_mapping(definition, operation, engine)
    writes_void = engine == "arrow" and not _has_inner_void(definition)
    is_limited = operation == "write" and not writes_void
    found += _unread_types(definition, _WRITTEN if is_limited else _READ)
    if operation != "read":
        found += (str(rule) for rule in _lost_rules(definition, operation))
        found += _undeclared_types(definition)
    return found


def _lost_rules(definition: TableDefinition, operation: Operation) -> Iterator[RowRule]:
    """The rules that an operation might break or lose; existing rows satisfy them."""
    for rule in definition.row_rules:
        match rule:
            case Identity(column=column):
                # A malformed identity column cannot be continued.
                is_kept = column in (each.name for each in identity_columns(definition.schema))
            case _ if operation == "restore":
                is_kept = True
            case Invariant(expression=None) | Generated(expression=None):
                is_kept = False
            case Generated(column=column):
                is_kept = _is_computed(column, definition.schema)
            case _:
                is_kept = isinstance(rule, _ENFORCED)
        if not is_kept:
            yield rule


def _is_computed(column: str, schema: StructType) -> bool:
    """Whether engines compute a generated column: it is top-level and contains no variant."""
    fields = (f for f in schema.fields_by_lower_name.get(column.lower(), ()) if f.name == column)
    return any(VARIANT not in dict(walk(StructType((each,)))).values() for each in fields)


def _validate_schema(definition: TableDefinition, table: str) -> None:
    columns = definition.partition_columns
    try:
        schema = definition.schema
        exact_names = {name: find_field(schema, name).name for name in columns}
    except InvalidRequestError as error:
        raise LogCorruptError(table, "metaData", error.message.rstrip(".")) from error
    for name, other in exact_names.items():
        if name != other:  # either spelling alone would miss values in half of the code
            raise LogCorruptError(
                table, "metaData", f"the partition column {name} is called {other} in the schema"
            )


def _unread_format(metadata: Metadata) -> Iterator[str]:
    if metadata.format.provider.lower() != "parquet":
        yield f"format provider {metadata.format.provider}"
    for name in metadata.format.options:
        yield f"format option {name}"


def _undeclared_mapping(
    definition: TableDefinition, operation: Operation, engine: Engine
) -> Iterator[str]:
    # Without the feature the mode has no effect, but the files may still be mapped.
    mapping = feature_of("columnMapping")
    is_listed = mapping.name in features_of_readers(definition.protocol)
    if definition.is_mapped and not (is_listed and mapping.supports(operation, engine)):
        yield mapping.name


def _unread_types(definition: TableDefinition, known: Collection[DataType]) -> Iterator[str]:
    unread = {
        each
        for each in definition.types
        if not (isinstance(each, StructType | ArrayType | MapType) or each in known)
        and not is_comparable(each)
    }
    for column, data_type in _columns_of(definition, unread):
        yield f"type {data_type.name} of column {column}"


def _has_inner_void(definition: TableDefinition) -> bool:
    """Whether a type inside a column is void; files can omit only whole columns."""
    return VOID in definition.types and any(
        data_type == VOID for path, data_type in walk(definition.schema) if len(path) > 1
    )


def _undeclared_types(definition: TableDefinition) -> Iterator[str]:
    needed = {each: f.name for f in FEATURES for each in f.types if not definition.has(f.name)}
    for column, data_type in _columns_of(definition, needed):
        yield f"type {data_type.name} of column {column} without feature {needed[data_type]}"


def _columns_of(
    definition: TableDefinition, types: Collection[DataType]
) -> Iterator[tuple[str, DataType]]:
    """Columns and nested fields of the given types, each with its type."""
    if definition.types.isdisjoint(types):
        return
    for path, data_type in walk(definition.schema):
        if data_type in types:
            yield ".".join(path), data_type
