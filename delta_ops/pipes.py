"""Pipes: write an asset's table once, from a script that a Dagster run starts, and report it.

    from dagster_pipes import open_dagster_pipes
    from delta_ops.pipes import write_asset

    with open_dagster_pipes() as pipes:
        write_asset(pipes, rows)

Dagster's side, `delta_ops.orchestration.pipes_extras`, sends the table's location, the write
options and the identity of the write. A rerun of the script has the same identity. A script that
was killed after its commit therefore finds that commit, and reports it. This module does not import
Dagster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from delta_ops.errors import InvalidRequestError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema.type_text import type_text
from delta_ops.transaction import CommitResult, Transaction, Txn, begin

if TYPE_CHECKING:
    from dagster_pipes import PipesContext

EXTRAS = "delta_ops"
"""Key of the message from Dagster's side, among the extras of a Pipes session."""
_SHORT_ID = 8
"""Characters of `metaData.id` in a data version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetWrite:
    """A request from Dagster to write one asset once; all fields are JSON values."""

    uri: str
    storage_options: Mapping[str, Any]
    """Secrets as `{"env": "NAME"}`; this process must have the variable."""
    txns: Sequence[tuple[str, int, bool]]
    """Fields of `Txn`, in order."""
    mode: Literal["append", "overwrite", "error", "ignore"]
    partition_by: Sequence[str] | None
    configuration: Mapping[str, str] | None
    merge_schema: bool
    overwrite_schema: bool
    user_metadata: str | None
    has_partitions: bool
    """Whether the asset has partitions; other runs then write some of its rows."""
    data_versions: Sequence[str]
    """Data versions in Dagster of the asset, or of the written partitions."""
    is_version_of_partition: bool = False
    """Whether the data version stays unchanged if nothing of the partitions changed."""


def write_asset(
    pipes: PipesContext,
    data: Any,
    *,
    replace_where: Predicate | Expression | str | None = None,
    asset_key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> CommitResult:
    """Write the rows of an asset of this session, unless already written, and report the commit.

    Args:
        pipes: The result of `open_dagster_pipes()`.
        data: A Spark DataFrame, which Spark writes, or anything that `delta_ops.arrow.write`
            accepts. A function without arguments that returns the data is called only if there is
            something to write.
        replace_where: The rows that an overwrite replaces; required if the asset has partitions.
        asset_key: The asset, with parts separated by `/`; required if the session has several.
        metadata: Additional metadata of the materialization.

    Raises:
        InvalidRequestError: The Pipes session does not write this asset, or the data do not fit the
            table.
        CommitConflictError: A concurrent commit invalidates this one; run the script again.
    """
    key, write = _asset_write(pipes, asset_key)
    if write.has_partitions and write.mode == "overwrite" and replace_where is None:
        raise InvalidRequestError(
            f"asset {key} is partitioned and would be overwritten, and write_asset does not know "
            'which rows belong to this run; give replace_where, for example col("day") == '
            "pipes.partition_key"
        )
    log = DeltaLog(write.uri, _resolve(write.storage_options, "storage_options"))
    transaction = begin(log)
    for app_id, version, newer_is_stale in write.txns:
        transaction.set_transaction(
            Txn(app_id=app_id, version=version, newer_is_stale=newer_is_stale)
        )
    result = transaction.done_before()
    if result is None:
        rows = data() if callable(data) else data
        result = _write(transaction, rows, write, replace_where)
    table = _written_table(log, result)
    pipes.report_asset_materialization(
        metadata={**_metadata(table, result), **(metadata or {})},
        data_version=_data_version(table, result, write),
        asset_key=key,
    )
    return result


def _asset_write(pipes: PipesContext, asset_key: str | None) -> tuple[str, AssetWrite]:
    extras = pipes.extras
    if not isinstance(extras, Mapping):
        raise InvalidRequestError(
            "Dagster did not start this script, so there is no asset to write; start it with a "
            "Pipes client, or use delta_ops.arrow.write or delta_ops.spark.write"
        )
    writes: Mapping[str, Any] = extras.get(EXTRAS) or {}
    if asset_key is None and len(writes) == 1:
        (asset_key,) = writes
    if asset_key is None or asset_key not in writes:
        raise InvalidRequestError(
            f"this session writes {', '.join(sorted(writes)) or 'no asset'} and not "
            f"{asset_key or 'an unnamed asset'}; give asset_key, and start the script with "
            "extras=pipes_extras(context, table)"
        )
    try:
        return asset_key, AssetWrite(**writes[asset_key])
    except TypeError as error:
        raise InvalidRequestError(
            f"Dagster describes the write of asset {asset_key} in a form that this script does "
            f"not understand ({error}); install the same version of delta_ops for both. Nothing "
            "was written"
        ) from error


def _write(
    transaction: Transaction,
    rows: Any,
    write: AssetWrite,
    replace_where: Predicate | Expression | str | None,
) -> CommitResult:
    options: dict[str, Any] = {
        "mode": write.mode,
        "partition_by": write.partition_by,
        "replace_where": replace_where,
        "merge_schema": write.merge_schema,
        "overwrite_schema": write.overwrite_schema,
        "configuration": write.configuration if transaction.snapshot is None else None,
        "user_metadata": write.user_metadata,
    }
    pyspark_sql = sys.modules.get("pyspark.sql")
    if pyspark_sql is not None and isinstance(rows, pyspark_sql.DataFrame):
        from delta_ops import spark

        return spark.write(rows, transaction, **options)
    from delta_ops import arrow

    return arrow.write(transaction, rows, **options)


def _written_table(log: DeltaLog, result: CommitResult) -> Snapshot:
    """The table at the commit's version, or at the latest version if that one cannot be read."""
    if result.snapshot is not None:
        return result.snapshot
    try:
        return log.snapshot(result.version)
    except VersionNotFoundError:
        return log.snapshot()


