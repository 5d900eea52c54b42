"""Chunks that stay in a NetCDF or HDF5 file.

Source: "NetCDF Classic Format Specification", Appendix B of the NetCDF user guide.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zarr")
pytest.importorskip("xarray")

import h5py
import numpy as np
import xarray
import zarr
from zarr.codecs import BytesCodec

from delta_ops.arrays import DeltaStore, create_array_table, etag_of
from delta_ops.errors import DeltaOpsError
from delta_ops.storage import open_storage

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
]

NC_DIMENSION, NC_VARIABLE, NC_FLOAT, NC_DOUBLE = 10, 11, 5, 6
RAIN = np.linspace(0, 30, 12, dtype=">f4").reshape(4, 3)
HOURS = np.arange(4, dtype=">f8")


def text(name: str) -> bytes:
    encoded = name.encode()
    return struct.pack(">i", len(encoded)) + encoded + bytes(-len(encoded) % 4)


def netcdf_file() -> tuple[bytes, dict[str, tuple[int, int]]]:
    """A file of the classic format whose records interleave two variables.

    Returns:
        The bytes, and for each variable its first offset and the bytes of each record.
    """

    def header(offsets: dict[str, int]) -> bytes:
        variables = b"".join(
            text(name)
            + struct.pack(">i", len(dimensions))
            + struct.pack(f">{len(dimensions)}i", *dimensions)
            + bytes(8)  # no attributes
            + struct.pack(">iii", code, size, offsets[name])
            for name, dimensions, code, size in (
                ("time", (0,), NC_DOUBLE, 8),
                ("rain", (0, 1), NC_FLOAT, 12),
            )
        )
        dimensions = text("time") + bytes(4) + text("x") + struct.pack(">i", 3)  # time has records
        parts = [
            b"CDF\x01" + struct.pack(">i", len(HOURS)),
            struct.pack(">ii", NC_DIMENSION, 2) + dimensions,
            bytes(8),  # no attributes
            struct.pack(">ii", NC_VARIABLE, 2) + variables,
        ]
        return b"".join(parts)

    start = len(header({"time": 0, "rain": 0}))
    records = b"".join(HOURS[each : each + 1].tobytes() + RAIN[each].tobytes() for each in range(4))
    content = header({"time": start, "rain": start + 8}) + records
    return content, {"time": (start, 8), "rain": (start + 8, 12)}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder with a file, whose chunks a table names."""
    folder = tmp_path / "archive"
    folder.mkdir()
    content, variables = netcdf_file()
    (folder / "rain #1%.nc").write_bytes(content)
    etag = etag_of(open_storage(str(folder)).stat("rain #1%.nc"))
    create_array_table(tmp_path / "t")
    store = DeltaStore.begin(tmp_path / "t")
    for name, values, dimensions in (("time", HOURS, ["time"]), ("rain", RAIN, ["time", "x"])):
        zarr.create_array(
            store,
            name=name,
            shape=values.shape,
            chunks=(1, *values.shape[1:]),
            dtype=values.dtype,
            serializer=BytesCodec(endian="big"),
            compressors=None,
            dimension_names=dimensions,
        )
        offset, size = variables[name]
        for record in range(len(values)):
            key = f"{name}/c/{record}" + "/0" * (values.ndim - 1)
            place = offset + 20 * record
            location = f"{folder}/rain #1%.nc"
            store.set_virtual(key, location, offset=place, length=size, etag=etag)
    store.commit()
    return folder


def read(archive: Path, prefix: Path) -> Any:
    reader = DeltaStore(archive.parent / "t", virtual_prefixes={str(prefix): None})
    return xarray.open_zarr(reader, consolidated=False).load()


def test_records_of_a_netcdf_file_are_read_as_an_array(archive: Path) -> None:
    found = read(archive, archive)
    expected = xarray.Dataset({"rain": (("time", "x"), RAIN)}, coords={"time": HOURS})
    xarray.testing.assert_equal(found, expected)


def test_a_netcdf_file_that_has_changed_is_rejected(archive: Path) -> None:
    file = archive / "rain #1%.nc"
    file.write_bytes(file.read_bytes() + b"more")
    with pytest.raises(DeltaOpsError, match="changed") as error:
        read(archive, archive)
    assert "time/c/" in str(error.value)


def test_a_netcdf_file_outside_of_the_allowed_prefixes_is_not_read(archive: Path) -> None:
    with pytest.raises(DeltaOpsError, match="virtual_prefixes"):
        read(archive, archive.parent / "arch")


def test_chunks_of_an_hdf5_file_are_read_as_an_array(tmp_path: Path) -> None:
    values = np.arange(30, dtype="<i4").reshape(6, 5)
    with h5py.File(tmp_path / "grid.h5", "w") as file:
        chunked = file.create_dataset("grid", data=values, chunks=(4, 5), fillvalue=-1)
        chunks = [chunked.id.get_chunk_info(each) for each in range(chunked.id.get_num_chunks())]
    create_array_table(tmp_path / "t")
    store = DeltaStore.begin(tmp_path / "t")
    zarr.create_array(
        store,
        name="grid",
        shape=(9, 5),
        chunks=(4, 5),
        dtype=values.dtype,
        fill_value=-1,
        serializer=BytesCodec(endian="little"),
        compressors=None,
    )
    for chunk in chunks:
        key = f"grid/c/{chunk.chunk_offset[0] // 4}/0"
        location = f"{tmp_path}/grid.h5"
        store.set_virtual(key, location, offset=chunk.byte_offset, length=chunk.size)
    store.commit()
    reader = DeltaStore(tmp_path / "t", virtual_prefixes={str(tmp_path): None})
    found = np.asarray(zarr.open_array(reader, path="grid", mode="r")[:])
    np.testing.assert_array_equal(found[:6], values)
    assert np.all(found[6:] == -1)
