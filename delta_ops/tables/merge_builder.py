"""DeltaMergeBuilder: delta-spark's builder for merges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.log import DeltaLog
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.column_names import name_of_column
from delta_ops.spark.delta_format.store_assignment import assign_value
from delta_ops.spark.engine import SparkEngine
from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.expressions.conditions import SparkCondition
from delta_ops.spark.session.settings import reset_txn, session_settings, txn_of
from delta_ops.spark.verbs import begin_merge
from delta_ops.spark.versions import is_connect
from delta_ops.tables.argument_checks import ColumnOrText, check_assignments, check_condition
from delta_ops.tables.exceptions import translating
from delta_ops.tables.frames import merge_frame
from delta_ops.transaction.merge import Merge
from delta_ops.transaction.requests import MergeOptions

_NO_NAME = "delta_ops {} without alias"
"""Name of a side without an alias; no user name equals it, because of the spaces."""
_UNRESOLVED = "DELTA_MERGE_UNRESOLVED_EXPRESSION"
"""The reference's error class of a merge with an unknown column."""
_KEEPING = frozenset(
    {
        "Deduplicate",
        "Drop",
        "DropNa",
        "FillNa",
        "Filter",
        "Hint",
        "Limit",
        "Offset",
        "Repartition",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "WithColumns",
    }
)
"""Connect plans whose columns keep the alias of their input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The columns of target and source when a merge is executed."""

    target: StructType
    source: tuple[str, ...]
    structs: tuple[str, ...]
    """Struct columns that replace the source's aliases."""
    adds_columns: bool

    def left_out(self) -> tuple[str, ...]:
        """Source columns to pass as `except_cols`, so that the merge does not add them."""
        known = self.target.fields_by_lower_name
        if self.adds_columns:
            names = self.structs
        else:
            names = (*self.structs, *(c for c in self.source if c.lower() not in known))
        return tuple(map(name_of_column, names))

    def validate_all(self, table: str) -> None:
        """Reject a source that lacks columns of the table, if a clause sets all columns."""
        names = {each.lower() for each in self.source}
        lacking = [each.name for each in self.target.fields if each.name.lower() not in names]
        if lacking and not self.adds_columns:
            raise InvalidRequestError(
                f"{table}: the source has no column {', '.join(lacking)}, but all columns of the "
                "table are set from the source; add it to the source, or name the columns to set",
                _UNRESOLVED,
            )


