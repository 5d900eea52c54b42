"""Output merges: the rows of an output meet those of its table, by `MergeSettings`.

Of an asset with partitions a merge changes the rows of the run's partitions alone: rows of others
are met by none, are none that no row of the output meets, and are refused in the output.

The first merge makes the table by the commit that brings its rows, so that a merge that is refused
or killed leaves no table behind. Of several that make it at once, those that were not first add
their rows to it, unless a commit that came before may have brought rows that theirs meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from delta_ops.ddl.create_table import define_table
from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.orchestration.io_manager.merge_settings import MergeClause, MergeSettings
from delta_ops.orchestration.io_manager.type_handlers import is_spark_data, schema_of_rows
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.column_names import find_columns, find_named, quote
from delta_ops.transaction import CommitResult, Hook, Transaction, Txn
from delta_ops.transaction.merge import Clause, Merge, MergeEngine, MergeRequest, ParsedCondition
from delta_ops.transaction.source_rules import SourceRule, key_rule
from delta_ops.transaction.write import validate_partitioning


def merge_rows(
    transaction: Transaction,
    rows: Any,
    settings: MergeSettings,
    txns: Sequence[Txn],
    *,
    among: Predicate | None,
    merge_schema: bool,
    partition_by: Sequence[str] | None,
    configuration: Mapping[str, str] | None,
    user_metadata: str | None,
    hooks: Sequence[Hook],
) -> CommitResult:
    """Merge rows into a table and commit; where there is no table, make it.

    Args:
        rows: As `rows_of` makes them.
        txns: The identities of the merge.
        among: The rows of the table that it may change; None: all.
        partition_by: For a new table; so is `configuration`.

    Raises:
        InvalidRequestError: There is no table, and the clauses do not say its columns; or as for
            `delta_ops.arrow.merge`.
    """
    engine, columns = _engine_of(rows), schema_of_rows(rows)
    settings = replace(settings, keys=_spelled_keys(settings.keys, columns))
    condition = _condition(settings, among, engine)
    clauses = [_clause(each, settings, among, engine) for each in settings.clauses]
    if transaction.snapshot is None:
        table = transaction.log.uri
        _validate_keys(settings.keys, columns, table)
        schema = _inserted_columns(columns, settings, table)
        define_table(transaction, schema, partition_by=partition_by or (), properties=configuration)
    else:
        validate_partitioning(transaction.definition, partition_by, transaction.log.uri)
    transaction.is_of_one_change = True
    for txn in txns:
        transaction.set_transaction(txn)
    request = MergeRequest(
        target=transaction,
        source=rows,
        predicate=condition,
        source_alias=settings.source_alias,
        target_alias=settings.target_alias,
        txn=None,
        merge_schema=merge_schema,
        user_metadata=user_metadata,
        storage_options=None,
        hooks=hooks,
        on_event=transaction.on_event,
        source_rules=list(_source_rules(settings, among, transaction.definition.partition_columns)),
    )
    return Merge(request, engine, clauses).execute()


def _engine_of(rows: Any) -> MergeEngine:
    if is_spark_data(rows):
        from delta_ops.spark.dml.merge_execution import SparkMerge

        return SparkMerge()
    from delta_ops.arrow.dml.merge_execution import ArrowMerge

    return ArrowMerge()


def _validate_keys(keys: Sequence[str], output: StructType, table: str) -> None:
    """Refuse keys that an output does not have, before a table is made of it.

    Raises:
        InvalidRequestError: With the key.
    """
    for key in keys:
        if key.lower() not in output.fields_by_lower_name:
            names = ", ".join(each.name for each in output.fields)
            raise InvalidRequestError(
                f"{table} is no table yet, and the output has no column {key!r}, which is one of "
                f"delta/merge_keys; it has {names}. Nothing was written"
            )


def _spelled_keys(keys: Sequence[str], output: StructType) -> tuple[str, ...]:
    """Keys as the output spells them; what is none of its columns stays as it is."""

    def normalize(key: str) -> str:
        try:
            return find_named(output, key).name
        except UnknownColumnError:
            return key

    return tuple(map(normalize, keys))


def _inserted_columns(schema: StructType, settings: MergeSettings, table: str) -> StructType:
    """The columns that clauses insert as a whole."""
    inserts = [each for each in settings.clauses if each.then == "insert" and each.values is None]
    left_out = [frozenset(find_columns(schema, each.left_out)) for each in inserts]
    fields = tuple(f for f in schema.fields if any(f.name not in names for names in left_out))
    if not fields:
        raise InvalidRequestError(
            f"{table} is no table yet, and no clause of the merge inserts the columns of the "
            "output, by which it could be made; make it first, by "
            "delta_ops.ddl.create_table or by a run with delta/mode overwrite. Nothing was written"
        )
    return StructType(fields)


def _condition(
    settings: MergeSettings, among: Predicate | None, engine: MergeEngine
) -> ParsedCondition:
    """When rows meet."""
    keys = [
        f"{_name(settings.target_alias, key)} = {_name(settings.source_alias, key)}"
        for key in settings.keys
    ]
    parts = [engine.parse_own(each) for each in keys]
    if settings.predicate is not None:
        is_all = not parts and among is None
        parts.append(engine.parse(settings.predicate if is_all else f"({settings.predicate})"))
    if among is not None:
        parts.append(engine.parse_own(f"({predicate_text(among, settings.target_alias)})"))
    return parts[0] if len(parts) == 1 else engine.join(parts)


def _name(*parts: str) -> str:
    return ".".join(map(quote, parts))


def _clause(
    clause: MergeClause, settings: MergeSettings, among: Predicate | None, engine: MergeEngine
) -> Clause:
    conditions = [] if clause.condition is None else [engine.parse(f"({clause.condition})")]
    if among is not None and clause.when == "not matched by source":
        conditions.append(engine.parse_own(f"({predicate_text(among, settings.target_alias)})"))
    return Clause(
        occasion=clause.when,
        action=clause.then,
        updates=clause.values,
        predicate=engine.join(conditions) if conditions else None,
        except_columns=clause.left_out,
    )


def _source_rules(
    settings: MergeSettings, among: Predicate | None, partition_columns: Sequence[str]
) -> Iterator[SourceRule]:
    if among is not None:
        yield SourceRule(
            predicate=among,
            message=(
                "the output has rows that belong to none of the partitions of this run, and would "
                "meet none of the table's; filter them, or materialize their partitions, too"
            ),
        )
    if settings.is_upsert_by_keys:
        yield key_rule(settings.keys, "the output", partition_columns)
