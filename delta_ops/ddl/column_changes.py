"""Column changes: each function changes the table's schema in a transaction.

A function returns the commit's name and parameters, or None if the column is already as requested.
A change of a column that a rule of the table uses is rejected, and the error names the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from delta_ops.ddl.alter import Alteration
from delta_ops.ddl.constraints import require_rows
from delta_ops.ddl.new_columns import NewColumn, new_field
from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.column_uses import (
    is_float_partition,
    uses_in_clustering,
    uses_in_expressions,
)
from delta_ops.protocol.columns.defaults import default_value, validate_defaults
from delta_ops.protocol.columns.identity import is_identity
from delta_ops.protocol.properties.known import (
    BLOOM_FILTERS,
    SORT_KEY,
    STATS_COLUMNS,
    TYPE_WIDENING,
)
from delta_ops.protocol.row_rules import GENERATION_EXPRESSION, NotNull
from delta_ops.protocol.schema import (
    CURRENT_DEFAULT,
    TIMESTAMP_NTZ,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    find_field,
    schema_to_json,
)
from delta_ops.protocol.schema.arrow_types import validate_levels
from delta_ops.protocol.schema.changes import (
    add_field,
    drop_field,
    find_by_path,
    find_member,
    find_struct,
    order_fields,
    replace_field,
    replace_member,
    set_metadata_key,
)
from delta_ops.protocol.schema.char_types import SQL_TYPE, add_lengths, change_length
from delta_ops.protocol.schema.column_names import find_named, name_of_path, path_of_name
from delta_ops.protocol.schema.widening import describe_widening, is_widening
from delta_ops.protocol.sort_key import sort_columns
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction import Transaction
from delta_ops.transaction.engine import CheckRows, Engine
from delta_ops.transaction.table_change import SetColumns


def add(transaction: Transaction, columns: Sequence[NewColumn]) -> Alteration:
    """Add columns, or fields of structs."""
    schema = transaction.schema
    paths, positions = [], []
    for column in columns:
        *parent, name = path_of_name(column.name, StructType())
        struct, exact_path = find_struct(schema, tuple(parent))
        after = None if column.after is None else _plain_name(struct, column.after)
        field = new_field(name, column)
        stored = set_metadata_key(field, SQL_TYPE, None) if parent else field
        schema = add_field(schema, exact_path, stored, first=column.first, after=after)
        if parent and SQL_TYPE in field.metadata:
            top, *members = (*exact_path, name)
            whole = add_lengths(find_field(schema, top), tuple(members), field)
            schema = replace_field(schema, (top,), whole)
        paths.append((*exact_path, name))
        positions.append(_position(column, after))
    transaction.change_table(SetColumns(schema=schema))
    # With column mapping, the definition has the column ids.
    added = [find_by_path(transaction.schema, path)[1] for path in paths]
    shown = [
        {"column": field_json(path[:-1], field), **position}
        for path, field, position in zip(paths, added, positions, strict=True)
    ]
    return Alteration(operation="ADD COLUMNS", parameters={"columns": shown})


def rename(transaction: Transaction, column: str, name: str) -> Alteration | None:
    """Rename a column, or a field of a struct."""
    definition, table = transaction.definition, transaction.log.uri
    _require_mapping(definition, "renamed", table)
    path, field = find_column(definition.schema, column)
    if field.name == name:
        return None
    _refuse_uses(definition, path, "renamed", table)
    new_path = (*path[:-1], name)
    renamed = SetColumns(
        schema=replace_field(definition.schema, path, replace(field, name=name)),
        configuration=_rename_in_properties(definition, path, new_path),
        partition_columns=tuple(
            name if path == (each,) else each for each in definition.partition_columns
        ),
    )
    transaction.change_table(renamed)
    return Alteration(
        operation="RENAME COLUMN",
        parameters={"oldColumnPath": name_of_path(path), "newColumnPath": name_of_path(new_path)},
    )


def drop(transaction: Transaction, columns: Sequence[str]) -> Alteration:
    """Drop columns, or fields of structs."""
    definition, table = transaction.definition, transaction.log.uri
    _require_mapping(definition, "dropped", table)
    dropped = []
    for column in columns:
        path, _ = find_column(definition.schema, column)
        _refuse_uses(definition, path, "dropped", table)
        _refuse_layout(transaction, path)
        definition = _remove_column(definition, path)
        dropped.append(name_of_path(path))
    if definition.schema.fields and not definition.data_schema.fields:
        raise InvalidRequestError(
            f"{table}: only partition columns would be left; leave one column for the files"
        )
    configuration = definition.metadata.configuration
    transaction.change_table(SetColumns(schema=definition.schema, configuration=configuration))
    return Alteration(operation="DROP COLUMNS", parameters={"columns": dropped})


def _remove_column(definition: TableDefinition, path: ColumnPath) -> TableDefinition:
    metadata = replace(
        definition.metadata,
        schema_string=schema_to_json(drop_field(definition.schema, path)),
        configuration=_rename_in_properties(definition, path, None),
    )
    return replace(definition, metadata=metadata)


def reorder(
    transaction: Transaction, columns: Sequence[str], struct: str | None
) -> Alteration | None:
    """Move columns, or fields of a struct, to the front."""
    schema = transaction.schema
    parent = () if struct is None else path_of_name(struct, schema)
    ordered = order_fields(schema, parent, columns)
    if ordered == schema:
        return None
    transaction.change_table(SetColumns(schema=ordered))
    shown = [field_json((), field) for field in ordered.fields]
    return Alteration(operation="REPLACE COLUMNS", parameters={"columns": shown})


def change_type(transaction: Transaction, column: str, wanted: DataType) -> Alteration | None:
    """Widen the type of a column, a struct field, or a member of an array or map."""
    definition, table = transaction.definition, transaction.log.uri
    schema = definition.schema
    path, field, inner, current = find_member(schema, path_of_name(column, schema))
    if (changed := change_length(schema, (*path, *inner), wanted)) is not None:
        return _change_field(transaction, path, changed)
    validate_levels(wanted, column)
    if current == wanted:
        return None
    _refuse_type((*path, *inner), current, wanted, table)
    if is_float_partition(definition, path):
        raise InvalidRequestError(
            f"{table}: column {name_of_path((*path, *inner))} cannot change its type: the table "
            "is partitioned by it, and its stored values would mean other numbers. Overwrite the "
            f"table with {option('overwrite_schema', True)}"
        )
    if uses := list(uses_in_expressions(definition, path)):
        raise InvalidRequestError(
            f"{table}: column {name_of_path((*path, *inner))} cannot change its type: it is used "
            f"by {', '.join(uses)}; drop that first"
        )
    if not TYPE_WIDENING.value_in(definition.metadata.configuration):
        raise InvalidRequestError(
            f"{table}: the table does not allow type widening; set delta.enableTypeWidening = "
            "true first",
            "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        )
    widened = replace(field, data_type=replace_member(field.data_type, inner, wanted))
    change = SetColumns(
        schema=replace_field(schema, path, describe_widening(widened, inner, current, wanted)),
        features=("timestampNtz",) if wanted == TIMESTAMP_NTZ else (),
    )
    transaction.change_table(change)
    # Like the reference, omit the type change that the schema's metadata record.
    return _changed_column(path, widened)


def require(
    transaction: Transaction, column: str, engine: Engine | CheckRows | None
) -> Alteration | None:
    """Require that a column is never null."""
    path, field = find_column(transaction.schema, column)
    if not field.nullable:
        return None
    _refuse_member(transaction.schema, path, transaction.log.uri)
    required = replace(field, nullable=False)
    schema = replace_field(transaction.schema, path, required)
    transaction.change_table(SetColumns(schema=schema, features=("invariants",)))
    require_rows(transaction, NotNull(".".join(path)), engine)
    return _changed_column(path, required)


def allow_null(transaction: Transaction, column: str) -> Alteration | None:
    """Allow nulls in a column."""
    path, field = find_column(transaction.schema, column)
    return _change_field(transaction, path, replace(field, nullable=True))


def set_default(transaction: Transaction, column: str, default: str | None) -> Alteration | None:
    """Set the default of a column for new rows."""
    path, field = find_column(transaction.schema, column)
    if len(path) > 1:
        raise InvalidRequestError(
            f"{name_of_path(path)} is a field of a struct; only columns have defaults"
        )
    if GENERATION_EXPRESSION in field.metadata or is_identity(field):
        raise InvalidRequestError(f"column {field.name} is generated, so it can have no default")
    changed = set_metadata_key(field, CURRENT_DEFAULT, default)
    if default is not None:
        validate_defaults(StructType((changed,)), transaction.schema)
        default_value(changed, transaction.clock(), transaction.log.uri)
    features = () if default is None else ("allowColumnDefaults",)
    return _change_field(transaction, path, changed, features)


def set_comment(transaction: Transaction, column: str, comment: str | None) -> Alteration | None:
    """Set the comment of a column; None removes it."""
    path, field = find_column(transaction.schema, column)
    return _change_field(transaction, path, set_metadata_key(field, "comment", comment))


def find_column(schema: StructType, name: str) -> tuple[ColumnPath, StructField]:
    """Find a column by name; returns its path, as the schema spells it, and the field.

    Raises:
        InvalidRequestError: The column does not exist.
    """
    return find_by_path(schema, path_of_name(name, schema))


def field_json(parent: ColumnPath, field: StructField) -> dict[str, Any]:
    """A field as the reference records it in `operationParameters`."""
    return {
        "name": name_of_path((*parent, field.name)),
        "type": _type_name(field.data_type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def _change_field(
    transaction: Transaction,
    path: ColumnPath,
    field: StructField,
    features: tuple[str, ...] = (),
) -> Alteration | None:
    """Replace a field; returns None if the new field is the same."""
    changed = replace_field(transaction.schema, path, field)
    if changed == transaction.schema:
        return None
    transaction.change_table(SetColumns(schema=changed, features=features))
    return _changed_column(path, field)


def _changed_column(path: ColumnPath, field: StructField) -> Alteration:
    return Alteration(
        operation="CHANGE COLUMN", parameters={"column": field_json(path[:-1], field)}
    )


def _plain_name(struct: StructType, name: str) -> str:
    """The name of a field without backticks, in upper or lower case as the user wrote it."""
    found = find_named(struct, name).name
    return name if name.lower() == found.lower() else found


def _position(column: NewColumn, after: str | None) -> dict[str, str]:
    if column.first and after is not None:
        raise InvalidRequestError(
            f"column {column.name} cannot be both first and after {column.after}; choose one"
        )
    if column.first:
        return {"position": "FIRST"}
    return {} if after is None else {"position": f"AFTER {name_of_path((after,))}"}


def _refuse_type(path: ColumnPath, current: DataType, wanted: DataType, table: str) -> None:
    """Reject a type that is not wider than the column's type."""
    name = name_of_path(path)
    if isinstance(current, StructType | ArrayType | MapType):
        raise InvalidRequestError(
            f"{table}: column {name} is nested; widen its fields by name, such as "
            f"{name}.{_first_member(current)}"
        )
    if not is_widening(current, wanted):
        raise InvalidRequestError(
            f"{table}: column {name} of type {current.name} cannot become {wanted.name}: some "
            "values do not fit that type. Overwrite the table with "
            f"{option('overwrite_schema', True)}",
            "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        )


def _first_member(data_type: StructType | ArrayType | MapType) -> str:
    match data_type:
        case StructType(fields=(first, *_)):
            return first.name
        case MapType():
            return "value"
    return "element"


def _refuse_member(schema: StructType, path: ColumnPath, table: str) -> None:
    """Reject a field inside an array or a map, where the reference does not enforce NOT NULL."""
    data_type: DataType = schema
    for part in path:
        if not isinstance(data_type, StructType):
            raise InvalidRequestError(
                f"{table}: {'.'.join(path)} lies within an array or a map, where other engines do "
                "not enforce NOT NULL; add a constraint on the column"
            )
        data_type = find_field(data_type, part).data_type


def _require_mapping(definition: TableDefinition, done: str, table: str) -> None:
    if not definition.is_mapped:
        raise InvalidRequestError(
            f"{table}: columns can be {done} only in a table with column mapping, because files "
            "store columns by name; set delta.columnMapping.mode = name first, or overwrite the "
            f"table with {option('overwrite_schema', True)}",
            f"DELTA_UNSUPPORTED_{'RENAME' if done == 'renamed' else 'DROP'}_COLUMN",
        )


def _refuse_uses(definition: TableDefinition, path: ColumnPath, done: str, table: str) -> None:
    uses = list(uses_in_expressions(definition, path))
    if uses:
        user = "CONSTRAINT" if uses[0].startswith("the constraint") else "GENERATED_COLUMNS"
        raise InvalidRequestError(
            f"{table}: column {name_of_path(path)} cannot be {done}: it is used by "
            f"{', '.join(uses)}; drop or change that first",
            f"DELTA_{user}_DEPENDENT_COLUMN_CHANGE",
        )


def _refuse_layout(transaction: Transaction, path: ColumnPath) -> None:
    definition = transaction.definition
    assert transaction.snapshot
    clustering = (
        uses_in_clustering(definition, path, transaction.snapshot.domain_metadata().values())
        if definition.has("clustering")
        else ()
    )
    partitioning = (
        "the partitioning of the table" for each in definition.partition_columns if path == (each,)
    )
    sort_key = ("the sort key" for each in sort_columns(definition) if path == (each.name,))
    for uses, error_class in (
        (partitioning, "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN"),
        (clustering, "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN"),
        (sort_key, None),
    ):
        for use in uses:
            raise InvalidRequestError(
                f"{transaction.log.uri}: column {name_of_path(path)} cannot be dropped: it is used "
                f"by {use}",
                error_class,
            )


def _rename_in_properties(
    definition: TableDefinition, path: ColumnPath, new_path: ColumnPath | None
) -> dict[str, str]:
    """The properties, with the new name of a column in those that list columns.

    Args:
        new_path: The new name; None if the column is dropped.
    """
    configuration = dict(definition.metadata.configuration)
    lower = tuple(part.lower() for part in path)
    for each in (STATS_COLUMNS, SORT_KEY, BLOOM_FILTERS):
        listed = each.value_in(configuration)
        if listed is None:
            continue
        kept: list[ColumnPath] = []
        for column in listed:
            is_within = tuple(part.lower() for part in column[: len(path)]) == lower
            if not is_within:
                kept.append(column)
            elif new_path is not None:
                kept.append((*new_path, *column[len(path) :]))
        if kept != list(listed):
            configuration[each.name] = ",".join(map(name_of_path, kept))
    return configuration


def _type_name(data_type: DataType) -> str:
    match data_type:
        case ArrayType():
            return "array"
        case MapType():
            return "map"
    return data_type.name
