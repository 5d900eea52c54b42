"""The store clock reads the time of a file that it creates and deletes."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_ops.errors import StorageError
from delta_ops.storage import open_storage
from delta_ops.storage.store_clock import store_time_ms
from tests.support.counting_storage import CountingStorage


def test_the_time_is_that_of_the_disk_and_no_file_stays(tmp_path: Path) -> None:
    found = store_time_ms(open_storage(tmp_path))
    (tmp_path / "later").touch()
    assert found <= (tmp_path / "later").stat().st_mtime_ns // 1_000_000
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "later"]


def test_a_file_that_another_process_deletes_is_a_typed_error(tmp_path: Path) -> None:
    inner = open_storage(tmp_path)

    def delete_first(_number: int, method: str, path: str, moment: str) -> None:
        if (method, moment) == ("stat", "before"):
            inner.delete(path)

    with pytest.raises(StorageError, match="another process deleted it"):
        store_time_ms(CountingStorage(inner, delete_first))
