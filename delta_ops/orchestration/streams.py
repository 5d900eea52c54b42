"""Streams in Dagster: a streaming query as an asset, that reads what is there and ends.

A run starts the query from its checkpoint, waits until it has read all that was committed, and
reports the table. A rerun goes on where the query was stopped, so each row is written once.
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
"""How often a run that waits looks whether it was told to end."""


def run_available_now(
    context: dg.AssetExecutionContext,
    stream: DataFrame,
    target: TableOrPlace,
    *,
    checkpoint_location: str,
    **options: Any,
) -> dg.MaterializeResult[None]:
    """Write what a streaming DataFrame has to a table, and report the table as it is then.

    Args:
        context: The asset's.
        stream: As `delta_ops.spark.read_stream` makes it, with whatever was selected of it.
        target: Where the table is or shall be.
        checkpoint_location: As for `delta_ops.spark.write_stream`; one for each asset.
        options: Further ones of `write_stream`.

    Raises:
        InvalidRequestError: An option is none, or contradicts another one.
        StreamingQueryException: The query failed; what it wrote stands, and a rerun goes on.
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
        while not query.awaitTermination(_POLL_S):  # in short steps, in which a signal is heard
            pass
    finally:
        query.stop()
    table = log.snapshot_if_exists()
    figures: dict[str, Any] = {
        "delta/commits": len(versions),
        "delta/rows_written": sum(rows_of(c) for v in versions for c in log.commits(v, v)),
        "delta/query_id": str(query.id),
    }
    if table is None:  # there was nothing to read, and so no table was made
        return dg.MaterializeResult(metadata=figures)
    version = last_data_version(log, table.version)
    return dg.MaterializeResult(
        metadata={**table_metadata(table), **figures},
        data_version=dg.DataVersion(data_version(table, version)),
    )
