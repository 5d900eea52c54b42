"""Write request: what a write asks for, whichever engine writes its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent
from delta_ops.log import TableOrPlace, log_of
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import StructType
from delta_ops.transaction.transaction import Transaction, begin

Target = TableOrPlace | Transaction
Mode = Literal["append", "overwrite"]


def validate_mode(mode: str, replace_where: Predicate | None) -> None:
    """Refuse a mode that there is not, and a predicate without an overwrite.

    Raises:
        InvalidRequestError: With the cure.
    """
    if mode not in ("append", "overwrite"):
        raise InvalidRequestError(f"mode {mode!r} is unknown; choose append or overwrite")
    if replace_where is not None and mode != "overwrite":
        raise InvalidRequestError("replace_where goes with mode='overwrite'")


def transaction_on(
    target: Target, storage_options: Mapping[str, Any] | None, on_event: OnEvent
) -> Transaction:
    """The transaction given, or a new one on the table.

    Raises:
        UnsupportedFeatureError: The table uses what we cannot write.
    """
    if isinstance(target, Transaction):
        return target
    return begin(log_of(target, storage_options), on_event=on_event)


def create_if_missing(
    transaction: Transaction,
    schema_of_data: Callable[[], StructType],
    partition_by: Sequence[str] | None,
    configuration: Mapping[str, str] | None,
) -> None:
    """Make the commit the table's first where there is no table.

    Args:
        schema_of_data: Called only then: data may fit a table without being able to make one.

    Raises:
        InvalidRequestError: The definition cannot be used.
    """
    if transaction.snapshot is None and not transaction.creates_table:
        transaction.create_table(
            schema_of_data(), partition_by=partition_by or (), configuration=configuration
        )


def validate_partitioning(transaction: Transaction, partition_by: Sequence[str] | None) -> None:
    """Refuse a partitioning that is not the table's.

    Raises:
        InvalidRequestError: With the table's own.
    """
    columns = transaction.metadata.partition_columns
    if partition_by is not None and tuple(partition_by) != columns:
        raise InvalidRequestError(
            f"{transaction.log.uri} is partitioned by {', '.join(columns) or 'nothing'}, not by "
            f"{', '.join(partition_by) or 'nothing'}; leave partition_by out"
        )


def write_parameters(
    mode: Mode, transaction: Transaction, replace_where: Predicate | None
) -> dict[str, Any]:
    """`commitInfo.operationParameters` of a WRITE, as the reference names them."""
    parameters: dict[str, Any] = {
        "mode": mode.capitalize(),
        "partitionBy": list(transaction.metadata.partition_columns),
    }
    if replace_where is not None:
        parameters["predicate"] = predicate_text(replace_where)
    return parameters
