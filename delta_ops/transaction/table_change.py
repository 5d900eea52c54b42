"""Table changes: the definition that a commit gives to a table.

Source: PROTOCOL.md, "Change Metadata", "Protocol Evolution", "Table Features".

A change is a value of a closed set. `changed_definition` applies one to the current definition: the
change decides columns, properties and features; then new columns get their ids, and the whole
definition is validated once. No I/O.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.option_words import option
from delta_ops.protocol.actions import Metadata, Protocol
from delta_ops.protocol.bloom_filters import validate_bloom_filters
from delta_ops.protocol.change_data import mistaken_feed_column, validate_feed_columns
from delta_ops.protocol.column_uses import is_float_partition, uses_in_expressions
from delta_ops.protocol.columns.defaults import validate_defaults
from delta_ops.protocol.columns.generated import validate_added, validate_generated
from delta_ops.protocol.columns.identity import Counted, keep_marks, move_marks
from delta_ops.protocol.columns.ids import assign_column_ids
from delta_ops.protocol.expression import parse_expression
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.features import Operation, features_of_properties
from delta_ops.protocol.properties.known import (
    BLOOM_FILTERS,
    COLUMN_MAPPING_MODE,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    IN_COMMIT_TIMESTAMPS,
    SORT_KEY,
    TYPE_WIDENING,
)
from delta_ops.protocol.properties.table_properties import (
    requested_properties,
    table_properties_from_configuration,
)
from delta_ops.protocol.protocol_upgrade import OLDEST, add_features
from delta_ops.protocol.row_rules import CONSTRAINTS, Check
from delta_ops.protocol.row_tracking import name_row_columns, validate_tracking
from delta_ops.protocol.schema import ColumnPath, StructType, find_field, schema_to_json
from delta_ops.protocol.schema.column_names import name_of_column
from delta_ops.protocol.schema.evolution import (
    keep_variants,
    merge_schemas,
    validate_unique_names,
    widen_types,
)
from delta_ops.protocol.sort_key import validate_sort_key
from delta_ops.protocol.table_definition import (
    TableDefinition,
    needed_features,
    validate,
    validate_properties,
    validate_types,
)
from delta_ops.transaction.column_rules import partition_columns, validate_names


@dataclass(frozen=True, slots=True, kw_only=True)
class DefineTable:
    """Create a table, or replace the definition of an existing one.

    A replaced table keeps its id, the features of its protocol and its column mapping.
    """

    schema: StructType
    created_ms: int
    """Milliseconds since the Unix epoch."""
    partition_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperties:
    """Set table properties, and add the features that they need."""

    properties: Mapping[str, str | None]
    """None removes a property. `delta.feature.<name>` = supported adds a feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetColumns:
    """Change the columns by DDL."""

    schema: StructType
    """Columns that the table already has keep their ids in the field metadata."""
    configuration: Mapping[str, str] | None = None
    """All properties; None keeps them."""
    partition_columns: tuple[str, ...] | None = None
    """Partition columns; None keeps them."""
    features: tuple[str, ...] = ()
    """Features to add to the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeColumns:
    """Add the columns, and fields of structs, that only the data have."""

    data_schema: StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class OverwriteColumns:
    """Replace the columns with the columns of the data."""

    data_schema: StructType
    partition_by: Sequence[str] | None = None
    """Partition columns; None keeps the table's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMetadata:
    """Replace the metadata, for example with the metadata of an earlier version."""

    metadata: Metadata
    features: tuple[str, ...] = ()
    """Features to add to the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefinition:
    """Replace metadata and protocol; the caller checks that removed features are unused."""

    metadata: Metadata
    protocol: Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMarks:
    """Move the high-water marks of identity columns past the values of new rows."""

    counted: tuple[Counted, ...]


TableChange = (
    DefineTable
    | SetProperties
    | SetColumns
    | MergeColumns
    | OverwriteColumns
    | SetMetadata
    | SetDefinition
    | MoveMarks
)


def changed_definition(
    before: TableDefinition | None,
    change: TableChange,
    *,
    table: str,
    has_files: bool,
    operation: Operation = "write",
) -> TableDefinition:
    """The definition after a change; returns `before` itself if new data bring no new column.

    Args:
        before: The current definition; None if there is no table.
        table: For messages.
        has_files: Whether data files exist. Their columns must keep their physical names.
        operation: delta_ops must support this operation on the changed table.

    Raises:
        InvalidRequestError: The change does not fit the table, or the definition is invalid.
        TableNotFoundError: There is no table, and the change does not create one.
        UnsupportedFeatureError: We cannot write the changed table.
    """
    wanted = _wanted_definition(before, change, table)
    if wanted is before:
        return wanted
    stored = before.metadata if before is not None and has_files else None
    drops_mapping = isinstance(change, SetDefinition) and not wanted.has("columnMapping")
    metadata = assign_column_ids(wanted.metadata, None if drops_mapping else stored, table)
    if stored is not None and not isinstance(change, DefineTable):
        metadata = keep_marks(metadata, stored)
    validate_tracking(metadata, table)
    definition = TableDefinition(protocol=wanted.protocol, metadata=name_row_columns(metadata))
    if (
        before is not None
        and isinstance(change, OverwriteColumns)
        and _has_same_columns(before, definition)
    ):
        return before
    table_properties_from_configuration(definition.metadata.configuration)
    validate_properties(definition, table=table)
    _validate_new_columns(before, definition, table)
    if before is None or not mistaken_feed_column(before):
        validate_feed_columns(definition, table)
    validate(definition, operation, table=table, engine=None)
    return definition


def _validate_new_columns(
    before: TableDefinition | None, definition: TableDefinition, table: str
) -> None:
    """Validate columns that properties name anew; other engines may drop a named column."""
    for row, validate_columns in (
        (BLOOM_FILTERS, validate_bloom_filters),
        (SORT_KEY, validate_sort_key),
    ):
        old = before.metadata.configuration.get(row.name) if before else None
        if definition.metadata.configuration.get(row.name) != old:
            validate_columns(definition, table)


def _wanted_definition(
    before: TableDefinition | None, change: TableChange, table: str
) -> TableDefinition:
    """The definition after a change, without column ids."""
    match change:
        case DefineTable() if before is None:
            return _new_table(change)
        case SetDefinition(metadata=metadata, protocol=protocol):
            return TableDefinition(protocol=protocol, metadata=metadata)
    if before is None:
        raise TableNotFoundError(table)
    match change:
        case DefineTable():
            return _replaced_table(before, change)
        case SetProperties():
            return _set_properties(before, change, table)
        case SetColumns():
            return _set_columns(before, change, table)
        case MergeColumns(data_schema=data_schema):
            merged = _merged_columns(before, data_schema, table)
            return before if merged is None else _add_needed_features(before, merged, table)
        case OverwriteColumns():
            return _add_needed_features(before, _overwritten(before, change, table), table)
        case SetMetadata(metadata=metadata, features=features):
            protocol = add_features(before.protocol, features)
            return TableDefinition(protocol=protocol, metadata=metadata)
        case MoveMarks(counted=counted):
            return replace(before, metadata=move_marks(before.metadata, counted, table))


def _has_same_columns(before: TableDefinition, after: TableDefinition) -> bool:
    if before.partition_columns != after.partition_columns:
        return False
    # Compare texts, because a comparison of types recurses, and a log may hold any depth.
    return before.metadata.schema_string == after.metadata.schema_string or (
        schema_to_json(before.schema) == schema_to_json(after.schema)
    )


def _new_table(change: DefineTable) -> TableDefinition:
    """New metadata with the lowest protocol that supports them."""
    requested = requested_properties(change.properties)
    metadata = _new_metadata(change, _set_values(requested.properties))
    definition = TableDefinition(protocol=OLDEST, metadata=metadata)
    features = (*needed_features(definition), *requested.features)
    return replace(definition, protocol=add_features(OLDEST, features))


def _replaced_table(before: TableDefinition, change: DefineTable) -> TableDefinition:
    current = before.metadata
    requested = requested_properties(change.properties)
    properties = _set_values(requested.properties)
    names = [COLUMN_MAPPING_MODE.name] if before.is_mapped else []
    if all(map(IN_COMMIT_TIMESTAMPS.value_in, (current.configuration, properties))):
        # Earlier versions have no inCommitTimestamp: readers must know where it starts.
        names += [IN_COMMIT_TIMESTAMP_VERSION.name, IN_COMMIT_TIMESTAMP_TIME.name]
    kept = {n: current.configuration[n] for n in names if n in current.configuration}
    metadata = replace(_new_metadata(change, {**kept, **properties}), id=current.id)
    definition = replace(before, metadata=metadata)
    features = (*needed_features(definition), *requested.features)
    return replace(definition, protocol=add_features(before.protocol, features))


def _new_metadata(change: DefineTable, configuration: Mapping[str, str]) -> Metadata:
    for what, text in (("name", change.name), ("description", change.description)):
        if not isinstance(text, str | None):
            raise InvalidRequestError(f"the table's {what} is {text!r}; give a string or None")
    return Metadata(
        id=str(uuid.uuid4()),
        name=change.name,
        description=change.description,
        schema_string=schema_to_json(change.schema),
        partition_columns=_valid_columns(change.schema, change.partition_by, configuration),
        configuration=configuration,
        created_time=change.created_ms,
    )


def _valid_columns(
    schema: StructType, partition_by: Sequence[str], configuration: Mapping[str, str]
) -> tuple[str, ...]:
    """Validate new columns; returns the partition columns as the schema spells them."""
    validate_names(schema, is_mapped=COLUMN_MAPPING_MODE.value_in(configuration) != "none")
    found = partition_columns(schema, partition_by)
    validate_generated(schema)
    validate_defaults(schema, schema)
    return found


def _set_properties(before: TableDefinition, change: SetProperties, table: str) -> TableDefinition:
    requested = requested_properties(change.properties)
    for name, value in requested.properties.items():
        if value is not None and name.lower().startswith(CONSTRAINTS):
            raise InvalidRequestError(
                f"{table}: the property {name} would add a constraint without a check of the "
                f"existing rows; use {option('ddl.add_constraint')}, which checks them"
            )
    configuration = _set_values({**before.metadata.configuration, **requested.properties})
    features = features_of_properties(_set_values(requested.properties))
    return TableDefinition(
        protocol=add_features(before.protocol, (*features, *requested.features)),
        metadata=replace(before.metadata, configuration=configuration),
    )


def _set_columns(before: TableDefinition, change: SetColumns, table: str) -> TableDefinition:
    validate_types(change.schema, before, table, change.features)
    validate_names(change.schema, before.schema, is_mapped=before.is_mapped)
    metadata = replace(before.metadata, schema_string=schema_to_json(change.schema))
    if change.configuration is not None:
        metadata = replace(metadata, configuration=change.configuration)
    if change.partition_columns is not None:
        metadata = replace(metadata, partition_columns=change.partition_columns)
    protocol = add_features(before.protocol, change.features)
    return TableDefinition(protocol=protocol, metadata=metadata)


def _add_needed_features(
    before: TableDefinition, metadata: Metadata, table: str
) -> TableDefinition:
    """The table with new metadata; adds the features that only the new metadata need."""
    wanted = replace(before, metadata=metadata)
    validate_types(wanted.schema, before, table)
    added = sorted(set(needed_features(wanted)) - set(needed_features(before)))
    return replace(wanted, protocol=add_features(before.protocol, added))


def _merged_columns(
    before: TableDefinition, data_schema: StructType, table: str
) -> Metadata | None:
    """The metadata with the columns that only the data have; None without such columns."""
    validate_unique_names(data_schema, table)
    known = before.schema
    if TYPE_WIDENING.value_in(before.metadata.configuration):
        known = widen_types(known, data_schema, lambda path: _keeps_type(before, path))
    merged = merge_schemas(known, data_schema)
    if merged == before.schema:
        return None
    validate_names(merged, before.schema, is_mapped=before.is_mapped)
    validate_added(merged, before.schema, table)
    names = before.schema.fields_by_lower_name
    new = StructType(tuple(each for each in merged.fields if each.name.lower() not in names))
    validate_defaults(new, merged)
    return replace(before.metadata, schema_string=schema_to_json(merged))


def _keeps_type(definition: TableDefinition, path: ColumnPath) -> bool:
    return is_float_partition(definition, path) or any(uses_in_expressions(definition, path))


def _overwritten(before: TableDefinition, change: OverwriteColumns, table: str) -> Metadata:
    names = change.partition_by
    if names is None:
        names = [
            _partition_column(change.data_schema, each, table) for each in before.partition_columns
        ]
    schema = keep_variants(change.data_schema, before.schema)
    columns = _valid_columns(schema, names, before.metadata.configuration)
    _validate_constraints(change.data_schema, before, table)
    return replace(before.metadata, schema_string=schema_to_json(schema), partition_columns=columns)


def _partition_column(schema: StructType, name: str, table: str) -> str:
    if name.lower() not in schema.fields_by_lower_name:
        raise InvalidRequestError(
            f"{table} is partitioned by {name}, which the data do not have; give the new "
            f"partition columns with {option('partition_by')}, or [] for none"
        )
    return name_of_column(find_field(schema, name).name)


def _validate_constraints(schema: StructType, before: TableDefinition, table: str) -> None:
    """Reject data without a column of a constraint.

    A constraint that our SQL parser cannot parse is left to the engine.
    """
    for rule in before.row_rules:
        if not isinstance(rule, Check):
            continue
        try:
            used = columns_of(parse_expression(rule.expression).root)
        except InvalidRequestError:
            continue
        for each in used:
            if each.path[0].lower() not in schema.fields_by_lower_name:
                raise InvalidRequestError(
                    f"{table}: the data have no column {each.path[0]}, which is used by {rule} "
                    f"({rule.expression}); include it in the data, or drop the constraint first"
                )


def _set_values(properties: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if value is not None}
