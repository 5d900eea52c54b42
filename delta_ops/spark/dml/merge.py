"""Merge rows of a DataFrame into a table.

ds.merge(target, df, "target.id = source.id")
    .when_matched_update_all()
    .when_not_matched_insert_all()
    .execute()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.protocol.expression import Expression
from delta_ops.spark.dml.merge_execution import SparkMerge
from delta_ops.transaction import DEFAULT_HOOKS, Hook, Txn
from delta_ops.transaction.merge import Merge, MergeRequest
from delta_ops.transaction.write import Target

__all__ = ["Merge", "merge"]


def merge(
    target: Target,
    source: DataFrame,
    predicate: str | Expression | Column,
    *,
    source_alias: str = "source",
    target_alias: str = "target",
    txn: Txn | tuple[str, int] | None = None,
    merge_schema: bool = False,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    on_event: OnEvent = ignore,
) -> Merge:
    """A merge of rows into a table, to which clauses are added before `execute`.

    Args:
        target: Where the table is, or a transaction to add to and commit.
        source: Its rows are taken once, by `execute`, and kept by the executors meanwhile.
        predicate: When a row of the target and one of the source meet: a text of Spark's SQL, an
            expression or a Column. Equalities of columns of both, joined by AND, leave out files.
        source_alias: What the source is called in expressions.
        target_alias: What the table is called in expressions.
        txn: Application id and version: a merge that the table holds already is not done again.
        merge_schema: Add columns, and fields of structs, that clauses take as a whole from the
            source and that the table does not have.
        user_metadata: Any text, kept in the commit.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: An argument is of another type, or the source is a stream.
    """
    validate_arguments(merge, locals())
    if source.isStreaming:
        raise InvalidRequestError("a streaming DataFrame is merged by foreachBatch, batch by batch")
    if target_alias.lower() == source_alias.lower():
        raise InvalidRequestError(
            f"target and source are both called {target_alias}; give another source_alias or "
            "target_alias"
        )
    engine = SparkMerge()
    return Merge(
        MergeRequest(
            target=target,
            source=source,
            predicate=engine.parse(predicate),
            source_alias=source_alias,
            target_alias=target_alias,
            txn=txn,
            merge_schema=merge_schema,
            user_metadata=user_metadata,
            storage_options=storage_options,
            hooks=hooks,
            on_event=on_event,
        ),
        engine,
    )
