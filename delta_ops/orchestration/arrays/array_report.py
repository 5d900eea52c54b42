"""Array report: the metadata and the data version of an output's arrays, for Dagster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from delta_ops.arrays import DeltaStore
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.arrays.array_writer import WrittenArrays
from delta_ops.orchestration.arrays.region_writer import open_dataset
from delta_ops.orchestration.io_manager.output_report import known_version
from delta_ops.orchestration.markdown import plain_text, table_text
from delta_ops.orchestration.metadata import data_version
from delta_ops.orchestration.table_versions import last_data_version
from delta_ops.storage.paths import redact

_MOST_SHOWN = 50
"""Variables that the metadata of a materialization list."""


def report_arrays(context: dg.OutputContext, log: DeltaLog, written: WrittenArrays) -> None:
    """Add metadata and data version of written arrays to the output.

    Args:
        context: The context of the output.
        log: The table.
        written: The commit of the output.
    """
    table = log.snapshot(written.version)
    newest = _last_version(context, log, table, written)
    compat.set_data_version(context, data_version(table, newest))
    counts = written.changed_chunks
    context.add_output_metadata(
        {
            "dagster/uri": dg.MetadataValue.text(redact(table.uri)),
            "dagster/table_name": context.asset_key.to_user_string(),
            "delta/version": table.version,
            "delta/num_files": table.num_files,
            "delta/commits_since_checkpoint": table.commits_since_checkpoint,
            **_variables(open_dataset(DeltaStore(log, version=table.version))),
            **(
                {"delta/chunks_written": counts[0], "delta/bytes_written": counts[1]}
                if counts
                else {}
            ),
            **({"delta/adopted": True} if written.is_adopted else {}),
        }
    )


def _last_version(
    context: dg.OutputContext, log: DeltaLog, table: Snapshot, written: WrittenArrays
) -> int:
    """The last version that changed the output's chunks, as far as Dagster or the log know."""
    known = known_version(context, table)
    if written.version is None and known is not None and _is_logged(context):
        return known
    return max(last_data_version(log, table.version), min(known or 0, table.version))


def _is_logged(context: dg.OutputContext) -> bool:
    """Whether Dagster has a data version of each partition of the output."""
    keys = context.asset_partition_keys if context.has_asset_partitions else [None]
    return len(compat.logged_data_versions(context)) == len(keys)


def _variables(dataset: Any) -> Mapping[str, Any]:
    """The variables of a dataset as columns, and as a table with their chunks."""
    names = [*sorted(dataset.data_vars, key=str), *sorted(dataset.coords, key=str)]
    shown = [(name, dataset.variables[name]) for name in names[:_MOST_SHOWN]]
    columns = [
        dg.TableColumn(
            name=str(name),
            type=f"{variable.dtype} ({', '.join(map(str, variable.dims))})",
            description=_text_of(variable.attrs),
            tags={"coordinate": ""} if name in dataset.coords else {},
        )
        for name, variable in shown
    ]
    rows = [
        [
            plain_text(str(name)),
            plain_text(", ".join(f"{dim} {size}" for dim, size in variable.sizes.items())),
            plain_text(str(variable.dtype)),
            ", ".join(map(str, variable.encoding.get("chunks", ()))),
        ]
        for name, variable in shown
    ]
    text = table_text(["variable", "dimensions", "type", "chunks"], rows)
    return {
        "delta/arrays": dg.MetadataValue.md(text),
        "dagster/column_schema": dg.TableSchema(columns=columns),
    }


def _text_of(attributes: Mapping[str, Any]) -> str | None:
    """The long name and the unit of a variable; None without both."""
    name, unit = (attributes.get(key) for key in ("long_name", "units"))
    parts = [str(name or ""), f"({unit})" if unit else ""]
    return " ".join(part for part in parts if part) or None
