"""Keys, rows and bytes that are rejected, and files outside of the table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("zarr")

from zarr.core.buffer import cpu

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, create_array_table, etag_of
from delta_ops.arrays.chunks import chunk_path, digest_of
from delta_ops.arrays.rows import COLUMNS
from delta_ops.errors import ArrayKeyError, InvalidRequestError, StorageError, TableExistsError
from delta_ops.storage import open_storage

LONG = bytes(range(256)) * 400


@pytest.fixture
def table(tmp_path: Path) -> DeltaLog:
    log = DeltaLog(tmp_path / "t")
    create_array_table(log)
    return log


def set_key(log: DeltaLog, key: str, data: bytes) -> None:
    store = DeltaStore.begin(log)
    store.set_sync(key, cpu.Buffer.from_bytes(data))
    store.commit()


def append_row(log: DeltaLog, **values: Any) -> None:
    """Append a row as another engine would."""
    row = {"node": "/a", "block": "10000-0", "key": "a/c/0", "data": b"x", **values}
    da.write(log, pa.Table.from_pylist([row], schema=COLUMNS))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("key", ["../a/c/0", "/a/c/0", "", "a//c/0"])
def test_a_bad_key_is_rejected_by_reads_and_writes(table: DeltaLog, key: str) -> None:
    store = DeltaStore.begin(table)
    calls: list[Callable[[], object]] = [
        lambda: store.get_sync(key),
        lambda: store.set_sync(key, cpu.Buffer.from_bytes(b"")),
        lambda: store.delete_sync(key),
        lambda: store.set_virtual(key, "/data/x", offset=0, length=1),
    ]
    for call in calls:
        with pytest.raises(ArrayKeyError) as caught:
            call()
        assert caught.value.key == key


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        pytest.param({"block": "10000-1"}, "belongs to block 10000-0", id="another block"),
        pytest.param({"node": "/b"}, "belongs to block 10000-0 of node /a", id="another node"),
        pytest.param({"data": None}, "neither data nor a location", id="no bytes"),
        pytest.param(
            {"data": None, "location": "/x", "offset": -1, "length": 1},
            "neither data nor a location",
            id="a negative offset",
        ),
        pytest.param({"key": "a/../c/0"}, "is not a key", id="a key that leads out"),
    ],
)
def test_a_bad_row_of_another_engine_is_rejected(
    table: DeltaLog, values: dict[str, Any], reason: str
) -> None:
    append_row(table, **values)
    with pytest.raises(ArrayKeyError, match=reason):
        read_all(table)


def read_all(log: DeltaLog) -> list[str]:
    """All keys; a listing reads each row."""

    async def collect() -> list[str]:
        return [key async for key in DeltaStore(log).list()]

    return asyncio.run(collect())


@pytest.mark.full
def test_two_rows_of_a_key_are_rejected(table: DeltaLog) -> None:
    append_row(table)
    append_row(table, data=b"y")
    with pytest.raises(ArrayKeyError, match="two rows"):
        DeltaStore(table).get_sync("a/c/0")


def test_bytes_that_do_not_fit_their_hash_are_rejected(table: DeltaLog, tmp_path: Path) -> None:
    set_key(table, "a/c/0", LONG)
    chunk = tmp_path / "t" / chunk_path(digest_of(LONG))
    chunk.write_bytes(LONG[::-1])
    with pytest.raises(ArrayKeyError, match="hash") as caught:
        DeltaStore(table).get_sync("a/c/0")
    assert caught.value.key == "a/c/0"


def test_a_location_that_does_not_fit_the_hash_is_rejected(table: DeltaLog) -> None:
    append_row(
        table,
        data=None,
        location="_delta_log/00000000000000000000.json",
        offset=0,
        length=9,
        sha256=digest_of(LONG),
    )
    with pytest.raises(ArrayKeyError, match="do not fit"):
        DeltaStore(table).get_sync("a/c/0")


@pytest.mark.full
def test_a_missing_chunk_names_its_key(table: DeltaLog, tmp_path: Path) -> None:
    set_key(table, "a/c/0", LONG)
    (tmp_path / "t" / chunk_path(digest_of(LONG))).unlink()
    with pytest.raises(StorageError, match="a/c/0"):
        DeltaStore(table).get_sync("a/c/0")


@pytest.mark.full
def test_a_partial_chunk_of_a_killed_writer_is_replaced(table: DeltaLog, tmp_path: Path) -> None:
    chunk = tmp_path / "t" / chunk_path(digest_of(LONG))
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(LONG[:10])
    set_key(table, "a/c/0", LONG)
    found = DeltaStore(table).get_sync("a/c/0")
    assert found is not None
    assert found.to_bytes() == LONG


def test_a_table_of_other_columns_is_rejected(tmp_path: Path) -> None:
    da.write(tmp_path / "t", pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="not an array table"):
        DeltaStore(tmp_path / "t").get_sync("zarr.json")
    with pytest.raises(InvalidRequestError, match="not an array table"):
        DeltaStore.begin(tmp_path / "t").set_sync("zarr.json", cpu.Buffer.from_bytes(b"{}"))


@pytest.mark.full
def test_an_existing_table_is_not_created_again(table: DeltaLog) -> None:
    with pytest.raises(TableExistsError):
        create_array_table(table)


def test_a_version_and_a_session_cannot_be_combined(table: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match="not several"):
        DeltaStore(table, version=0, session=DeltaStore.begin(table).session)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A file of 100 bytes, 0 to 99."""
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive/a.nc").write_bytes(bytes(range(100)))
    return tmp_path / "archive"


