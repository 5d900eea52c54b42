"""DML: DELETE, UPDATE, MERGE INTO, INSERT and TRUNCATE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias, overload

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

import delta_ops.spark as ds
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import CURRENT_DEFAULT, StructType
from delta_ops.protocol.schema.changes import find_by_path
from delta_ops.protocol.schema.column_names import path_of_name
from delta_ops.spark.delta_format.calls import Calls
from delta_ops.spark.delta_format.named_writes import assign_columns, name_columns
from delta_ops.spark.delta_format.store_assignment import assign_value
from delta_ops.spark.delta_format.writers import save
from delta_ops.spark.engine import SparkEngine
from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.schema import spark_schema_from_schema
from delta_ops.spark.session.settings import reset_txn, session_settings, txn_of
from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.dml_grammar import DEFAULT
from delta_ops.spark.statements.names import (
    NamedTable,
    may_name_databases,
    shorten_column,
    shorten_names,
)
from delta_ops.spark.versions import is_connect
from delta_ops.tables.argument_checks import check_condition
from delta_ops.tables.frames import figures_frame
from delta_ops.tables.merge_builder import DeltaMergeBuilder, columns_by_qualifier
from delta_ops.tables.statements.table import Table
from delta_ops.transaction import CommitResult
from delta_ops.transaction.dml import delete_rows, update_rows
from delta_ops.transaction.requests import DeleteRequest, UpdateRequest

Dml: TypeAlias = nodes.Delete | nodes.Update | nodes.MergeInto | nodes.Insert | nodes.Truncate

_AFFECTED = "num_affected_rows"
_UNKNOWN = -1
"""The number of deleted rows if removed files have no statistics, as in the reference."""
_SESSION_CATALOG, _DELTA, _NUM_PARTS = "spark_catalog", "delta", 3
_COMPUTED = ("delta.generationExpression", "delta.identity.start")
"""Metadata of columns whose values delta_ops computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """The names of tables in one statement."""

    alias: str | None
    """The name of the target for conditions and values."""
    target: NamedTable | None = None
    """None if the statement cannot name the target's database."""
    source: NamedTable | None = None

    @overload
    def shorten(self, text: str) -> str: ...

    @overload
    def shorten(self, text: str | None) -> str | None: ...

    def shorten(self, text: str | None) -> str | None:
        """A condition or a value without the databases of tables."""
        tables = [each for each in (self.target, self.source) if each is not None]
        return text if text is None else shorten_names(text, tables)

    def shorten_column(self, column: str) -> str:
        """A column that gets a value, without the database of its table."""
        return column if self.target is None else shorten_column(column, self.target)


def run(table: Table, statement: Dml) -> DataFrame:
    """Change the rows of a table."""
    match statement:
        case nodes.Delete():
            return _delete(table, statement)
        case nodes.Update():
            return _update(table, statement)
        case nodes.MergeInto():
            return _merge(table, statement)
        case nodes.Insert():
            return _insert(table, statement)
        case nodes.Truncate():
            ds.delete(table.spark, table.log, user_metadata=table.user_metadata)
            return table.nothing()


def _delete(table: Table, statement: nodes.Delete) -> DataFrame:
    txn = txn_of(table.spark)
    names = _names_of_change(table, statement.alias, [statement.condition])
    result = delete_rows(
        SparkEngine(table.spark),
        DeleteRequest(
            target=table.log,
            predicate=check_condition(names.shorten(statement.condition)),
            target_alias=names.alias,
            txn=txn,
            user_metadata=table.user_metadata,
        ),
    )
    return _affected_rows(table, result, "numDeletedRows", txn)


def _update(table: Table, statement: nodes.Update) -> DataFrame:
    txn = txn_of(table.spark)
    texts = [statement.condition, *chain.from_iterable(statement.assignments)]
    names = _names_of_change(table, statement.alias, texts)
    result = update_rows(
        SparkEngine(table.spark, fit_value=assign_value),
        UpdateRequest(
            target=table.log,
            assignments=_values(table, statement.assignments, names),
            predicate=check_condition(names.shorten(statement.condition)),
            target_alias=names.alias,
            txn=txn,
            user_metadata=table.user_metadata,
        ),
    )
    return _affected_rows(table, result, "numUpdatedRows", txn)


