"""The journal: entries of many writers, faults of the store, and kills."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import (
    InvalidRequestError,
    LogCorruptError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.log.refs.journal import LONG_JOURNAL, Change, Entry, Journal
from delta_ops.log.refs.refs import REFS_DIRECTORY, begin_deletion, end_deletion
from delta_ops.storage import FileInfo, Storage, open_storage
from tests.support.counting_storage import CountingStorage, recording
from tests.support.faulty_storage import Faults, FaultyStorage, copies_of, crashes


class Names(msgspec.Struct, frozen=True):
    """A state for the tests: the names that were added, in order."""

    names: tuple[str, ...] = ()


ENTRIES = msgspec.json.Decoder(Entry[Names])


def journal_at(storage: Storage) -> Journal[Names]:
    return Journal(
        storage=storage, directory="j", entries=ENTRIES, empty=Names(), sleep=lambda _: None
    )


def add_name(journal: Journal[Names], name: str, time_ms: int = 0) -> Names:
    return journal.append(
        lambda state: Change(state=Names((*state.names, name)), text=f"add {name}"),
        lambda: time_ms,
    ).state


def names_in(storage: Storage) -> tuple[str, ...]:
    return journal_at(storage).load().state.names


def test_each_of_many_writers_adds_its_entry_once(tmp_path: Path) -> None:
    journal = journal_at(open_storage(tmp_path))
    names = [str(number) for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda name: add_name(journal, name).names, names))
    assert sorted(names_in(journal.storage)) == sorted(names)
    assert sorted(map(len, seen)) == list(range(1, 25))
    assert [int(path.stem) for path in sorted((tmp_path / "j").iterdir())] == list(range(1, 25))


@pytest.mark.parametrize("seed", range(8))
def test_an_entry_counts_once_whatever_the_store_does(tmp_path: Path, seed: int) -> None:
    faults = Faults(
        lost_requests=0.1, lost_answers=0.3, resent_creates=0.3, late_requests=0.1, delays=0.1
    )
    added: list[str] = []
    unknown: list[str] = []

    def work(writer: int) -> None:
        storage = FaultyStorage(open_storage(tmp_path), faults, seed * 10 + writer)
        for number in range(5):
            name = f"{writer}-{number}"
            try:
                add_name(journal_at(storage), name)
                added.append(name)
            except StorageError:
                unknown.append(name)
        storage.settle()

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = names_in(open_storage(tmp_path))
    assert len(names) == len(set(names))
    assert set(added) <= set(names) <= {*added, *unknown}


def test_a_kill_at_any_call_leaves_the_old_state_or_the_new_state(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "t")
    add_name(journal_at(storage), "first")
    states = []
    for _, state in crashes(
        copies_of(tmp_path / "t", tmp_path / "copies"),
        lambda mortal: add_name(journal_at(mortal), "second"),
    ):
        states.append(names_in(state))
        assert add_name(journal_at(state), "third").names[-1] == "third"
    assert set(states) == {("first",), ("first", "second")}


def test_the_state_of_a_time_is_that_of_the_last_entry_before_it(tmp_path: Path) -> None:
    journal = journal_at(open_storage(tmp_path))
    for time_ms, name in ((10, "a"), (30, "b"), (20, "c")):  # the last clock was set back
        add_name(journal, name, time_ms)
    states = [journal.load_at(time_ms).state.names for time_ms in (9, 10, 29, 30, 99)]
    assert states == [(), ("a",), ("a",), ("a", "b", "c"), ("a", "b", "c")]


def test_a_change_of_nothing_writes_nothing(tmp_path: Path) -> None:
    journal = journal_at(open_storage(tmp_path))
    add_name(journal, "a")
    assert journal.append(lambda _: None, lambda: 0).number == 1
    assert len(list((tmp_path / "j").iterdir())) == 1


@pytest.mark.parametrize("number_shown", [0, 1, 2])
def test_an_entry_that_a_listing_does_not_show_yet_is_found(
    tmp_path: Path, number_shown: int
) -> None:
    shown = {f"j/{number_shown:020}.json"}
    for name in ("a", "b"):
        add_name(journal_at(open_storage(tmp_path)), name)

    class Late(CountingStorage):
        def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
            return (each for each in super().list_from(directory, start) if each.path in shown)

    journal = journal_at(Late(open_storage(tmp_path), recording([])))
    assert journal.load().state.names == ("a", "b")
    assert journal.load_at(99).state.names == ("a", "b")
    assert journal.append(need_b, lambda: 0).number == 2
    assert add_name(journal, "c").names == ("a", "b", "c")


def need_b(state: Names) -> None:
    """Refuse a state without b, as the deletion of a ref does."""
    if "b" not in state.names:
        raise InvalidRequestError("there is no b")


def test_loading_takes_three_calls_and_so_does_an_append(tmp_path: Path) -> None:
    for number in range(20):
        add_name(journal_at(open_storage(tmp_path)), str(number))
    calls: list[str] = []
    storage = CountingStorage(open_storage(tmp_path), recording(calls))
    journal_at(storage).load()
    assert calls == ["list_from", "read", "read"]  # the second finds no later entry
    calls.clear()
    add_name(journal_at(storage), "x")
    assert calls == ["list_from", "read", "create"]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        pytest.param(b"{", LogCorruptError, "restore the file from a backup", id="no JSON"),
        pytest.param(b'{"format": 1}', LogCorruptError, "missing required field", id="no entry"),
        pytest.param(b'{"format": 2}', UnsupportedFeatureError, "a later format of j", id="later"),
    ],
)
def test_a_damaged_entry_is_an_error_and_nothing_is_appended(
    tmp_path: Path, content: bytes, error: type[Exception], message: str
) -> None:
    journal = journal_at(open_storage(tmp_path))
    add_name(journal, "a")
    (tmp_path / "j" / f"{2:020}.json").write_bytes(content)
    with pytest.raises(error, match=message):
        add_name(journal, "b")
    assert len(list((tmp_path / "j").iterdir())) == 2


@pytest.mark.parametrize(
    "number",
    [pytest.param(5, id="of an earlier table"), pytest.param(10**20 - 1, id="the last number")],
)
def test_an_entry_after_a_gap_is_an_error_and_nothing_is_appended(
    tmp_path: Path, number: int
) -> None:
    journal = journal_at(open_storage(tmp_path))
    add_name(journal, "a")
    (tmp_path / "j" / f"{number:020}.json").write_bytes(
        (tmp_path / "j" / f"{1:020}.json").read_bytes()
    )
    with pytest.raises(LogCorruptError, match="it follows no entry"):
        add_name(journal, "b")
    assert len(list((tmp_path / "j").iterdir())) == 2


def test_a_file_with_digits_of_another_script_is_no_entry(tmp_path: Path) -> None:
    journal = journal_at(open_storage(tmp_path))
    add_name(journal, "a")
    (tmp_path / "j" / ("\u0660" * 19 + "\u0662.json")).write_bytes(b"")
    assert add_name(journal, "b").names == ("a", "b")


def aged(journal: Journal[Names], root: Path, num_entries: int, num_old: int) -> None:
    """Add entries; the first `num_old` are 31 days older than the others."""
    for number in range(num_entries):
        add_name(journal, str(number), time_ms=0 if number < num_old else 31 * DAY_MS)
    make_old(root / "j", num_old)


def make_old(directory: Path, num_old: int) -> None:
    for path in directory.iterdir():
        if int(path.stem) <= num_old:
            os.utime(path, (path.stat().st_mtime - 31 * 86_400,) * 2)


def numbers_in(root: Path) -> list[int]:
    return sorted(int(path.stem) for path in (root / "j").iterdir())


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("num_entries", "num_old", "first"),
    [
        pytest.param(120, 10, 11, id="old entries"),
        pytest.param(120, 110, 21, id="the newest hundred stay"),
        pytest.param(120, 0, 1, id="young entries stay"),
        pytest.param(0, 0, None, id="no entries"),
    ],
)
def test_old_entries_are_deleted(
    tmp_path: Path, num_entries: int, num_old: int, first: int | None
) -> None:
    journal = journal_at(open_storage(tmp_path))
    (tmp_path / "j").mkdir()
    aged(journal, tmp_path, num_entries, num_old)
    names = names_in(journal.storage)
    journal.delete_old()
    left = numbers_in(tmp_path)
    assert left == ([] if first is None else list(range(first, num_entries + 1)))
    assert names_in(journal.storage) == names


def test_refs_before_the_oldest_entry_are_unknown(tmp_path: Path) -> None:
    journal = journal_at(open_storage(tmp_path))
    aged(journal, tmp_path, 110, 5)
    assert journal.load_at(0).number == 5
    journal.delete_old()
    with pytest.raises(VersionNotFoundError, match="has later entries only"):
        journal.load_at(0)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("left", ["none", "the entry before", "the entry after"])
def test_a_writer_that_was_paused_does_not_take_the_number_of_a_deleted_entry(
    tmp_path: Path, left: str
) -> None:
    journal = journal_at(open_storage(tmp_path))
    for number in range(5):
        add_name(journal, str(number))
    times = iter([0, 32 * DAY_MS])

    def clock() -> int:
        """The time of the paused writer: others append and delete entries after its first look."""
        return next(times, 32 * DAY_MS)

    def decide(state: Names) -> Change[Names]:
        if len(state.names) == 5:
            aged(journal, tmp_path, 110, 20)
            kept = {"none": (), "the entry before": (5,), "the entry after": (7,)}[left]
            files = {n: (tmp_path / "j" / f"{n:020}.json").read_bytes() for n in kept}
            journal.delete_old()
            for n, data in files.items():
                (tmp_path / "j" / f"{n:020}.json").write_bytes(data)
        return Change(state=Names((*state.names, "paused")), text="add paused")

    entry = journal.append(decide, clock)
    assert entry.number == 116
    names = names_in(journal.storage)
    assert (len(names), names[-1]) == (116, "paused")
    assert 6 not in numbers_in(tmp_path)


def test_the_end_of_a_vacuum_deletes_old_entries(tmp_path: Path) -> None:
    storage, directory = open_storage(tmp_path), tmp_path / REFS_DIRECTORY
    for _ in range(LONG_JOURNAL // 2 + 5):
        end_deletion(storage, begin_deletion(storage, 0, system_clock), system_clock)
    make_old(directory, 50)
    end_deletion(storage, begin_deletion(storage, 0, system_clock), system_clock)
    assert min(int(path.stem) for path in directory.iterdir()) == 51