Clause = Callable[[Merge, Sides, str], Merge]
"""Adds a clause to a merge; takes the merge, the columns, and the table's name for errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """The merge that the builder has collected so far."""

    spark: SparkSession
    log: DeltaLog
    alias: str | None
    source: DataFrame
    condition: SparkCondition
    clauses: tuple[Clause, ...] = ()
    adds_columns: bool = False


class DeltaMergeBuilder:
    """A merge that collects clauses before `execute`. Each step returns a new builder.

    For each row, the first clause with a true condition applies. Conditions and values are Spark
    SQL text or Columns.

    Examples:
        >>> rows = spark.sql("SELECT 3L AS id, 'LU' AS country, 35D AS price")
        >>> table = DeltaTable.forPath(spark, "lake/orders").alias("t")
        >>> merge = table.merge(rows.alias("s"), "t.id = s.id").whenMatchedUpdateAll()
        >>> merge.whenNotMatchedInsertAll().execute().first()["num_updated_rows"]
        1
    """

    def __init__(self, request: MergeRequest) -> None:
        self._request = request

    def whenMatchedUpdate(
        self,
        condition: ColumnOrText | None = None,
        set: dict[str, ColumnOrText] | None = None,
    ) -> DeltaMergeBuilder:
        """Set columns in target rows that match a source row."""
        values = check_assignments(set, "'set' in whenMatchedUpdate")
        checked = check_condition(condition)
        return self._add(lambda merge, _, __: merge.when_matched_update(values, checked))

    def whenMatchedUpdateAll(self, condition: ColumnOrText | None = None) -> DeltaMergeBuilder:
        """Set all columns to the source's values in target rows that match a source row."""
        checked = check_condition(condition)

        def add(merge: Merge, sides: Sides, table: str) -> Merge:
            sides.validate_all(table)
            return merge.when_matched_update_all(checked, sides.left_out())

        return self._add(add)

    def whenMatchedDelete(self, condition: ColumnOrText | None = None) -> DeltaMergeBuilder:
        """Delete target rows that match a source row."""
        checked = check_condition(condition)
        return self._add(lambda merge, _, __: merge.when_matched_delete(checked))

    def whenNotMatchedInsert(
        self,
        condition: ColumnOrText | None = None,
        values: dict[str, ColumnOrText] | None = None,
    ) -> DeltaMergeBuilder:
        """Insert source rows without a matching target row; unnamed columns become null."""
        checked_values = check_assignments(values, "'values' in whenNotMatchedInsert")
        checked = check_condition(condition)
        return self._add(
            lambda merge, _, __: merge.when_not_matched_insert(checked_values, checked)
        )

    def whenNotMatchedInsertAll(self, condition: ColumnOrText | None = None) -> DeltaMergeBuilder:
        """Insert source rows without a matching target row, with all their columns."""
        checked = check_condition(condition)

        def add(merge: Merge, sides: Sides, table: str) -> Merge:
            sides.validate_all(table)
            return merge.when_not_matched_insert_all(checked, sides.left_out())

        return self._add(add)

    def whenNotMatchedBySourceUpdate(
        self,
        condition: ColumnOrText | None = None,
        set: dict[str, ColumnOrText] | None = None,
    ) -> DeltaMergeBuilder:
        """Set columns in target rows without a matching source row."""
        values = check_assignments(set, "'set' in whenNotMatchedBySourceUpdate")
        checked = check_condition(condition)
        return self._add(
            lambda merge, _, __: merge.when_not_matched_by_source_update(values, checked)
        )

    def whenNotMatchedBySourceDelete(
        self, condition: ColumnOrText | None = None
    ) -> DeltaMergeBuilder:
        """Delete target rows without a matching source row."""
        checked = check_condition(condition)
        return self._add(lambda merge, _, __: merge.when_not_matched_by_source_delete(checked))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add source columns that the table lacks, if a clause sets them."""
        return DeltaMergeBuilder(replace(self._request, adds_columns=True))

    @translating
    def execute(self) -> DataFrame:
        """Merge and commit; returns the numbers of updated, deleted and inserted rows."""
        request = self._request
        settings, txn = session_settings(request.spark), txn_of(request.spark)
        adds_columns = request.adds_columns or settings.merge_schema
        source, alias, structs = _source_of(request)
        options: MergeOptions = {
            "target_alias": request.alias or _NO_NAME.format("target"),
            "source_alias": alias or _NO_NAME.format("source"),
            "merge_schema": adds_columns,
            "txn": txn,
            "user_metadata": settings.user_metadata,
        }
        engine = SparkEngine(source.sparkSession, fit_value=assign_value)
        merge = begin_merge(engine, request.log, source, request.condition, options)
        sides = Sides(
            target=request.log.snapshot().schema,
            source=tuple(each for each in source.columns if each not in structs),
            structs=structs,
            adds_columns=adds_columns,
        )
        for clause in request.clauses:
            merge = clause(merge, sides, request.log.uri)
        try:
            metrics = merge.execute().metrics
        except UnknownColumnError as error:
            raise InvalidRequestError(error.message, _UNRESOLVED) from error
        if txn is not None:
            reset_txn(request.spark)
        return merge_frame(request.spark, metrics)

    def _add(self, clause: Clause) -> DeltaMergeBuilder:
        request = self._request
        return DeltaMergeBuilder(replace(request, clauses=(*request.clauses, clause)))


def _source_of(request: MergeRequest) -> tuple[DataFrame, str | None, tuple[str, ...]]:
    """The source with at most one alias.

    Returns:
        The source, its alias or None, and the names of struct columns. If the source has several
        aliases, each becomes a struct column with the columns of the alias.
    """
    aliases = columns_by_alias(request.source)
    if len(aliases) < 2:
        return request.source, next(iter(aliases), None), ()
    if request.alias is not None and request.alias.lower() in map(str.lower, aliases):
        raise InvalidRequestError(
            f"{request.log.uri}: the table and a part of the source are both called "
            f"{request.alias}; give one of them another alias"
        )
    named = name_as_structs(request.source, aliases)
    return named, None, tuple(each for each in named.columns if each in aliases)


def builder_of_merge(
    spark: SparkSession, log: DeltaLog, alias: str | None, source: Any, condition: Any
) -> DeltaMergeBuilder:
    """Begin a merge without clauses.

    Args:
        alias: The table's name in conditions.
    """
    if source is None:
        raise ValueError("'source' in merge cannot be None; give a DataFrame")
    if not isinstance(source, DataFrame):
        raise TypeError(
            f"'source' in merge must be DataFrame; it is of type {type(source).__name__}"
        )
    checked = check_condition(condition)
    if checked is None:
        raise ValueError("'condition' in merge cannot be None; give a SQL string or a Column")
    return DeltaMergeBuilder(
        MergeRequest(spark=spark, log=log, alias=alias, source=source, condition=checked)
    )


def columns_by_alias(rows: DataFrame) -> dict[str, list[str]]:
    """The columns of each alias, in order; columns without an alias are left out.

    On Spark Connect, an alias is found only if it covers all columns.
    """
    if is_connect(rows.sparkSession):
        alias = _alias_in_plan(rows)
        return {} if alias is None else {alias: rows.columns}
    found: dict[str, list[str]] = {}
    for qualifier, columns in columns_by_qualifier(rows).items():
        found.setdefault(qualifier[-1], []).extend(columns)
    return found


def columns_by_qualifier(rows: DataFrame) -> dict[tuple[str, ...], list[str]]:
    """The columns of each table by its name with its catalog and database; not on Connect.

    A table with an alias has only this name. Columns without a table are left out.
    """
    columns = rows._jdf.queryExecution().analyzed().output()
    found: dict[tuple[str, ...], list[str]] = {}
    for i in range(columns.length()):
        column = columns.apply(i)
        qualifier = column.qualifier().mkString("\0")
        if qualifier:  # an added column has none
            found.setdefault(tuple(qualifier.split("\0")), []).append(column.name())
    return found


def _alias_in_plan(rows: DataFrame) -> str | None:
    plan: Any = rows._plan
    while type(plan).__name__ in _KEEPING:
        plan = plan._child
    return plan._alias if type(plan).__name__ == "SubqueryAlias" else None


def name_as_structs(rows: DataFrame, aliases: Mapping[str, Sequence[str]]) -> DataFrame:
    """Add a struct column for each alias, so that names still resolve if the aliases are lost.

    `a.id` then is a field of the struct `a`, next to the plain columns. If several aliases have a
    column of the same name, only their structs contain it, because the plain name would be
    ambiguous.

    Args:
        aliases: Result of `columns_by_alias`.
    """
    names = [name.lower() for name in rows.columns]
    plain = [quote(each) for each in rows.columns if names.count(each.lower()) == 1]
    structs = [
        sf.struct(*(f"{quote(alias)}.{quote(name)}" for name in columns)).alias(alias)
        for alias, columns in aliases.items()
        if alias.lower() not in names
    ]
    return rows.select(*plain, *structs)
