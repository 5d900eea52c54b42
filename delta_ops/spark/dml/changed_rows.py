"""Changed rows: the rows of files as delete, update and merge leave them, and how they are written.

A row that stays as it is is written as it was and held against no rule. A row that changes gets its
new values, what follows from these, and nothing in the column of the version that changed it last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.protocol.change_data import (
    CHANGE_DATA_DIRECTORY,
    CHANGE_TYPE_COLUMN,
    change_files,
    feed_definition,
)
from delta_ops.protocol.columns.identity import Counted
from delta_ops.protocol.row_rules import Generated, RowRule
from delta_ops.protocol.row_tracking import tracked_definition, version_column
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.row_checks import (
    RowCheck,
    checked_rules,
    expression_checks,
    generated_text,
    length_checks,
    null_checks,
)
from delta_ops.spark.write.data_files import TableTarget, WrittenFiles, write_rows
from delta_ops.spark.write.table_columns import Misfit
from delta_ops.transaction.row_changes import Changed

CHANGED = "delta_ops changed"
"""Whether a row has new values; no table's name, for the space."""
_MISFIT = "delta_ops misfit "


def assign(
    rows: DataFrame,
    values: Mapping[str, Column],
    misfits: Sequence[Misfit],
    *kept: Column,
    first_misfit: int = 0,
) -> DataFrame:
    """The rows with these columns, and what `misfit_checks` looks at.

    Args:
        rows: Rows of a table.
        values: By column, in order.
        misfits: Whether one of them does not fit.
        kept: Columns that stand behind them.
        first_misfit: How many misfits other rows have that are written with them.
    """
    columns = [value.alias(name) for name, value in values.items()]
    told = [each.alias(f"{_MISFIT}{i}") for i, (each, _) in enumerate(misfits, first_misfit)]
    return rows.select(*columns, *kept, *told)


def misfit_checks(misfits: Sequence[Misfit], first_misfit: int = 0) -> list[RowCheck]:
    """Checks of rows that `assign` gave new values."""
    return [
        RowCheck(num_broken=sf.count_if(named_column(f"{_MISFIT}{i}")), message=message)
        for i, (_, message) in enumerate(misfits, first_misfit)
    ]


def follow(
    rows: DataFrame,
    where_assigned: Callable[[str], Column | None],
    definition: TableDefinition,
    table: str,
) -> DataFrame:
    """The rows with what follows from new values, where `CHANGED` is true.

    Args:
        where_assigned: Where a column was given values, by its name in lower case; None: nowhere.
            A generated one keeps them.
    """
    changed = named_column(CHANGED)

    def fill(rule: Generated) -> Column:
        given = where_assigned(rule.column.lower())
        is_free = changed if given is None else changed & ~given
        text = sf.expr(generated_text(rule, definition))
        return sf.when(is_free, text).otherwise(named_column(rule.column))

    made = {rule.column: fill(rule) for rule in definition.row_rules if isinstance(rule, Generated)}
    rows = rows.withColumns(made) if made else rows
    version = version_column(definition, table)
    if version is None or version not in rows.columns:
        return rows
    return rows.withColumn(version, sf.when(~changed, named_column(version)))


def pin(rows: DataFrame) -> DataFrame:
    """The rows, computed once and kept by the executors.

    Whoever loses an executor fails, and does not get other rows.
    """
    return rows.localCheckpoint(eager=False)


def write_changed(
    changed: Changed,
    rows: DataFrame,
    checks: Sequence[RowCheck] = (),
    figures: Mapping[str, Column] = {},
    *,
    counted: Callable[[Mapping[str, Any]], tuple[Counted, ...]] = lambda _: (),
    among: Column | None,
) -> WrittenFiles:
    """Write rows of a table and add their files.

    Args:
        changed: The change that they are part of.
        rows: With the columns of `tracked_definition`; where they lack those of ids, the rows are
            new ones.
        checks: Beside the rules of the table.
        figures: Aggregates to compute over the rows, by name.
        counted: The values of identity columns that were taken, by the figures.
        among: Rows that are held against the table's rules; None: none, all have kept them.

    Raises:
        InvalidRequestError: A row breaks a rule, or the rows cannot be computed.
        StorageError: The store failed.
    """
    beside = write_beside(changed, rows, checks, figures, among=among)
    changed.add(beside.written.adds, beside.checked, counted(beside.written.figures))
    return beside.written


class WrittenBeside(NamedTuple):
    """Files that are written, and not yet part of a change."""

    written: WrittenFiles
    checked: Sequence[RowRule]
    """The rules that their rows keep."""


def write_beside(
    changed: Changed,
    rows: DataFrame,
    checks: Sequence[RowCheck],
    figures: Mapping[str, Column],
    *,
    among: Column | None,
) -> WrittenBeside:
    """Write rows of a table, to add their files or to discard them; else as `write_changed`."""
    transaction, definition = changed.transaction, changed.transaction.definition
    table = transaction.log.uri
    stored = tracked_definition(definition, table)
    if not set(stored.schema.fields_by_lower_name) <= {name.lower() for name in rows.columns}:
        stored = definition
    all_checks = [*checks]
    if among is not None:
        all_checks += null_checks(definition.schema, among)
        all_checks += length_checks(definition.schema, among)
        all_checks += expression_checks(definition, rows.sparkSession, table, among=among)
    target = TableTarget(
        storage=transaction.log.storage,
        definition=stored,
        clustered_by=transaction.clustering_columns,
    )
    written = write_rows(rows, all_checks, target, transaction.on_event, figures)
    rules = definition.row_rules if among is None else checked_rules(all_checks)
    return WrittenBeside(written, tuple(rules))


def tell_rows(changed: Changed, parts: Sequence[tuple[str, DataFrame]]) -> None:
    """Tell readers of the change data feed of rows.

    Args:
        changed: The change that they are part of.
        parts: Rows with the table's columns, by what became of them.
    """
    transaction, definition = changed.transaction, changed.transaction.definition
    names = [named_column(each.name) for each in definition.schema.fields]
    marked = (
        rows.select(*names, sf.lit(change).alias(CHANGE_TYPE_COLUMN)) for change, rows in parts
    )
    together = reduce(DataFrame.unionAll, marked)
    target = TableTarget(
        storage=transaction.log.storage,
        definition=feed_definition(definition),
        directory=CHANGE_DATA_DIRECTORY,
    )
    changed.tell(change_files(write_rows(together, (), target, transaction.on_event).adds))


def figure_of(written: WrittenFiles, name: str) -> int:
    """A count among the figures; 0 where there were no rows."""
    value: Any = written.figures.get(name)
    return int(value or 0)
