"""Output partitions: the rows of a table that belong to the partitions of an output."""

from collections.abc import Sequence
from contextlib import suppress

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.output_settings import OutputSettings, PartitionExpr
from delta_ops.orchestration.io_manager.partitions import partition_predicate
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructType


def rows_of_partitions(
    context: dg.OutputContext, settings: OutputSettings, schema: StructType, keys: Sequence[str]
) -> Predicate:
    """The rows of some partitions of an output.

    Raises:
        InvalidRequestError: There is no `partition_expr`, or it does not fit the columns.
    """
    asset = context.asset_key.to_user_string()
    expression = require_expression(context.asset_key, settings.partition_expr)
    partitions = compat.partitions_of_output(context)
    if partitions is None:
        raise InvalidRequestError(
            f"asset {asset}: the context has a partition_key and no asset_partitions_def; give "
            "both to build_output_context"
        )
    try:
        return partition_predicate(expression, schema, partitions, keys)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"asset {asset}: {error}") from error


def rows_of_each_partition(
    context: dg.OutputContext, settings: OutputSettings, schema: StructType, *, is_replaced: bool
) -> dict[str, Predicate]:
    """The rows of each partition; empty without a `partition_expr`.

    Also empty if the output replaces its only partition. A partition is omitted if its column
    cannot distinguish it from another partition.
    """
    keys = context.asset_partition_keys if context.has_asset_partitions else []
    if settings.partition_expr is None or (is_replaced and len(keys) < 2):
        return {}
    found = {}
    for key in keys:
        # An hour that occurs twice: a run may write both its partitions, and nothing less.
        with suppress(InvalidRequestError):
            found[key] = rows_of_partitions(context, settings, schema, [key])
    return found


def versioned_rows(
    context: dg.OutputContext, settings: OutputSettings, schema: StructType
) -> Predicate | None:
    """The rows whose last change decides the data version; None: all rows of the table."""
    if not settings.is_version_of_partition or not context.has_asset_partitions:
        return None
    return rows_of_partitions(context, settings, schema, context.asset_partition_keys)


def require_expression(asset_key: dg.AssetKey, expression: PartitionExpr | None) -> PartitionExpr:
    """Return the partition expression.

    Raises:
        InvalidRequestError: The expression is None.
    """
    if expression is None:
        raise InvalidRequestError(
            f"asset {asset_key.to_user_string()} has partitions, and its metadata do not say which "
            'column holds them; add metadata={"partition_expr": "<column>"}'
        )
    return expression
