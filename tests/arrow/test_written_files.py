"""Either all written files stay or none, even if other threads still run when one fails."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from delta_ops.arrow.write.written_files import WrittenFiles, all_or_none
from delta_ops.protocol.actions import AddFile
from delta_ops.storage import open_storage

LARGE = 1 << 20


def write_file(folder: Path, name: str) -> AddFile:
    (folder / name).write_bytes(b"rows")
    return AddFile(path=name, partition_values={}, size=4, modification_time=0, data_change=True)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_written_files_stay(tmp_path: Path) -> None:
    with all_or_none(open_storage(tmp_path)) as files:

        def write(name: str) -> str:
            files.keep([write_file(tmp_path, name)])
            return name

        writes = [(1, partial(write, name)) for name in ("a", "b", "c")]
        assert files.write_all(writes, LARGE, 2) == ["a", "b", "c"]
    assert {add.path for add in files.adds} == names_in(tmp_path) == {"a", "b", "c"}


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    def write_and_interrupt(files: WrittenFiles) -> None:
        files.keep([write_file(tmp_path, "a")])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), all_or_none(open_storage(tmp_path)) as files:
        write_and_interrupt(files)
    assert names_in(tmp_path) == set()
    assert files.adds == ()


def test_a_file_that_is_finished_late_is_deleted_by_its_thread(tmp_path: Path) -> None:
    fails, is_abandoned, is_finished = threading.Event(), threading.Event(), threading.Event()

    def finish_late(files: WrittenFiles) -> None:
        fails.set()
        assert is_abandoned.wait(10)
        files.keep([write_file(tmp_path, "late")])
        is_finished.set()

    def write_all(files: WrittenFiles) -> None:
        thread = threading.Thread(target=finish_late, args=[files])
        thread.start()
        assert fails.wait(10)
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"), all_or_none(open_storage(tmp_path)) as files:
        write_all(files)
    is_abandoned.set()
    assert is_finished.wait(10)
    assert names_in(tmp_path) == set()


def test_after_a_failure_no_write_is_begun(tmp_path: Path) -> None:
    begun: list[int] = []

    def write(number: int) -> None:
        begun.append(number)
        raise OSError(f"write {number} found no room")

    writes = [(LARGE, partial(write, number)) for number in range(9)]
    with pytest.raises(OSError, match="found no room"):  # noqa: SIM117
        with all_or_none(open_storage(tmp_path)) as files:
            files.write_all(writes, LARGE, 2)
    assert len(begun) <= 2  # two are under way at once
