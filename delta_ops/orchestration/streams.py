"""Streams in Dagster: a streaming query as an asset, which reads the available data and ends.

A run starts the query from its checkpoint, waits until it has read all available commits, and
reports the table. A rerun continues from the checkpoint, so each row is written once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from delta_ops.events import Committed, Event
from delta_ops.log import TableOrPlace, log_of
from delta_ops.orchestration.io_manager.output_report import rows_of
from delta_ops.orchestration.metadata import data_version, table_metadata
from delta_ops.orchestration.table_versions import last_data_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POLL_S = 1
"""Seconds between checks whether a waiting run must end."""


def run_available_now(
    context: dg.AssetExecutionContext,
    stream: DataFrame,
    target: TableOrPlace,
    *,
    checkpoint_location: str,
    **options: Any,
) -> dg.MaterializeResult[None]:
    """Write the available rows of a streaming DataFrame to a table, and report the table.

    Args:
        context: The context of the asset.
        stream: A streaming DataFrame, such as a selection from `delta_ops.spark.read_stream`.
        target: The location of the table, which may not exist yet.
        checkpoint_location: As for `delta_ops.spark.write_stream`; a separate one for each asset.
        options: Further options of `write_stream`.

    Raises:
        InvalidRequestError: An option is unknown, or contradicts another option.
        StreamingQueryException: The query failed; committed rows stay, and a rerun continues.
    """
    from delta_ops.spark import write_stream

    log = log_of(target, options.pop("storage_options", None))
    versions: list[int] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Committed):
            versions.append(event.version)
            context.log.info(f"{event.table}: a batch is version {event.version}")

    query = write_stream(
        stream,
        log,
        checkpoint_location=checkpoint_location,
        available_now=True,
        on_event=on_event,
        **options,
    )
    try:
        while not query.awaitTermination(_POLL_S):  # short steps, so that Python handles signals
            pass
    finally:
        query.stop()
    table = log.snapshot_if_exists()
    figures: dict[str, Any] = {
        **({"delta/commits": len(versions)} if len(versions) != 1 else {}),
        "delta/rows_written": sum(rows_of(c) for v in versions for c in log.commits(v, v)),
        "delta/query_id": str(query.id),
    }
    if table is None:  # no rows were available, so no table was created
        return dg.MaterializeResult(metadata=figures)
    version = last_data_version(log, table.version)
    return dg.MaterializeResult(
        metadata={**table_metadata(table), **figures},
        data_version=dg.DataVersion(data_version(table, version)),
    )
