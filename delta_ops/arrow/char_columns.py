"""CHAR columns: read with the padding that writers may have left out.

Source: Spark's `ApplyCharTypePadding`. Only whole columns are padded: fields of structs and
elements of lists and maps come as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.schema import StructType, char_length


def plan_padding(schema: StructType) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """How to pad batches of these columns."""
    widths = [char_length(each) for each in schema.fields]
    if not any(widths):
        return lambda batch: batch

    def pad(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            array if width is None else pc.utf8_rpad(array, width)
            for array, width in zip(batch.columns, widths, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)

    return pad