def _affected_rows(
    table: Table, result: CommitResult, metric: str, txn: tuple[str, int] | None
) -> DataFrame:
    if txn is not None:
        reset_txn(table.spark)
    unknown = 0 if result.version is None else _UNKNOWN
    return figures_frame(table.spark, {_AFFECTED: result.metrics.get(metric, unknown)})


def _values(
    table: Table, assignments: nodes.Assignments, names: _Names, *, is_insert: bool = False
) -> dict[str, str]:
    """New values by column; DEFAULT becomes the default of its column.

    Raises:
        InvalidRequestError: A column is set twice.
    """
    values = {names.shorten_column(name): names.shorten(value) for name, value in assignments}
    if len(values) < len(assignments):
        raise InvalidRequestError(
            f"{table.log.uri}: a column is set twice; set it once",
            "DELTA_DUPLICATE_COLUMNS_ON_INSERT" if is_insert else "DELTA_CONFLICT_SET_COLUMN",
        )
    defaults = [column for column, value in values.items() if value.upper() == DEFAULT]
    if not defaults:
        return values
    schema = table.log.snapshot().schema
    return values | {column: _default_of(table, schema, column) for column in defaults}


def _default_of(table: Table, schema: StructType, column: str) -> str:
    """The default of a column as SQL; NULL if it has none.

    Raises:
        InvalidRequestError: There is no such column, or its values are always computed.
    """
    path = path_of_name(column, schema)
    if len(path) > 1 and path[0].lower() not in schema.fields_by_lower_name:
        path = path[1:]  # the alias of the table
    field = find_by_path(schema, path)[1]
    if any(name in field.metadata for name in _COMPUTED):
        raise InvalidRequestError(
            f"{table.log.uri}: the values of column {column} are computed, so it has no DEFAULT; "
            "leave the column out"
        )
    return f"({field.metadata[CURRENT_DEFAULT]})" if CURRENT_DEFAULT in field.metadata else "NULL"


def _merge(table: Table, statement: nodes.MergeInto) -> DataFrame:
    query = f"{statement.with_tables} SELECT * FROM {statement.source}"  # noqa: S608  (user's text)
    source = table.query(query)
    if is_connect(table.spark) and statement.source_name is not None:
        source = source.alias(statement.source_name)  # a client does not know the names in a text
    names, source = _names_of_merge(table, statement, source)
    merge = table.delta_table(names.alias).merge(source, names.shorten(statement.condition))
    if statement.adds_columns:
        merge = merge.withSchemaEvolution()
    for clause in statement.clauses:
        is_insert = clause.action == "insert"
        values = _values(table, clause.assignments, names, is_insert=is_insert)
        merge = _add_clause(merge, clause, names.shorten(clause.condition), values)
    return merge.execute()


def _add_clause(
    merge: DeltaMergeBuilder,
    clause: nodes.MergeClause,
    condition: str | None,
    values: dict[str, str],
) -> DeltaMergeBuilder:
    given: dict[str, Any] = dict(values)
    match clause.applies_to, clause.action:
        case "matched", "delete":
            return merge.whenMatchedDelete(condition)
        case "matched", "update all":
            return merge.whenMatchedUpdateAll(condition)
        case "matched", _:
            return merge.whenMatchedUpdate(condition, given)
        case "not matched", "insert all":
            return merge.whenNotMatchedInsertAll(condition)
        case "not matched", _:
            return merge.whenNotMatchedInsert(condition, given)
        case _, "delete":
            return merge.whenNotMatchedBySourceDelete(condition)
    return merge.whenNotMatchedBySourceUpdate(condition, given)


