"""Pipes, on Dagster's side: the parameters for an external script that writes an asset's table.

The script's write has the same txns as a write by `DeltaIOManager`, so reruns behave the same.
Secrets stay names of environment variables, which the script's process must have. `delta_ops.pipes`
is the script's side.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.output_settings import (
    OutputSettings,
    settings_from,
    validate_no_partitions,
)
from delta_ops.orchestration.io_manager.output_txns import (
    step_output_of_asset,
    user_metadata,
    write_txns,
)
from delta_ops.orchestration.storage_options import config_options
from delta_ops.orchestration.tables import TableRef
from delta_ops.pipes import EXTRAS, AssetWrite
from delta_ops.storage.paths import redact
from delta_ops.transaction.requests import Mode as WriteMode


def pipes_extras(
    context: dg.AssetExecutionContext, *tables: TableRef, **extras: Any
) -> dict[str, Any]:
    """The extras of a Pipes session whose script writes these tables by `delta_ops.pipes`.

    The metadata of each asset's definition decide how its table is written, as for
    `DeltaIOManager`: `delta/mode`, `delta/idempotency` ("run" or "partition"),
    `delta/partition_by`, and so on.

    Args:
        tables: Tables of assets that the step materializes.
        extras: Further extras for the script.

    Raises:
        InvalidRequestError: A table belongs to no asset of the step, its metadata are invalid, or
            it has a literal secret or a lock, which cannot be sent.

    Examples:
        >>> @dg.asset
        ... def scores(context: dg.AssetExecutionContext, pipes: dg.PipesSubprocessClient):
        ...     table = TableRef(asset_key=context.asset_key, uri="lake/scores")
        ...     extras = pipes_extras(context, table)
        ...     command = ["python", "write_scores.py"]
        ...     return pipes.run(command=command, context=context, extras=extras).get_results()
    """
    return {
        **extras,
        EXTRAS: {table.name: asdict(_asset_write(context, table)) for table in tables},
    }


def _asset_write(context: dg.AssetExecutionContext, table: TableRef) -> AssetWrite:
    _validate_table(context, table)
    settings = _settings(context, table.asset_key)
    output = step_output_of_asset(context, table.asset_key)
    repeats = settings.is_repeatable
    txns = write_txns(output, table.log, settings.idempotency, is_repeatable=repeats)
    has_partitions = output.partition_text is not None
    return AssetWrite(
        uri=table.uri,
        storage_options=config_options(table.storage_options),
        txns=[(txn.app_id, txn.version, txn.newer_is_stale) for txn in txns],
        mode=_written_mode(settings, table),
        partition_by=settings.partition_by,
        configuration=settings.configuration,
        merge_schema=settings.merge_schema,
        overwrite_schema=settings.overwrite_schema,
        user_metadata=user_metadata(output, settings.user_metadata),
        has_partitions=has_partitions,
        is_version_of_partition=settings.is_version_of_partition and has_partitions,
        data_versions=compat.latest_data_versions(
            output.instance, output.asset_key, output.partitions if has_partitions else None
        ),
    )


def _settings(context: dg.AssetExecutionContext, asset_key: dg.AssetKey) -> OutputSettings:
    spec = context.assets_def.specs_by_key[asset_key]
    place = f"the metadata of asset {asset_key.to_user_string()}"
    has_partitions = spec.partitions_def is not None
    if not has_partitions:
        validate_no_partitions(place, spec.metadata)
    settings = settings_from([(place, spec.metadata)], {}, asset_key, has_partitions=has_partitions)
    if settings.idempotency == "source":
        raise InvalidRequestError(
            f"{place} have the delta/idempotency 'source', which needs a list of SourcePart; a "
            "script makes one write, so choose run or partition"
        )
    return settings


def _written_mode(settings: OutputSettings, table: TableRef) -> WriteMode:
    if settings.mode == "merge":
        raise InvalidRequestError(
            f"asset {table.name} has the delta/mode 'merge', but write_asset only appends or "
            "overwrites; return the rows from the asset, or let the asset read them from a file "
            "of the script"
        )
    return settings.mode


def _validate_table(context: dg.AssetExecutionContext, table: TableRef) -> None:
    if table.asset_key not in context.selected_asset_keys:
        known = ", ".join(sorted(key.to_user_string() for key in context.selected_asset_keys))
        raise InvalidRequestError(
            f"table {table.name} belongs to no asset of this step, which materializes {known}; "
            "give the TableRef the key of its asset"
        )
    if redact(table.uri) != table.uri:
        raise InvalidRequestError(
            f"the address of table {table.name} contains a password or a signature, which the "
            "extras of the script would reveal; give it in storage_options, as dg.EnvVar"
        )
    if table.lock is not None:
        raise InvalidRequestError(
            f"table {table.name} needs a lock for commits, which cannot be passed to a script; "
            "write it in the asset itself"
        )