def add_reference(log: DeltaLog, archive: Path, *, name: str = "a.nc", length: int = 20) -> None:
    store = DeltaStore.begin(log)
    etag = etag_of(open_storage(archive).stat("a.nc"))
    store.set_virtual("a/c/0", f"{archive}/{name}", offset=10, length=length, etag=etag)
    store.commit()


def test_a_range_of_an_outside_file_is_read(table: DeltaLog, archive: Path) -> None:
    add_reference(table, archive)
    for prefix in (str(archive), f"{archive}/", archive.as_uri()):
        store = DeltaStore(table, virtual_prefixes={prefix: None})
        found = store.get_sync("a/c/0")
        assert found is not None
        assert found.to_bytes() == bytes(range(10, 30))


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("prefix", [None, "other", "arch"])
def test_a_file_outside_of_the_prefixes_is_rejected(
    table: DeltaLog, archive: Path, prefix: str | None
) -> None:
    add_reference(table, archive)
    allowed = {} if prefix is None else {str(archive.parent / prefix): None}
    with pytest.raises(ArrayKeyError, match="virtual_prefixes") as caught:
        DeltaStore(table, virtual_prefixes=allowed).get_sync("a/c/0")
    assert caught.value.key == "a/c/0"


def test_a_location_that_leaves_its_prefix_is_rejected(table: DeltaLog, archive: Path) -> None:
    add_reference(table, archive, name="../secret")
    with pytest.raises(ArrayKeyError, match="virtual_prefixes"):
        DeltaStore(table, virtual_prefixes={str(archive): None}).get_sync("a/c/0")


def test_an_outside_file_that_has_changed_is_rejected(table: DeltaLog, archive: Path) -> None:
    add_reference(table, archive)
    (archive / "a.nc").write_bytes(bytes(101))
    with pytest.raises(ArrayKeyError, match="was changed"):
        DeltaStore(table, virtual_prefixes={str(archive): None}).get_sync("a/c/0")


@pytest.mark.full
def test_an_outside_file_that_is_gone_is_rejected(table: DeltaLog, archive: Path) -> None:
    add_reference(table, archive)
    (archive / "a.nc").unlink()
    with pytest.raises(ArrayKeyError, match="does not exist"):
        DeltaStore(table, virtual_prefixes={str(archive): None}).get_sync("a/c/0")


@pytest.mark.full
def test_a_range_behind_the_end_of_an_outside_file_is_an_error(
    table: DeltaLog, archive: Path
) -> None:
    add_reference(table, archive, length=200)
    with pytest.raises(StorageError):
        DeltaStore(table, virtual_prefixes={str(archive): None}).get_sync("a/c/0")


def test_a_relative_location_is_rejected(table: DeltaLog) -> None:
    with pytest.raises(ArrayKeyError, match="absolute path"):
        DeltaStore.begin(table).set_virtual("a/c/0", "archive/a.nc", offset=0, length=1)