def _insert(table: Table, statement: nodes.Insert) -> DataFrame:
    snapshot = table.log.snapshot()
    _validate_partition(table, snapshot.partition_columns, statement)
    if statement.value_rows:
        statement = _put_defaults(table, snapshot.schema, statement)
    rows = table.query(statement.query)
    columns = [each.name for each in snapshot.schema.fields]
    fixed = {name: value for name, value in statement.partition if value is not None}
    evolves = statement.evolves or session_settings(table.spark).merge_schema
    if not statement.is_by_name:
        names = statement.columns or tuple(
            each for each in columns if each.lower() not in {name.lower() for name in fixed}
        )
        if statement.columns is None and evolves:
            names += tuple(rows.columns[len(names) :])
        rows = name_columns(rows, names, table.log.uri)
    by_name = statement.is_by_name
    rows = assign_columns(rows, snapshot.schema, table.log.uri, is_by_name=by_name)
    types = spark_schema_from_schema(snapshot.schema) if fixed else ()
    type_of = {each.name.lower(): each.dataType for each in types}
    for name, value in fixed.items():
        rows = rows.withColumn(name, _fixed_value(name, value, type_of[name.lower()]))
    options = {"path": ("path", table.path)}
    if statement.evolves:
        options["mergeschema"] = ("mergeSchema", "true")
    condition = statement.replace_where
    if statement.overwrites and fixed and not _replaces_dynamically(table, statement):
        condition = " AND ".join(map(_equals, fixed, fixed.values()))
    if condition is not None:
        options["replacewhere"] = ("replaceWhere", condition)
    replaces = statement.overwrites or condition is not None
    calls = Calls(mode="overwrite" if replaces else "append", options=options)
    known = {each.lower() for each in columns}
    has_unknown = any(each.lower() not in known for each in statement.columns or ())
    with _naming_inserts(has_unknown_names=has_unknown):
        save(rows, calls, None, table.storage_options)
    return table.nothing()


@contextmanager
def _naming_inserts(*, has_unknown_names: bool) -> Iterator[None]:
    """Raise errors of a write with the error classes of INSERT.

    Args:
        has_unknown_names: Whether the column list of the statement names an unknown column.
    """
    try:
        yield
    except InvalidRequestError as error:
        if error.error_class == "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE":
            found = "CAST_OVERFLOW_IN_TABLE_INSERT"
        elif error.error_class == "DELTA_METADATA_MISMATCH" and has_unknown_names:
            found = "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        else:
            raise
        raise InvalidRequestError(error.message, found) from error


def _fixed_value(column: str, value: str, data_type: DataType) -> Column:
    """A value of PARTITION, cast to the type of its column as Spark does."""
    cast = sf.expr(value).cast(data_type)
    if value.upper() == "NULL":
        return cast
    text = f"PARTITION ({column} = {value}): the value does not fit the type of the column"
    return sf.coalesce(cast, sf.raise_error(sf.lit(text)))


def _replaces_dynamically(table: Table, statement: nodes.Insert) -> bool:
    """Whether the partitions of the rows decide what an overwrite replaces."""
    is_open = any(value is None for _, value in statement.partition)
    return is_open and session_settings(table.spark).overwrites_dynamically


def _validate_partition(
    table: Table, partition_columns: Sequence[str], statement: nodes.Insert
) -> None:
    known = {each.lower() for each in partition_columns}
    given = [name.lower() for name, _ in statement.partition]
    others = [name for name, _ in statement.partition if name.lower() not in known]
    if others:
        raise InvalidRequestError(
            f"{table.log.uri}: PARTITION names {', '.join(others)}, and the table is partitioned "
            f"by {', '.join(sorted(known)) or 'nothing'}; name partition columns only"
        )
    if len(set(given)) < len(given):
        raise InvalidRequestError(f"{table.log.uri}: PARTITION names a column twice; name it once")


def _equals(column: str, value: str) -> str:
    name = quote(column)
    return f"{name} IS NULL" if value.upper() == "NULL" else f"{name} = {value}"


def _first_given(table: Table, schema: StructType, columns: Sequence[str]) -> str:
    """The first column whose values are not computed."""
    for column in columns:
        field = find_by_path(schema, path_of_name(quote(column), schema))[1]
        if not any(name in field.metadata for name in _COMPUTED):
            return column
    raise InvalidRequestError(
        f"{table.log.uri}: the values of all columns are computed, so a row cannot have defaults "
        "only; add a column that takes values"
    )


