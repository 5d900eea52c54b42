"""Changed rows: computes and writes the rows that delete, update and merge leave in files.

An unchanged row is written as it is and not checked against the rules. A changed row gets its new
values and the values derived from them. Its last-change version becomes null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.planning.missing_columns import generated_columns
from delta_ops.protocol.change_data import (
    CHANGE_DATA_DIRECTORY,
    CHANGE_TYPE_COLUMN,
    change_files,
    feed_definition,
)
from delta_ops.protocol.columns.identity import Counted
from delta_ops.protocol.row_rules import RowRule
from delta_ops.protocol.row_tracking import tracked_definition, version_column
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.casting import Misfit
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.generated_columns import generated_text
from delta_ops.spark.row_checks import (
    RowCheck,
    checked_rules,
    expression_checks,
    length_checks,
    null_checks,
    validate_expressions,
)
from delta_ops.spark.write.data_files import TableTarget, WrittenFiles, write_rows
from delta_ops.transaction.row_changes import Changed

CHANGED = "delta_ops changed"
"""Whether a row has new values; the space avoids table column names."""
_MISFIT = "delta_ops misfit "


def assign(
    rows: DataFrame,
    values: Mapping[str, Column],
    misfits: Sequence[Misfit],
    *kept: Column,
    first_misfit: int = 0,
) -> DataFrame:
    """Select the new columns and the flags for `misfit_checks`.

    Args:
        rows: Rows of a table.
        values: Values by column, in order.
        misfits: Conditions that a value does not fit.
        kept: Columns to add after the values.
        first_misfit: Number of misfits of other rows that are written in the same job.
    """
    columns = [value.alias(name) for name, value in values.items()]
    named = [each.is_broken.alias(f"{_MISFIT}{i}") for i, each in enumerate(misfits, first_misfit)]
    return rows.select(*columns, *kept, *named)


def misfit_checks(misfits: Sequence[Misfit], first_misfit: int = 0) -> list[RowCheck]:
    """Checks of the new values of rows from `assign`."""
    return [
        RowCheck(
            num_broken=sf.count_if(named_column(f"{_MISFIT}{i}")),
            message=each.message,
            error_class=each.error_class,
        )
        for i, each in enumerate(misfits, first_misfit)
    ]


def follow(
    rows: DataFrame,
    where_assigned: Callable[[str], Column | None],
    definition: TableDefinition,
    table: str,
) -> DataFrame:
    """Update generated columns and row versions where `CHANGED` is true.

    Args:
        where_assigned: Returns the condition that a column was assigned, by its lower-case name;
            None: never. An assigned generated column keeps its value.

    Raises:
        InvalidRequestError: Spark does not understand the expression of a generated column.
    """
    changed = named_column(CHANGED)

    def fill(column: str, value: Column) -> Column:
        assigned = where_assigned(column.lower())
        is_free = changed if assigned is None else changed & ~assigned
        return sf.when(is_free, value).otherwise(named_column(column))

    rules = generated_columns(definition)
    try:
        texts = {r.column: generated_text(r, definition, rows.sparkSession) for r in rules}
        filled = {name: fill(name, sf.expr(text)) for name, text in texts.items()}
        rows = rows.withColumns(filled) if filled else rows
    except (PySparkException, Py4JJavaError):
        validate_expressions(rules, definition, rows.sparkSession, table)  # the better error
        raise
    version = version_column(definition, table)
    if version is None or version not in rows.columns:
        return rows
    return rows.withColumn(version, sf.when(~changed, named_column(version)))


def pin(rows: DataFrame) -> DataFrame:
    """Compute the rows once and keep them on the executors.

    If an executor is lost, the job fails. It never continues with other rows.
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
    """Write rows of a table and add their files to the change.

    Args:
        changed: The change.
        rows: With the columns of `tracked_definition`. Rows without its id columns are new rows.
        checks: Checks in addition to the rules of the table.
        figures: Aggregates to compute over the rows, by name.
        counted: Returns the generated identity values, from the figures.
        among: Condition for rows to check against the table's rules. None: all rows are known to
            satisfy them.

    Raises:
        InvalidRequestError: A row breaks a rule, or the rows cannot be computed.
        StorageError: The store failed.
    """
    flagged = write_with_flags(changed, rows, checks, figures, among=among)
    changed.add(flagged.written.adds, flagged.checked, counted(flagged.written.figures))
    return flagged.written


class WrittenWithFlags(NamedTuple):
    """Written files that are not yet part of a change."""

    written: WrittenFiles
    checked: Sequence[RowRule]
    """Rules that the rows satisfy."""


def write_with_flags(
    changed: Changed,
    rows: DataFrame,
    checks: Sequence[RowCheck],
    figures: Mapping[str, Column],
    *,
    among: Column | None,
) -> WrittenWithFlags:
    """Write rows as `write_changed` does; the caller then adds or discards the files."""
    target = changed.target
    definition, table = target.definition, target.table
    stored = tracked_definition(definition, table)
    if not set(stored.schema.fields_by_lower_name) <= {name.lower() for name in rows.columns}:
        stored = definition
    all_checks = [*checks]
    if among is not None:
        all_checks += null_checks(definition.schema, among)
        all_checks += length_checks(definition.schema, among)
        all_checks += expression_checks(definition, rows.sparkSession, table, among=among)
    place = TableTarget(storage=target.storage, definition=stored, clustered_by=target.clustered_by)
    written = write_rows(rows, all_checks, place, target.on_event, figures)
    rules = definition.row_rules if among is None else checked_rules(all_checks)
    return WrittenWithFlags(written, tuple(rules))


def record_row_changes(changed: Changed, parts: Sequence[tuple[str, DataFrame]]) -> None:
    """Write rows to the change data feed.

    Args:
        changed: The change that includes these rows.
        parts: Rows with the table's columns, each with its change type.
    """
    target = changed.target
    names = [named_column(each.name) for each in target.definition.schema.fields]
    marked = (
        rows.select(*names, sf.lit(change).alias(CHANGE_TYPE_COLUMN)) for change, rows in parts
    )
    together = reduce(DataFrame.unionAll, marked)
    place = TableTarget(
        storage=target.storage,
        definition=feed_definition(target.definition),
        directory=CHANGE_DATA_DIRECTORY,
    )
    changed.record(change_files(write_rows(together, (), place, target.on_event).adds))


def figure_of(written: WrittenFiles, name: str) -> int:
    """A count from the figures; 0 if there were no rows."""
    value: Any = written.figures.get(name)
    return int(value or 0)
