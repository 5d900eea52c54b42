"""Column lineage: which columns of other assets the columns of an output are made of.

Only the asset's author knows: two columns of one name need not have to do with each other. So it is
what metadata declare, in a shape that is short to write, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Collection

import dagster as dg

from delta_ops.orchestration.output_settings import ColumnLineage


def column_lineage(
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
