"""Choose the row groups that can hold a matching row, by the statistics in the footer.

Footer statistics are used like statistics of the log: as bounds that never exclude a matching row.
See `protocol.stats`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.arrow.read.projection import drop_columns
from delta_ops.protocol.arrow_values import array_of
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
    """Plan how to choose row groups, in ascending order; None if all are read.

    Args:
        schema: The table's columns.
        of_log: Columns whose values come from the log. The file's statistics for them are ignored.
        mode: The column mapping mode. In mode `id` a footer does not connect names to columns.
        predicate: The wanted rows.

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
            return groups  # the statistics of the log already cover the file
        stats = [
            stats_from_footer(
                metadata, stored, (), StatsSettings(columns=tuple(paths)), row_groups=[group]
            )
            for group in groups
        ]
        mask = might_match(resolved, {}, array_of(stats, pa.string())).to_pylist()
        return [group for group, is_wanted in zip(groups, mask, strict=True) if is_wanted]

    return choose


def choose_one_group(choose: ChooseRowGroups | None, number: int) -> ChooseRowGroups:
    """Choose one row group, if it can hold a matching row."""

    def choose_one(metadata: pq.FileMetaData) -> Sequence[int]:
        chosen = range(metadata.num_row_groups) if choose is None else choose(metadata)
        return [number] if number in chosen else []

    return choose_one
