"""Merge rows of a source into a table from this process.

    da.merge(target, source, "target.id = source.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()

The source is taken once and held in memory; the table's files are gone through one by one, and
only those are written again of which a row changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.dml.merge_execution import ArrowMerge
from delta_ops.events import OnEvent, ignore
from delta_ops.protocol.expression import Expression
from delta_ops.transaction import DEFAULT_HOOKS, Hook, Txn
from delta_ops.transaction.merge import Merge, MergeRequest
from delta_ops.transaction.write import Target

__all__ = ["Merge", "merge"]


def merge(
    target: Target,
    source: Any,
    predicate: str | Expression,
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
        source: An Arrow table, batch or reader, or anything with `__arrow_c_stream__`; taken once,
            by `execute`.
        predicate: When a row of the target and one of the source meet: an equality of a column of
            the target with one of the source, or several, and any other conditions, joined by AND.
            A key that is null meets nothing, but by a null-safe equality (`<=>`) alone.
        source_alias: What the source is called in expressions.
        target_alias: What the table is called in expressions.
        txn: Application id and version: a merge that the table holds already is not done again.
        merge_schema: Add columns, and fields of structs, that clauses take as a whole from the
            source and that the table does not have.
        user_metadata: Any text, kept in the commit.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: The predicate cannot be understood, or an argument is of another type.
    """
    validate_arguments(merge, locals())
    engine = ArrowMerge()
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
