"""Alter: commit a DDL change that touches no file.

Source: PROTOCOL.md, "Change Metadata"; operations and their parameters have the reference's names.

A change edits a transaction and names its commit. `alter` does the rest, and commits nothing if the
table is already as requested. It does not read the list of files, so the size of the table does not
matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from delta_ops.errors import TableNotFoundError, naming_table
from delta_ops.log import TableOrPlace, log_of
from delta_ops.transaction import CommitResult, Transaction, Txn, begin

_MAX_ATTEMPTS = 1000
NOTHING_COMMITTED = CommitResult(version=None, already_committed=False, attempts=0)
"""The result if the table is already as requested, and of a dry run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """The operation and its parameters, as `commitInfo` records them."""

    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_alone: bool = False
    """Whether every concurrent commit is a conflict."""


Change = Callable[[Transaction], Alteration | None]
"""Changes the table in a transaction; returns None if nothing changes."""


def alter(
    target: TableOrPlace,
    change: Change,
    txn: Txn | tuple[str, int] | None,
    user_metadata: str | None,
    storage_options: Mapping[str, Any] | None,
    dry_run: bool,
    begin_as: Literal["write", "restore"] = "write",
) -> CommitResult:
    """Change a table and commit.

    Args:
        dry_run: Check the change and commit nothing.
        begin_as: The operation that the table's features must allow: "write", or only "restore" for
            a change that is possible even if delta_ops cannot write rows to the table.

    Raises:
        InvalidRequestError: The change does not fit the table.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table uses a feature that we cannot write.
        CommitConflictError: Another writer changed the table first.
    """
    log = log_of(target, storage_options)
    transaction = begin(log, operation=begin_as)
    if transaction.snapshot is None:
        raise TableNotFoundError(log.uri)
    if txn is not None:
        transaction.set_transaction(txn)
    if done := transaction.done_before():
        return done
    with naming_table(log.uri):
        alteration = change(transaction)
    if alteration is None:
        return NOTHING_COMMITTED
    transaction.validate()
    if dry_run:
        return NOTHING_COMMITTED
    return transaction.commit(
        operation=alteration.operation,
        parameters=alteration.parameters,
        user_metadata=user_metadata,
        counts_files=False,
        max_attempts=1 if alteration.is_alone else _MAX_ATTEMPTS,
    )
