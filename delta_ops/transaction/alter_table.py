"""Alter table: change what a table is, by a commit that touches no file.

Source: PROTOCOL.md, "Change Metadata"; operations and their parameters are named as the reference
names them.

A change says what it does to a transaction and how the commit is called; `alter` does the rest, and
commits nothing where the table is as it should be. No list of files is read, however large it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError, TableNotFoundError, naming_table
from delta_ops.log import TableOrPlace, log_of
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.transaction import Transaction, begin

_MAX_ATTEMPTS = 1000
NOTHING_COMMITTED = CommitResult(version=None, already_committed=False, attempts=0)
"""The outcome where the table is as it should be, and of a dry run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """How the commit of a change is called."""

    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_alone: bool = False
    """Whether any other commit that comes first is a conflict."""


Change = Callable[[Transaction], Alteration | None]
"""Changes the table in a transaction on it; None where there is nothing to change."""


def alter(
    target: TableOrPlace,
    change: Change,
    txn: Txn | tuple[str, int] | None,
    user_metadata: str | None,
    storage_options: Mapping[str, Any] | None,
    dry_run: bool,
    begin_as: Literal["write", "restore"] = "write",
) -> CommitResult:
    """Change a table and commit; in a dry run only refuse what would be refused.

    Args:
        begin_as: "restore" for a table of which we may not write rows.

    Raises:
        InvalidRequestError: The change does not fit the table.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table uses what we cannot write.
        CommitConflictError: Somebody changed the table first.
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


def set_properties(
    target: TableOrPlace,
    properties: Mapping[str, str | None],
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Set table properties, and remove those whose value is None.

    Args:
        properties: By name; see `Transaction.set_properties`.
        txn: Application id and version: a change that the table holds already is not made again.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: There is no such property, it is not for users, its value cannot be
            understood, or it is a constraint; or none is given.
    """
    validate_arguments(set_properties, locals())
    if not properties:
        raise InvalidRequestError("no property is given; name one to set or to remove")

    def change(transaction: Transaction) -> Alteration | None:
        before = (transaction.metadata, transaction.protocol)
        transaction.set_properties(properties)
        if (transaction.metadata, transaction.protocol) == before:
            return None
        if any(value is not None for value in properties.values()):
            return Alteration(
                operation="SET TBLPROPERTIES", parameters={"properties": dict(properties)}
            )
        return Alteration(
            operation="UNSET TBLPROPERTIES",
            parameters={"properties": list(properties), "ifExists": True},
        )

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def rename_table(
    target: TableOrPlace,
    name: str | None,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Give the table another name in its metadata, or none; its place stays.

    The reference has no such operation; deltalake's is named UPDATE TABLE METADATA, as this one.
    """
    validate_arguments(rename_table, locals())

    def change(transaction: Transaction) -> Alteration | None:
        if transaction.metadata.name == name:
            return None
        transaction.set_metadata(replace(transaction.metadata, name=name))
        return Alteration(
            operation="UPDATE TABLE METADATA", parameters={"metadataUpdate": {"name": name}}
        )

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def set_table_comment(
    target: TableOrPlace,
    comment: str | None,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Set the table's description, or remove it where it is None.

    In the history it is the property `comment`, as COMMENT ON TABLE is with the reference.
    """
    validate_arguments(set_table_comment, locals())

    def change(transaction: Transaction) -> Alteration | None:
        if transaction.metadata.description == comment:
            return None
        transaction.set_metadata(replace(transaction.metadata, description=comment))
        return Alteration(
            operation="SET TBLPROPERTIES", parameters={"properties": {"comment": comment}}
        )

    return alter(target, change, txn, user_metadata, storage_options, dry_run)
