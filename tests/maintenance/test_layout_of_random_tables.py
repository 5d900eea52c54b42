"""Layout of random tables: vectors, mapping, nested types, nulls, files of several schemas."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.maintenance import OptimizeResult, optimize, purge
from delta_ops.protocol.schema import LONG, StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from tests.support.random_tables import COMPARABLE, Drawn
from tests.support.tables import rows, rows_by_deltalake

ROWS = 40
KEY = StructField("key", LONG)
OPERATIONS: dict[str, Callable[[DeltaLog], OptimizeResult]] = {
    "put together": optimize,
    "sorted": lambda log: optimize(log, zorder_by=["key"], target_size=2_000, full=True),
    "along Hilbert's curve": lambda log: optimize(
        log, zorder_by=["key", "second"], curve="hilbert", target_size=2_000, full=True
    ),
    "purged": lambda log: purge(log, old_schema=True),
}


class Writable(Drawn):
    """Random tables that every engine can write."""

    types = COMPARABLE
    separators = "-é_"


def random_table(root: Path, seed: int, mode: str) -> DeltaLog:
    """Files of three schemas, each with more columns than the previous one, and deleted rows.

    A mapped table deletes rows by deletion vectors.
    """
    drawn = Writable(seed, is_mapped=False)
    fields = [KEY, StructField("second", LONG)]
    properties = {
        "delta.enableDeletionVectors": "false" if mode == "none" else "true",
        "delta.columnMapping.mode": mode,
        "delta.feature.timestampNtz": "supported",
    }
    for part in range(3):
        fields += [drawn.field(drawn.type(2)) for _ in range(2)]
        for _ in range(2):
            values = [[drawn.value(each.data_type) for _ in range(ROWS)] for each in fields]
            values[0] = [drawn.random.choice((None, drawn.random.randrange(99))) for _ in values[0]]
            schema = arrow_schema_from_schema(StructType(tuple(fields)))
            arrays = [pa.array(v, each.type) for v, each in zip(values, schema, strict=True)]
            data = pa.Table.from_arrays(arrays, schema=schema)
            is_new = part == 0 and not (root / "_delta_log").exists()
            source_data = {"configuration": properties} if is_new else {"merge_schema": True}
            da.write(root, data, **source_data)
        if part == 0:  # a later delete would put all files of older schemas together
            da.delete(root, col("key") < 20)
    return DeltaLog(root)


PAIRS = list(product(["none", "name"], OPERATIONS))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("seed", "mode", "operation"),
    [
        *((seed, *pair) for seed, pair in enumerate(PAIRS)),
        *(pytest.param(8, *pair, marks=pytest.mark.full) for pair in PAIRS),
        *(
            pytest.param(seed, *pair, marks=pytest.mark.long)
            for seed in range(9, 12)
            for pair in PAIRS
        ),
    ],
)
def test_no_row_changes(tmp_path: Path, seed: int, mode: str, operation: str) -> None:
    log = random_table(tmp_path, seed, mode)
    before = str(rows(da.to_table(log)))
    result = OPERATIONS[operation](log)
    assert result.files_removed > 1
    assert str(rows(da.to_table(log))) == before
    if mode == "none":  # it reads no mapped columns and no vectors
        assert str(rows_by_deltalake(tmp_path)) == before
    if operation != "put together":
        assert not OPERATIONS[operation](log).plan.has_work
