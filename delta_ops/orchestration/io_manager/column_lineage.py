"""Column lineage: which columns of other assets the columns of an output are made of.

It is what metadata declare, in a shape that is short to write. Where they declare nothing and the
output is a Spark DataFrame, its plan tells which columns of which inputs it was computed of.

Nothing is guessed: two columns of one name need not have to do with each other, and data of Arrow,
pandas or polars do not know where they come from.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import dagster as dg

from delta_ops.orchestration.io_manager.output_settings import ColumnLineage
from delta_ops.orchestration.io_manager.type_handlers import is_spark_data


def declared_lineage(
    declared: ColumnLineage, columns: Collection[str]
) -> tuple[dg.TableColumnLineage, list[str]]:
    """What was declared as Dagster shows it, and the names in it that no column has.

    Args:
        columns: All that the table has.
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
    """Let a Spark DataFrame that was loaded know which asset it is, before it is handed over."""
    if not is_spark_data(value):
        return
    try:
        from delta_ops.spark.lineage import column_lineage

        column_lineage.remember_input(value, json.dumps(context.asset_key.path))
    except Exception as error:  # The rows are there; only where they come from is not known.
        context.log.debug(f"column lineage will not know {context.asset_key}: {error}")


def computed_lineage(
    context: dg.OutputContext, rows: Any, columns: Collection[str]
) -> dg.TableColumnLineage | None:
    """The columns of loaded inputs of which an output was computed; None where nothing is known.

    Args:
        rows: What was written.
        columns: All that the table has; Spark may know them by another case.
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
    except Exception as error:  # The rows are committed; only where they come from is not known.
        context.log.debug(f"column lineage of {context.asset_key} is not told: {error}")
        return None
    return dg.TableColumnLineage(deps_by_column=deps) if deps else None
