"""Acero: run conditions and joins in Arrow's execution engine, in the calling thread.

`pyarrow.acero` has the same classes. We import the private module because `pyarrow.acero` also
imports `pyarrow.dataset`, which nearly doubles the time of `import delta_ops.arrow`
(`benchmarks/optimisations.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow._acero import (
    Declaration,
    HashJoinNodeOptions,
    ProjectNodeOptions,
    TableSourceNodeOptions,
)


def evaluate(condition: pc.Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return whether each row meets a condition."""
    rows = _source(pa.Table.from_batches([batch]))
    judged = Declaration("project", ProjectNodeOptions([condition], ["is_met"]))
    # Passing the work to Arrow's threads takes as long as the evaluation.
    table = Declaration.from_sequence([rows, judged]).to_table(use_threads=False)
    return table["is_met"].combine_chunks()


def inner_join(
    left: pa.Table, right: pa.Table, keys: Sequence[str], kept: tuple[str, str]
) -> pa.Table:
    """Join two tables on columns with the same names; keeps one column of each side."""
    options = HashJoinNodeOptions("inner", keys, keys, [kept[0]], [kept[1]])
    join = Declaration("hashjoin", options, [_source(left), _source(right)])
    return join.to_table(use_threads=False)


def _source(table: pa.Table) -> Declaration:
    return Declaration("table_source", TableSourceNodeOptions(table))
