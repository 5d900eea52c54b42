"""Inconsistent footers of Parquet files never end the process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

CHANGES_EACH_BYTE = """
import io
import struct
import pyarrow as pa
import pyarrow.parquet as pq
from delta_ops.storage.parquet_ranges import validate_chunks

rows = pa.table({"a": [[{"b": "x"}], None], "c": [1, 2]})
sink = io.BytesIO()
pq.write_table(rows, sink)
intact = sink.getvalue()
start = len(intact) - 8 - struct.unpack_from("<I", intact, len(intact) - 8)[0]
refused = 0
for place in range(start, len(intact) - 8):
    for change in CHANGES:
        damaged = bytearray(intact)
        damaged[place] = (damaged[place] + change) % 256
        try:
            metadata = pq.read_metadata(pa.BufferReader(bytes(damaged)))
            leaves, groups = range(metadata.num_columns), range(metadata.num_row_groups)
            validate_chunks(metadata, len(intact), leaves, groups)
        except (ValueError, OSError, pa.ArrowException):
            refused += 1
        else:
            [metadata.row_group(group).column(leaf) for group in groups for leaf in leaves]
print(refused)
"""


@pytest.mark.parametrize("changes", [(1, 255), pytest.param((2, 128), marks=pytest.mark.full)])
def test_no_byte_of_a_footer_ends_the_process_that_reads_it(changes: tuple[int, int]) -> None:
    """Runs in its own process, because Arrow would abort it."""
    program = textwrap.dedent(CHANGES_EACH_BYTE).replace("CHANGES:", f"{changes}:")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 0
