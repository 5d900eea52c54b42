"""Output merge: merges the rows of an output into its table, as `MergeSettings` describe.

If the asset has partitions, a merge changes only rows of the run's partitions. Table rows of other
partitions match no source row and do not count as "not matched by source". Output rows of other
partitions are rejected.

The commit of the first merge also creates the table, so a rejected or killed merge leaves no table
behind. If several first merges race, one creates the table. The other merges continue on this
table, unless an earlier commit may have added rows that match their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.orchestration.io_manager.merge_settings import MergeClause, MergeSettings
from delta_ops.orchestration.io_manager.type_handlers import is_spark_data, schema_of_rows
from delta_ops.planning.definition import define_table
from delta_ops.protocol.expression import parse_expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.column_names import find_columns, find_named, quote
from delta_ops.transaction import CommitResult, Hook, Transaction, Txn
from delta_ops.transaction.engine import Condition, Engine
from delta_ops.transaction.merge import Merge
from delta_ops.transaction.requests import Clause, MergeRequest
from delta_ops.transaction.source_rules import SourceRule, key_rule
from delta_ops.transaction.write import validate_partitioning


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMerge:
    """How the rows of an output are merged."""

    settings: MergeSettings
    txns: Sequence[Txn]
    """The identities of the merge."""
    among: Predicate | None
    """The rows of the table that may change; None for all rows."""
    merge_schema: bool
    partition_by: Sequence[str] | None
    """Partition columns of a new table."""
    configuration: Mapping[str, str] | None
    """Table properties of a new table."""
    user_metadata: str | None
    hooks: Sequence[Hook]


def merge_rows(transaction: Transaction, rows: Any, merge: OutputMerge) -> CommitResult:
    """Merge rows into a table and commit. A missing table is created by the same commit.

    Args:
        rows: Rows from `rows_of`.

    Raises:
        InvalidRequestError: There is no table, and no clause inserts columns of the output; or as
            for `delta_ops.arrow.merge`.
    """
    engine, columns = _engine_of(rows), schema_of_rows(rows)
    settings = replace(merge.settings, keys=_spelled_keys(merge.settings.keys, columns))
    _validate_keys(settings.keys, columns, transaction.log.uri)
    merge = replace(merge, settings=settings)
    condition = _condition(settings, merge.among, engine)
    clauses = [_clause(each, settings, merge.among, engine) for each in settings.clauses]
    if transaction.snapshot is None:
        _define_table(transaction, columns, merge)
    else:
        validate_partitioning(transaction.definition, merge.partition_by, transaction.log.uri)
    transaction.is_of_one_change = True
    for txn in merge.txns:
        transaction.set_transaction(txn)
    partition_columns = transaction.definition.partition_columns
    request = MergeRequest(
        target=transaction,
        source=rows,
        predicate=condition,
        source_alias=settings.source_alias,
        target_alias=settings.target_alias,
        merge_schema=merge.merge_schema,
        clauses=clauses,
        user_metadata=merge.user_metadata,
        hooks=merge.hooks,
        on_event=transaction.on_event,
        source_rules=list(_source_rules(settings, merge.among, partition_columns)),
    )
    return Merge(engine, request).execute()


def _define_table(transaction: Transaction, columns: StructType, merge: OutputMerge) -> None:
    """Create the table in the transaction, with the columns that the clauses insert."""
    schema = _inserted_columns(columns, merge.settings, transaction.log.uri)
    define_table(
        transaction,
        schema,
        partition_by=merge.partition_by or (),
        properties=merge.configuration,
    )


def _engine_of(rows: Any) -> Engine:
    if is_spark_data(rows):
        from delta_ops.spark.engine import SparkEngine

        return SparkEngine(rows.sparkSession)
    from delta_ops.arrow.engine import ARROW

    return ARROW


def _validate_keys(keys: Sequence[str], output: StructType, table: str) -> None:
    """Reject keys that the output lacks.

    Raises:
        InvalidRequestError: The output lacks a key.
    """
    for key in keys:
        if key.lower() not in output.fields_by_lower_name:
            names = ", ".join(each.name for each in output.fields) or "no columns"
            raise InvalidRequestError(
                f"{table}: the output lacks the column {key!r} of delta/merge_keys; it has "
                f"{names}. Nothing was written"
            )


def _spelled_keys(keys: Sequence[str], output: StructType) -> tuple[str, ...]:
    """The keys as the output spells them; an unknown key stays unchanged."""

    def normalize(key: str) -> str:
        try:
            return find_named(output, key).name
        except UnknownColumnError:
            return key

    return tuple(map(normalize, keys))


def _inserted_columns(schema: StructType, settings: MergeSettings, table: str) -> StructType:
    """The columns that the inserting clauses take from the output."""
    inserts = [each for each in settings.clauses if each.then == "insert" and each.values is None]
    left_out = [frozenset(find_columns(schema, each.left_out)) for each in inserts]
    fields = tuple(f for f in schema.fields if any(f.name not in names for names in left_out))
    if not fields:
        raise InvalidRequestError(
            f"{table} does not exist yet, and no clause of the merge inserts all columns of the "
            "output, so the table cannot be created; create it first, with "
            "delta_ops.ddl.create_table or a run with delta/mode overwrite. Nothing was written"
        )
    return StructType(fields)


def _condition(settings: MergeSettings, among: Predicate | None, engine: Engine) -> Condition:
    """The match condition: keys, predicate and partitions, joined by AND."""
    keys = [
        f"{_name(settings.target_alias, key)} = {_name(settings.source_alias, key)}"
        for key in settings.keys
    ]
    parts = [engine.parse_condition(parse_expression(each)) for each in keys]
    if settings.predicate is not None:
        is_all = not parts and among is None
        parts.append(
            engine.parse_condition(settings.predicate if is_all else f"({settings.predicate})")
        )
    if among is not None:
        parts.append(_partition_condition(among, settings, engine))
    return parts[0] if len(parts) == 1 else engine.join_conditions(parts)


def _partition_condition(among: Predicate, settings: MergeSettings, engine: Engine) -> Condition:
    text = predicate_text(among, settings.target_alias)
    return engine.parse_condition(parse_expression(f"({text})"))


def _name(*parts: str) -> str:
    return ".".join(map(quote, parts))


def _clause(
    clause: MergeClause, settings: MergeSettings, among: Predicate | None, engine: Engine
) -> Clause:
    conditions = (
        [] if clause.condition is None else [engine.parse_condition(f"({clause.condition})")]
    )
    if among is not None and clause.when == "not matched by source":
        conditions.append(_partition_condition(among, settings, engine))
    return Clause(
        kind=clause.when,
        action=clause.then,
        updates=clause.values,
        predicate=engine.join_conditions(conditions) if conditions else None,
        except_columns=clause.left_out,
    )


def _source_rules(
    settings: MergeSettings, among: Predicate | None, partition_columns: Sequence[str]
) -> Iterator[SourceRule]:
    if among is not None:
        yield SourceRule(
            predicate=among,
            message=(
                "the output has rows outside the partitions of this run, which the merge would "
                "not match with rows of the table; filter them, or materialize their partitions "
                "too"
            ),
        )
    if settings.is_upsert_by_keys:
        yield key_rule(settings.keys, "the output", partition_columns)
