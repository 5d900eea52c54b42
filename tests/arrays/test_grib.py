"""Chunks that stay in a GRIB file: the packed numbers of each message are a chunk.

Source: WMO Manual on Codes, FM 92 GRIB edition 2: templates 3.0, 4.0 and 5.0.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

pytest.importorskip("zarr")

import numpy as np
import zarr
from zarr.codecs import BytesCodec
from zarr.codecs.numcodecs import FixedScaleOffset

from delta_ops.arrays import DeltaStore, create_array_table, etag_of
from delta_ops.errors import DeltaOpsError
from delta_ops.storage import open_storage

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning"),
]

ROWS, COLUMNS = 3, 4
LEAST, STEPS = 250.0, 16
"""The reference value, and the steps of a degree: the binary scale factor is -4."""
HOURS = 2
PACKED = (np.arange(HOURS * ROWS * COLUMNS) * 700).astype(">u2").reshape(HOURS, ROWS, COLUMNS)
TEMPERATURES = LEAST + PACKED / STEPS


def section(number: int, content: bytes) -> bytes:
    return struct.pack(">IB", len(content) + 5, number) + content


def message(hour: int, packed: bytes) -> bytes:
    """A field of a grid of latitudes and longitudes, packed into 16 bits a value."""
    identification = struct.pack(">HHBBBHBBBBBBB", 98, 0, 4, 0, 1, 2026, 1, 31, hour, 0, 0, 0, 0)
    size = struct.pack(">BIBBH", 0, ROWS * COLUMNS, 0, 0, 0)
    earth = bytes([6]) + 3 * struct.pack(">BI", 0, 0)
    corners = struct.pack(">iiBii", 50_000_000, 5_000_000, 48, 48_000_000, 8_000_000)
    steps = struct.pack(">IIB", 1_000_000, 1_000_000, 0)
    grid = size + earth + struct.pack(">IIII", COLUMNS, ROWS, 0, 2**32 - 1) + corners + steps
    product = struct.pack(">HHBBBBBHBBI", 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0)
    surfaces = struct.pack(">BBIBBI", 103, 0, 2, 255, 255, 2**32 - 1)
    minus_4 = 2**15 + 4  # the sign is the first bit
    packing = struct.pack(">IHfHHBB", ROWS * COLUMNS, 0, LEAST, minus_4, 0, 16, 0)
    sections = (identification, grid, product + surfaces, packing, b"\xff", packed)
    numbered = zip((1, 3, 4, 5, 6, 7), sections, strict=True)
    body = b"".join(section(*each) for each in numbered) + b"7777"
    return b"GRIB" + struct.pack(">HBBQ", 0, 0, 2, 16 + len(body)) + body


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a message for each hour, whose packed numbers a table names."""
    file = tmp_path / "archive" / "t2m.grib2"
    file.parent.mkdir()
    messages = [message(hour, PACKED[hour].tobytes()) for hour in range(HOURS)]
    file.write_bytes(b"".join(messages))
    etag = etag_of(open_storage(str(file.parent)).stat(file.name))
    create_array_table(tmp_path / "t")
    store = DeltaStore.begin(tmp_path / "t")
    zarr.create_array(
        store,
        name="t2m",
        shape=TEMPERATURES.shape,
        chunks=(1, ROWS, COLUMNS),
        dtype="f8",
        filters=FixedScaleOffset(offset=LEAST, scale=STEPS, dtype="f8", astype=">u2"),
        serializer=BytesCodec(endian="big"),
        compressors=None,
    )
    end = 0
    for hour, each in enumerate(messages):
        end += len(each)
        size = PACKED[hour].nbytes
        offset = end - len(b"7777") - size
        store.set_virtual(f"t2m/c/{hour}/0/0", str(file), offset=offset, length=size, etag=etag)
    store.commit()
    return file


def test_messages_of_a_grib_file_are_read_as_an_array(file: Path) -> None:
    reader = DeltaStore(file.parents[1] / "t", virtual_prefixes={str(file.parent): None})
    found = zarr.open_array(reader, path="t2m", mode="r")[:]
    np.testing.assert_array_equal(found, TEMPERATURES)


def test_a_grib_file_that_has_changed_is_rejected(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"more")
    reader = DeltaStore(file.parents[1] / "t", virtual_prefixes={str(file.parent): None})
    with pytest.raises(DeltaOpsError, match=r"t2m\.grib2"):
        _ = zarr.open_array(reader, path="t2m", mode="r")[:]
