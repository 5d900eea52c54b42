"""Public functions of the Arrow engine: each builds a request and calls `transaction`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from delta_ops.arguments import shares_options
from delta_ops.arrow.arrow_data import ArrowData
from delta_ops.arrow.engine import ARROW
from delta_ops.errors import naming_table
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction import CommitResult, Staged, requests
from delta_ops.transaction.dml import delete_rows, update_rows
from delta_ops.transaction.merge import Merge
from delta_ops.transaction.requests import Mode, Target
from delta_ops.transaction.write import stage_rows, write_rows


@shares_options(requests.WriteRequest)
def write(
    target: Target,
    data: Any,
    mode: Mode = "append",
    partition_by: Sequence[str] | None = None,
    *,
    replace_where: Predicate | Expression | str | None = None,
    **options: Unpack[requests.WriteOptions],
) -> CommitResult:
    """Write rows and commit; creates the table if it does not exist.

    Args:
        target: Location of the table, or a transaction to add to and commit.
        data: An Arrow table, batch or reader, or anything with `__arrow_c_stream__`.
        replace_where: The rows that an overwrite replaces: a predicate or a Spark SQL string.
            All rows of the data must match it.

    Examples:
        >>> rows = pa.table({"page": ["/", "/shop"], "visits": [7, 3]})
        >>> da.write("lake/visits", rows, partition_by=["page"]).version
        0
        >>> new = pa.table({"page": ["/"], "visits": [8]})
        >>> da.write("lake/visits", new, mode="overwrite", replace_where=col("page") == "/").version
        1
        >>> da.write("lake/visits", rows, txn=("nightly", 1)).version
        2
        >>> da.write("lake/visits", rows, txn=("nightly", 1)).already_committed
        True
    """
    request = requests.write_request(target, mode, partition_by, replace_where, options)
    return write_rows(ARROW, ArrowData(data), request)


@shares_options(requests.CommitRequest)
def stage_write(
    target: Target,
    data: Any,
    partition_by: Sequence[str] | None = None,
    **options: Unpack[requests.TableOptions],
) -> Staged:
    """Write the data files of an append and commit nothing.

    Args:
        target: Location of an existing table, or a transaction that creates the table.
        data: As for `write`.
        partition_by: The partitioning of the table, or None.

    Raises:
        InvalidRequestError: The data do not fit the table.
        TableNotFoundError: The table does not exist.

    Examples:
        >>> transaction = begin("lake/orders")
        >>> staged = da.stage_write(transaction, da.to_table("lake/orders"))
        >>> transaction.stage(staged)
        >>> transaction.commit(operation="WRITE").version
        1
    """
    request = requests.WriteRequest(target=target, partition_by=partition_by, **options)
    return stage_rows(ARROW, ArrowData(data), request)


@shares_options(requests.DeleteRequest)
def delete(
    target: Target,
    predicate: Predicate | Expression | str | None = None,
    **options: Unpack[requests.CommitOptions],
) -> CommitResult:
    """Delete the rows that match the predicate, and commit.

    If partition values or statistics decide a predicate for a whole file, the file is not opened;
    an expression or a SQL string opens it. If no row matches, nothing is committed, and the version
    of the result is None.

    Args:
        target: Location of the table, or a transaction to add to and commit.
        predicate: From `col` or `parse_predicate`, an expression, or SQL text for
            `parse_expression`; None: all rows.

    Raises:
        InvalidRequestError: The predicate does not fit the table, or the table is append-only.
        TableNotFoundError: The table does not exist.

    Examples:
        >>> da.delete("lake/orders", col("country") == "NL").metrics["numDeletedRows"]
        2
        >>> da.to_table("lake/orders")["id"].to_pylist()
        [2]
    """
    return delete_rows(ARROW, requests.DeleteRequest(target=target, predicate=predicate, **options))


@shares_options(requests.UpdateRequest)
def update(
    target: Target,
    assignments: Mapping[str, Any],
    predicate: Predicate | Expression | str | None = None,
    **options: Unpack[requests.CommitOptions],
) -> CommitResult:
    """Set new values of columns in the rows that match the predicate, and commit.

    If no row matches, nothing is committed, and the version of the result is None.

    Args:
        target: Location of the table, or a transaction to add to and commit.
        assignments: By column: a SQL string over the old values of the row, such as `"price * 2"`,
            or a Python value of another type. `lit("text")` is a string, None is null.
        predicate: As for `delete`.

    Raises:
        InvalidRequestError: An argument does not fit the table, a value overflows, a row would
            break a rule of the table, or the table is append-only.
        TableNotFoundError: The table does not exist.

    Examples:
        >>> da.update("lake/orders", {"price": "price * 2"}, "country = 'BE'").version
        1
        >>> da.to_table("lake/orders", predicate=col("id") == 2)["price"].to_pylist()
        [40.0]
    """
    return update_rows(
        ARROW,
        requests.UpdateRequest(
            target=target, assignments=assignments, predicate=predicate, **options
        ),
    )


@shares_options(requests.MergeRequest)
def merge(
    target: Target,
    source: Any,
    predicate: Predicate | Expression | str,
    **options: Unpack[requests.MergeOptions],
) -> Merge:
    """Begin a merge of rows into a table; add clauses to it, then call `execute`.

    The source is read once and held in memory. Files of the table are read one by one, and only
    files with a changed row are rewritten.

    Args:
        target: Location of the table, or a transaction to add to and commit.
        source: An Arrow table, batch or reader, or anything with `__arrow_c_stream__`.
        predicate: The condition for a match: at least one equality of a target column with a source
            value, and any other conditions, joined by AND. A null key matches
            nothing, except if all key equalities are null-safe (`<=>`).

    Examples:
        >>> rows = pa.table({"id": [3, 4], "country": ["LU", "LU"], "price": [35.0, 40.0]})
        >>> merge = da.merge("lake/orders", rows, "target.id = source.id")
        >>> merge.when_matched_update_all().when_not_matched_insert_all().execute().version
        1
        >>> da.count_rows("lake/orders")
        4
    """
    with naming_table(requests.name_of(target)):
        condition = ARROW.parse_condition(predicate)
    return Merge(
        ARROW, requests.MergeRequest(target=target, source=source, predicate=condition, **options)
    )