def _data_version(table: Snapshot, result: CommitResult, write: AssetWrite) -> str:
    """The data version, as `DeltaIOManager` sets it; never older than Dagster's data version."""
    prefix = f"{table.metadata.id[:_SHORT_ID]}@"
    numbers = [e.removeprefix(prefix) for e in write.data_versions if e.startswith(prefix)]
    known = [int(number) for number in numbers if number.isdecimal()]
    changed = [result.metrics.get(name, 0) for name in ("numFiles", "numRemovedFiles")]
    if (
        known
        and write.is_version_of_partition
        and not result.already_committed
        and not any(changed)
    ):
        return f"{prefix}{max(known)}"
    return f"{prefix}{max([table.version, *known])}"


def _metadata(table: Snapshot, result: CommitResult) -> dict[str, Any]:
    columns = [
        {
            "name": field.name,
            "type": type_text(field.data_type),
            "constraints": {"nullable": field.nullable},
        }
        for field in table.schema.fields
    ]
    shown = {
        "dagster/uri": {"raw_value": table.uri, "type": "text"},
        "dagster/size_bytes": table.size_bytes,
        "dagster/column_schema": {"raw_value": {"columns": columns}, "type": "table_schema"},
        "delta/version": table.version,
        "delta/num_files": table.num_files,
    }
    if result.attempts > 1:
        shown["delta/commit_attempts"] = result.attempts
    if result.already_committed:
        shown |= {"delta/already_committed": 1, "delta/adopted": True}
    else:
        shown["delta/rows_written"] = result.metrics.get("numOutputRows", 0)
        shown["delta/files_written"] = result.metrics.get("numFiles", 0)
    return shown


def _resolve(value: Any, name: str) -> Any:
    """Storage options with environment variables replaced by their values in this process."""
    match value:
        case {"env": str(variable), **rest} if rest in ({}, {"type": "int"}):
            return _variable(variable, name, int if rest else str)
        case Mapping():
            return {each: _resolve(value[each], f"{name}.{each}") for each in value}
        case list():
            return [_resolve(each, name) for each in value]
    return value


def _variable(variable: str, name: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(os.environ[variable])
    except KeyError:
        reason = "is not set"
    except ValueError:
        # Not chained, since Python's error repeats the value.
        reason = "holds no whole number"
    raise InvalidRequestError(
        f"{name} comes from the environment variable {variable}, which {reason} in the process of "
        "this script; set it where the script is started"
    )