def _put_defaults(table: Table, schema: StructType, statement: nodes.Insert) -> nodes.Insert:
    """Replace DEFAULT in VALUES; omit a column that has no other value."""
    fixed = {name.lower() for name, value in statement.partition if value is not None}
    columns = statement.columns or tuple(
        each.name for each in schema.fields if each.name.lower() not in fixed
    )
    if statement.is_by_name or any(len(row) != len(columns) for row in statement.value_rows):
        raise InvalidRequestError(
            f"{table.log.uri}: each row of VALUES needs {len(columns)} values "
            f"({', '.join(columns)}), by position; write a value or DEFAULT for each"
        )
    if len({each.lower() for each in columns}) < len(columns):
        raise InvalidRequestError(
            f"{table.log.uri}: a column is named twice; name it once", "COLUMN_ALREADY_EXISTS"
        )
    by_column = dict(zip(columns, zip(*statement.value_rows, strict=True), strict=True))
    kept: dict[str, list[str]] = {}
    for column, values in by_column.items():
        if any(value.upper() != DEFAULT for value in values):
            default = (
                _default_of(table, schema, quote(column))
                if DEFAULT in map(str.upper, values)
                else ""
            )
            kept[column] = [default if v.upper() == DEFAULT else v for v in values]
    if not kept:  # a query has at least one column
        column = _first_given(table, schema, columns)
        kept[column] = [_default_of(table, schema, quote(column))] * len(statement.value_rows)
    rows = (f"({', '.join(row)})" for row in zip(*kept.values(), strict=True))
    return replace(statement, columns=tuple(kept), query=f"VALUES {', '.join(rows)}")


def _names_of_change(table: Table, alias: str | None, texts: Sequence[str | None]) -> _Names:
    """The names in a DELETE or UPDATE.

    Args:
        alias: The alias of the table in the statement.
        texts: Conditions, values and columns of the statement.
    """
    if alias is not None:
        return _Names(alias=alias)
    own = table.name or _path_in(table, texts)
    if own is None or not any(map(may_name_databases, texts)):
        return _Names(alias=own)
    columns = table.log.snapshot().schema.fields_by_lower_name.keys()
    parts = table.name_parts
    name = _full_name(table.spark, parts) if parts else (_DELTA, own.lower())
    return _Names(alias=own, target=NamedTable(name=name, alias=own, columns=columns))


def _names_of_merge(
    table: Table, statement: nodes.MergeInto, source: DataFrame
) -> tuple[_Names, DataFrame]:
    """The names in a MERGE, and its source, whose alias differs from the target's.

    Args:
        source: The rows of the source, under its names.
    """
    texts: list[str | None] = [statement.condition]
    for clause in statement.clauses:
        texts += [clause.condition, *chain.from_iterable(clause.assignments)]
    names = _names_of_change(table, statement.alias, texts)
    if is_connect(table.spark) or not any(map(may_name_databases, texts)):
        return names, source
    found = columns_by_qualifier(source)
    if len(found) != 1:
        return names, source
    ((qualifier, columns),) = found.items()
    if len(qualifier) == 1:
        return names, source
    *_, alias = qualifier
    target = names.target
    if target is not None and alias.lower() == target.alias.lower():
        target = replace(target, alias=".".join(target.name))
        names, alias = replace(names, target=target, alias=target.alias), ".".join(qualifier)
        source = source.alias(alias)
    of_source = NamedTable(
        name=tuple(map(str.lower, qualifier)),
        alias=alias,
        columns=frozenset(map(str.lower, columns)),
    )
    return replace(names, source=of_source), source


def _path_in(table: Table, texts: Sequence[str | None]) -> str | None:
    """The path of a target without a name, if a text contains the path."""
    is_named = any(text is not None and table.path in text for text in texts)
    return table.path if is_named else None


def _full_name(spark: SparkSession, parts: Sequence[str]) -> tuple[str, ...]:
    """Complete a name in the session's catalog, in lower case."""
    of_database = (spark.catalog.currentDatabase(), *parts) if len(parts) == 1 else tuple(parts)
    return tuple(map(str.lower, (_SESSION_CATALOG, *of_database)[-_NUM_PARTS:]))
