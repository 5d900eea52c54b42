"""Column lineage: the source columns, in other assets, of each output column.

Metadata declare the lineage. Without a declaration it comes from the plan of a Spark DataFrame.

Lineage is never guessed: columns with the same name may be unrelated, and data of Arrow, pandas or
polars do not record their origin.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import dagster as dg

from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.output_settings import ColumnLineage
from delta_ops.orchestration.io_manager.type_handlers import is_spark_data


def declared_lineage(
    declared: ColumnLineage, columns: Collection[str]
) -> tuple[dg.TableColumnLineage, list[str]]:
    """Convert declared lineage for Dagster; also returns declared names without a column.

    Args:
        columns: All columns of the table.
    """
    deps = {
        column: [
            dg.TableColumnDep(dg.AssetKey.from_user_string(key), source)
            for key, names in sources.items()
            for source in names
        ]
        for column, sources in declared.items()
        if column in columns
    }
    unknown = [column for column in declared if column not in columns]
    return dg.TableColumnLineage(deps_by_column=deps), unknown


def remember_input(context: dg.InputContext, value: Any) -> None:
    """Mark a loaded Spark DataFrame with its asset, before the step receives it."""
    if not is_spark_data(value) or not context.has_asset_key:
        return
    try:
        from delta_ops.spark.lineage import column_lineage

        column_lineage.remember_input(value, json.dumps(context.asset_key.path))
    except Exception as error:  # the rows are loaded; only their origin is unknown
        context.log.debug(f"column lineage will not know {context.asset_key}: {error}")


def computed_lineage(
    context: dg.OutputContext, rows: Any, columns: Collection[str]
) -> dg.TableColumnLineage | None:
    """The source columns of a Spark output in loaded inputs; None if unknown.

    Args:
        rows: The written data.
        columns: All columns of the table. Spark may spell them in another case.
    """
    if not is_spark_data(rows):
        return None
    try:
        from delta_ops.spark.lineage import column_lineage

        found = column_lineage.column_lineage(rows)
        names = {column.lower(): column for column in columns}
        deps = {
            names[column.lower()]: [
                dg.TableColumnDep(dg.AssetKey(json.loads(each.input)), each.column)
                for each in sorted(sources)
            ]
            for column, sources in found.items()
            if column.lower() in names
        }
    except Exception as error:  # the rows are committed; only their origin is unknown
        key = compat.output_key(context).to_user_string()
        context.log.debug(f"column lineage of {key} is not reported: {error}")
        return None
    return dg.TableColumnLineage(deps_by_column=deps) if deps else None
