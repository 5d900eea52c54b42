"""Public verbs of the Spark engine: each builds a request and calls `transaction`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from pyspark.sql import Column, DataFrame, SparkSession

from delta_ops.arguments import shares_options, validate_arguments
from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.spark.engine import SparkEngine, engine_of
from delta_ops.spark.expressions.conditions import (
    SparkCondition,
    text_of_predicate,
    validate_times,
)
from delta_ops.spark.schema import data_schema_from_spark
from delta_ops.transaction import CommitResult, Staged, requests
from delta_ops.transaction.dml import delete_rows, update_rows
from delta_ops.transaction.engine import CheckRows
from delta_ops.transaction.merge import Merge
from delta_ops.transaction.requests import Mode, Target
from delta_ops.transaction.write import stage_rows, write_rows


@shares_options(requests.WriteRequest)
def write(
    df: DataFrame,
    target: Target,
    mode: Mode = "append",
    partition_by: Sequence[str] | None = None,
    *,
    replace_where: Predicate | Expression | Column | str | None = None,
    **options: Unpack[requests.WriteOptions],
) -> CommitResult:
    """Write rows and commit; creates the table if it does not exist.

    Args:
        df: Rows; the DataFrame may read the table itself.
        target: Location of the table, or a transaction to add to and commit.
        replace_where: The rows that an overwrite replaces: a predicate, its text in Spark SQL, or
            a Column that compares columns with values. All rows of the data must match it.

    Examples:
        >>> ds.write(spark.range(3), "lake/numbers").version
        0
        >>> even = spark.sql("SELECT id FROM range(10) WHERE id % 2 = 0")
        >>> ds.write(even, "lake/numbers", mode="overwrite").version
        1
    """
    replaced = text_of_predicate(replace_where)
    if isinstance(replaced, str):
        validate_times(replaced, df.sparkSession, data_schema_from_spark(df.schema))
    request = requests.write_request(target, mode, partition_by, replaced, options)
    return write_rows(engine_of(df), df, request)


@shares_options(requests.CommitRequest)
def stage_write(
    df: DataFrame,
    target: Target,
    partition_by: Sequence[str] | None = None,
    **options: Unpack[requests.TableOptions],
) -> Staged:
    """Write the data files of an append without a commit.

    Args:
        df: As for `write`.
        target: Location of an existing table, or a transaction that creates the table.
        partition_by: The partitioning of the table, or None.

    Raises:
        InvalidRequestError: The data do not fit the table.
        TableNotFoundError: The table does not exist.

    Examples:
        >>> transaction = begin("lake/orders")
        >>> transaction.stage(ds.stage_write(ds.read(spark, "lake/orders"), transaction))
        >>> transaction.commit(operation="WRITE").version
        1
    """
    request = requests.WriteRequest(target=target, partition_by=partition_by, **options)
    return stage_rows(engine_of(df), df, request)


@shares_options(requests.DeleteRequest)
def delete(
    spark: SparkSession,
    target: Target,
    predicate: Predicate | Expression | Column | str | None = None,
    *,
    target_alias: str | None = None,
    **options: Unpack[requests.CommitOptions],
) -> CommitResult:
    """Delete the rows that match a predicate, and commit.

    A file is not opened if partition values or statistics show that all of its rows match. If no
    row matches, nothing is committed, and the version of the result is None.

    Args:
        spark: The session that runs the jobs.
        target: Location of the table, or a transaction to add to and commit.
        predicate: From `col` or `parse_predicate`, an expression, a Spark SQL string or a Column.
            None: all rows.
        target_alias: The name of the table in the predicate.

    Raises:
        InvalidRequestError: The predicate does not fit the table, or the table is append-only.
        TableNotFoundError: The table does not exist.

    Examples:
        >>> ds.delete(spark, "lake/orders", "price > 15").metrics["numDeletedRows"]
        2
    """
    return delete_rows(
        SparkEngine(spark),
        requests.DeleteRequest(
            target=target, predicate=predicate, target_alias=target_alias, **options
        ),
    )


@shares_options(requests.UpdateRequest)
def update(
    spark: SparkSession,
    target: Target,
    assignments: Mapping[str, Any],
    predicate: Predicate | Expression | Column | str | None = None,
    *,
    target_alias: str | None = None,
    **options: Unpack[requests.CommitOptions],
) -> CommitResult:
    """Set columns to new values in the rows that match a predicate, and commit.

    If no row matches, nothing is committed, and the version of the result is None.

    Args:
        spark: The session that runs the jobs.
        target: Location of the table, or a transaction to add to and commit.
        assignments: New value by column: a Spark SQL string over the old values of the row, such
            as `"price * 2"`, an expression, a Column, or a Python value of another type.
            `lit("text")` is a string, None is null.
        predicate: As for `delete`.
        target_alias: The name of the table in predicate and assignments.

    Raises:
        InvalidRequestError: An argument does not fit the table, a value overflows, a row would
            break a rule of the table, or the table is append-only.
        TableNotFoundError: The table does not exist.

    Examples:
        >>> ds.update(spark, "lake/orders", {"price": "price * 2"}, "country = 'BE'").version
        1
        >>> ds.read(spark, "lake/orders").where("id = 2").first()["price"]
        40.0
    """
    request = requests.UpdateRequest(
        target=target,
        assignments=assignments,
        predicate=predicate,
        target_alias=target_alias,
        **options,
    )
    return update_rows(SparkEngine(spark), request)


@shares_options(requests.MergeRequest)
def merge(
    target: Target,
    source: DataFrame,
    predicate: Predicate | Expression | Column | str,
    **options: Unpack[requests.MergeOptions],
) -> Merge:
    """Begin a merge of rows into a table; add clauses to it, then call `execute`.

        ds.merge(target, df, "target.id = source.id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()

    The source is computed once, by `execute`, and kept by the executors until the merge ends.

    Args:
        target: Location of the table, or a transaction to add to and commit.
        source: Rows to merge.
        predicate: Condition for a match of a target row and a source row: a Spark SQL string, a
            predicate, an expression or a Column. Files are skipped if it has equalities of target
            and source columns, joined by AND.

    Examples:
        >>> rows = spark.sql("SELECT 3L AS id, 'LU' AS country, 35D AS price")
        >>> merge = ds.merge("lake/orders", rows, "target.id = source.id")
        >>> merge.when_matched_update_all().when_not_matched_insert_all().execute().version
        1
    """
    return begin_merge(SparkEngine(source.sparkSession), target, source, predicate, options)


def begin_merge(
    engine: SparkEngine,
    target: Target,
    source: DataFrame,
    predicate: SparkCondition | Predicate | Expression | Column | str,
    options: requests.MergeOptions,
) -> Merge:
    """See `merge`.

    Raises:
        InvalidRequestError: The source is a stream, or the predicate cannot be parsed.
    """
    if source.isStreaming:
        raise InvalidRequestError("merge a streaming DataFrame batch by batch with foreachBatch")
    with naming_table(requests.name_of(target)):
        condition = engine.parse_condition(predicate)
    return Merge(
        engine, requests.MergeRequest(target=target, source=source, predicate=condition, **options)
    )


def rewrite(spark: SparkSession) -> SparkEngine:
    """Return the Spark engine for `optimize`, `purge` and `maintain`.

    Called as a function, it rewrites one group. It raises `InvalidRequestError` if an input file is
    missing or cannot be read, or if a row breaks a rule of the table. It raises `StorageError` if
    the store fails. In both cases it deletes the files that it wrote.

    Examples:
        >>> from delta_ops.maintenance import optimize
        >>> _ = da.write("lake/orders", da.to_table("lake/orders"))
        >>> optimize("lake/orders", engine=ds.rewrite(spark)).files_removed
        2
    """
    validate_arguments(rewrite, locals())
    return SparkEngine(spark)


def check_rows(spark: SparkSession) -> CheckRows:
    """Return the Spark engine for `ddl.add_constraint` and `ddl.set_not_null`.

    The returned function raises `InvalidRequestError` if a row breaks a rule. It also does so if a
    condition needs more than the table's columns, or if its result depends on the session.

    Examples:
        >>> from delta_ops import ddl
        >>> rule = "regexp_like(country, '[A-Z]{2}')"  # only Spark evaluates it
        >>> ddl.add_constraint("lake/orders", "code", rule, engine=ds.check_rows(spark)).version
        1
    """
    validate_arguments(check_rows, locals())
    return SparkEngine(spark).check_rows
