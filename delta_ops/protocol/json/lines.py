"""Lines of JSON as an Arrow table, by Arrow's own reader: it takes no fraction for whole."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.json as pj

_BLOCK_BYTES = 1 << 20


def read_json_lines(lines: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """A row for each line that holds an object; what the schema has not is passed over.

    Text is UTF-8 for certain.

    Raises:
        pa.ArrowInvalid: A line is no JSON, or does not fit the schema.
    """

    def read(block_bytes: int) -> pa.Table:
        return pj.read_json(
            pa.BufferReader(lines),
            # A single block gains nothing from threads, and waits for them.
            read_options=pj.ReadOptions(
                block_size=block_bytes, use_threads=len(lines) > block_bytes
            ),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
            # Arrow's own default gives memory back at once and asks for it again: half as fast.
            memory_pool=pa.system_memory_pool(),
        )

    try:
        table = read(_BLOCK_BYTES)
    except pa.ArrowInvalid as error:
        if "straddl" not in str(error):
            raise
        table = read(len(lines) + 1)  # a line is longer than a block
    table.validate(full=True)  # Arrow's reader takes any bytes for text
    return table
