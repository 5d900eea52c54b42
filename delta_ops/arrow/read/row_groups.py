"""Row groups of a data file that can hold a matching row, by the statistics in its footer.

They are taken for what those of the log are: bounds that leave nothing out, see `protocol.stats`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.arrow.read.projection import drop_columns
from delta_ops.protocol.columns.mapping import physical_name, physical_predicate, rename_columns
from delta_ops.protocol.predicate import Predicate, might_match, resolve
from delta_ops.protocol.predicate.nodes import leaves_of
from delta_ops.protocol.schema import StructField, StructType
from delta_ops.protocol.stats.from_footer import stats_from_footer
from delta_ops.protocol.stats.indexed_columns import StatsSettings

ChooseRowGroups = Callable[[pq.FileMetaData], Sequence[int]]


def plan_row_groups(
    schema: StructType, of_log: Collection[StructField], mode: str, predicate: Predicate | None
) -> ChooseRowGroups | None:
    """How to choose row groups, ascending; None where all are to be read.

    Args:
        schema: The table's columns.
        of_log: Columns whose values stand in the log; what files say of them does not count.
        mode: How columns are mapped; by ids, footers do not say which column a name stands for.
        predicate: What rows are wanted.

    Raises:
        InvalidRequestError: The predicate does not fit the schema.
    """
    if predicate is None or mode == "id":
        return None
    resolved, stored = resolve(predicate, schema), drop_columns(schema, of_log)
    if mode == "name":
        resolved, stored = (
            physical_predicate(resolved, schema),
            rename_columns(stored, physical_name),
        )
    paths = [leaf.column for leaf in leaves_of(resolved)]

    def choose(metadata: pq.FileMetaData) -> Sequence[int]:
        groups = range(metadata.num_row_groups)
        if len(groups) < 2:
            return groups  # the log has told already
        stats = [
            stats_from_footer(
                metadata, stored, (), StatsSettings(columns=tuple(paths)), row_groups=[group]
            )
            for group in groups
        ]
        mask = might_match(resolved, {}, pa.array(stats, pa.string())).to_pylist()
        return [group for group, is_wanted in zip(groups, mask, strict=True) if is_wanted]

    return choose
