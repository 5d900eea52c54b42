"""Run tags: identify the files of one sorted run, which were written by one merge.

The rows of each file of a run are sorted by the sort key, and no two files overlap, although their
statistics may touch. Another engine writes files without these tags: each is a run by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log.version.pruning import values_of
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import FALSE_SCALAR, scalar
from delta_ops.protocol.sort_key import SORTED_BY, sorted_tags
from delta_ops.protocol.table_definition import TableDefinition

RUN = "delta_ops.run"
ORDER_TAGS = (SORTED_BY, RUN)
"""Tags that no longer hold when rows are written in another order."""


def runs_of(adds: pa.RecordBatch, definition: TableDefinition) -> pa.Array:
    """The run of each file; null for a file that is a run by itself.

    Args:
        adds: With `tags`.
    """
    tags = adds["tags"]
    stated = (sorted_tags(definition) or {}).get(SORTED_BY)
    is_sorted = pc.equal(values_of(tags, SORTED_BY), scalar(stated, pa.string()))
    runs = values_of(tags, RUN)
    return pc.if_else(pc.fill_null(is_sorted, FALSE_SCALAR), runs, scalar(None, runs.type))


def mark_run(adds: Iterable[AddFile]) -> tuple[AddFile, ...]:
    """Tag files that one merge has written as a new run."""
    run = {RUN: str(uuid.uuid4())}
    return tuple(replace(add, tags={**(add.tags or {}), **run}) for add in adds)
