"""Properties: the properties, the name and the description of a table.

Source: PROTOCOL.md, "Change Metadata"; operations and their parameters have the reference's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.ddl.alter import Alteration, alter
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace
from delta_ops.protocol.properties.table_properties import validate_removals
from delta_ops.transaction import CommitResult, Transaction, Txn


def set_properties(
    target: TableOrPlace,
    properties: Mapping[str, str | None],
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Set table properties; None as a value removes the property.

    Args:
        properties: By name; see `Transaction.set_properties`.
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: A property is unknown, not for users, or a constraint; its value is
            invalid; or no property is given.

    Examples:
        >>> set_properties("lake/orders", {"delta.checkpointInterval": "20"}).version
        1
        >>> set_properties("lake/orders", {"delta.checkpointInterval": None}).version
        2
    """
    validate_arguments(set_properties, locals())
    if not properties:
        raise InvalidRequestError("no property was given; name at least one to set or remove")

    def change(transaction: Transaction) -> Alteration | None:
        before = (transaction.metadata, transaction.definition.protocol)
        transaction.set_properties(properties)
        validate_removals(properties, before[0].configuration)
        if (transaction.metadata, transaction.definition.protocol) == before:
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
    """Set or remove the name in the table's metadata; the location stays.

    The reference has no such operation; deltalake uses this name for it.

    Examples:
        >>> _ = rename_table("lake/orders", "orders")
        >>> DeltaLog("lake/orders").snapshot().metadata.name
        'orders'
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
    """Set the table's description; None removes it.

    The history shows the property `comment`, as the reference does for COMMENT ON TABLE.

    Examples:
        >>> _ = set_table_comment("lake/orders", "What was ordered.")
        >>> DeltaLog("lake/orders").snapshot().metadata.description
        'What was ordered.'
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
