"""Commits of arrays: what readers see, which blocks are written, and which sessions conflict."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zarr")

import zarr
from zarr.core.buffer import cpu

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.errors import (
    ArrayKeyError,
    ChunkConflictError,
    InvalidRequestError,
    SessionConflictError,
    SessionEndedError,
)
from delta_ops.maintenance import create_checkpoint, optimize
from delta_ops.storage import open_storage
from delta_ops.versioning import create_branch, create_tag, list_sessions, open_session
from tests.support.counting_storage import CountingStorage, recording

AIR = "air"


@pytest.fixture
def table(tmp_path: Path) -> DeltaLog:
    """An array of 30 zeros in 3 chunks; version 1."""
    log = DeltaLog(tmp_path / "t")
    create_array_table(log)
    store = DeltaStore.begin(log)
    new_array(store)
    store.commit()
    return log


def new_array(store: DeltaStore, name: str = AIR) -> None:
    array = zarr.create_array(
        store, name=name, shape=(30,), chunks=(10,), dtype="i4", fill_value=-1
    )
    array[:] = 0


def writable(store: DeltaStore, name: str = AIR) -> Any:
    return zarr.open_array(store, path=name, mode="r+")


def numbers(source: DeltaLog | DeltaStore, name: str = AIR) -> list[int]:
    store = source if isinstance(source, DeltaStore) else DeltaStore(source)
    array: Any = zarr.open_array(store, path=name, mode="r")
    return [int(each) for each in array[:]]


@pytest.mark.full
def test_nobody_sees_a_session_before_its_commit(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    writable(store)[:] = 7
    assert numbers(table) == [0] * 30
    assert store.commit() == 2
    assert numbers(table) == numbers(store) == [7] * 30


@pytest.mark.full
def test_versions_tags_and_branches_stay_as_they_are(table: DeltaLog) -> None:
    create_tag(table, "zeros", version=1)
    create_branch(table, "audit")
    store = DeltaStore.begin(table)
    writable(store)[:] = 7
    store.commit()
    old = [
        DeltaStore(table, version=1),
        DeltaStore(table, ref="tag:zeros"),
        DeltaStore(table, ref="branch:audit"),
    ]
    assert [numbers(each) for each in old] == [[0] * 30] * 3


@pytest.mark.full
def test_a_reader_stays_at_its_version(table: DeltaLog) -> None:
    reader = DeltaStore(table)
    assert numbers(reader) == [0] * 30
    store = DeltaStore.begin(table)
    writable(store)[:] = 7
    store.commit()
    assert numbers(reader) == numbers(pickle.loads(pickle.dumps(reader))) == [0] * 30


def test_a_commit_writes_only_the_touched_blocks(table: DeltaLog) -> None:
    before = {each.path for each in table.snapshot().add_files()}
    store = DeltaStore.begin(table)
    writable(store)[:10] = 7
    store.commit()
    added = [each for each in table.snapshot().add_files() if each.path not in before]
    assert [each.partition_values for each in added] == [{"node": "/air", "block": "10000-0"}]


def test_the_same_array_again_makes_no_version_and_no_chunk(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path / "t")
    create_array_table(log)
    data = np.random.default_rng(0).integers(0, 2**31, 60_000, "i4")

    def write_all() -> int | None:
        store = DeltaStore.begin(log)
        array = zarr.create_array(
            store, name=AIR, data=data, chunks=(30_000,), compressors=None, overwrite=True
        )
        assert array.nchunks == 2
        return store.commit()

    assert write_all() == 1
    chunks = sorted((tmp_path / "t/_delta_ops/chunks").rglob("*/*/*"))
    times = [each.stat().st_mtime_ns for each in chunks]
    assert len(times) == 2
    again = DeltaStore.begin(log)
    writable(again)[:] = data
    assert again.commit() is None
    assert [each.stat().st_mtime_ns for each in chunks] == times
    assert list_sessions(log) == []


@pytest.mark.full
def test_equal_chunks_are_one_file(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path / "t")
    create_array_table(log)
    store = DeltaStore.begin(log)
    data = bytes(100_000)
    for key in ("a/c/0", "a/c/1", "b/c/0"):
        store.set_sync(key, cpu.Buffer.from_bytes(data))
    store.commit()
    assert len(list((tmp_path / "t/_delta_ops/chunks").rglob("*/*/*"))) == 1
    assert da.count_rows(log) == 3


@pytest.mark.full
def test_a_block_holds_few_bytes_itself(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path / "t")
    create_array_table(log)
    store = DeltaStore.begin(log)
    rng = np.random.default_rng(0)
    values = {f"a/c/{n}": rng.bytes(60_000) for n in range(100)}
    for key, data in values.items():
        store.set_sync(key, cpu.Buffer.from_bytes(data))
    store.commit()
    held = da.to_table(log)["data"]
    assert 0 < sum(len(each) for each in held.to_pylist() if each is not None) <= 4 * 1024**2
    reader = DeltaStore(log)
    read = {key: reader.get_sync(key) for key in values}
    assert {key: each.to_bytes() for key, each in read.items() if each} == values


@pytest.mark.full
def test_other_engines_may_compact_and_query_the_rows(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    new_array(store, "more")
    store.commit()
    optimize(table)
    assert numbers(table) == numbers(table, "more") == [0] * 30
    assert da.count_rows(table, "node = '/air' AND block <> 'metadata'") == 3


def test_disjoint_regions_in_one_block_both_commit(table: DeltaLog) -> None:
    one, other = DeltaStore.begin(table), DeltaStore.begin(table)
    writable(one)[0:20] = 1
    writable(other)[20:30] = 2
    assert (one.commit(), other.commit()) == (2, 3)
    assert numbers(table) == [1] * 20 + [2] * 10


def test_of_overlapping_regions_exactly_one_commits(table: DeltaLog) -> None:
    one, other = DeltaStore.begin(table), DeltaStore.begin(table)
    writable(one)[0:20] = 1
    writable(other)[15:30] = 2
    one.commit()
    with pytest.raises(ChunkConflictError) as caught:
        other.commit()
    assert (caught.value.node, caught.value.coordinates) == ("/air", ((1,),))
    assert caught.value.keys == ("air/c/1",)
    assert numbers(table) == [1] * 20 + [0] * 10
    assert numbers(other) == [0] * 15 + [2] * 15  # the session is still open


@pytest.mark.parametrize(
    ("on_conflict", "middle"),
    [("ours", [0] * 5 + [2] * 5), ("theirs", [1] * 10)],
)
def test_a_conflict_is_resolved_chunk_by_chunk(
    table: DeltaLog, on_conflict: str, middle: list[int]
) -> None:
    one, other = DeltaStore.begin(table), DeltaStore.begin(table)
    writable(one)[0:20] = 1
    writable(other)[15:30] = 2
    one.commit()
    assert other.commit(on_conflict=on_conflict) == 3  # type: ignore[arg-type]
    assert numbers(table) == [1] * 10 + middle + [2] * 10


def test_the_same_bytes_conflict_too(table: DeltaLog) -> None:
    one, other = DeltaStore.begin(table), DeltaStore.begin(table)
    for store in (one, other):
        array = writable(store)
        array[0:10] = array[0:10] + 1
    one.commit()
    with pytest.raises(ChunkConflictError):
        other.commit()


@pytest.mark.full
def test_bytes_that_a_chunk_had_already_conflict_with_a_change(table: DeltaLog) -> None:
    one, other = DeltaStore.begin(table), DeltaStore.begin(table)
    writable(one)[0:10] = 1
    writable(other)[0:10] = 0
    one.commit()
    with pytest.raises(ChunkConflictError):
        other.commit()


def resize(store: DeltaStore) -> None:
    writable(store).resize((15,))


def delete_array(store: DeltaStore) -> None:
    del zarr.open_group(store, mode="r+")[AIR]


def write_chunk(store: DeltaStore) -> None:
    writable(store)[20:30] = 1


def grow(store: DeltaStore) -> None:
    writable(store).resize((60,))


def set_attribute(store: DeltaStore) -> None:
    writable(store).attrs["unit"] = "K"


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("change", [resize, delete_array, grow])
@pytest.mark.parametrize("chunk_first", [True, False])
def test_a_chunk_conflicts_with_another_shape(
    table: DeltaLog, change: object, chunk_first: bool
) -> None:
    assert callable(change)
    first, second = (write_chunk, change) if chunk_first else (change, write_chunk)
    one, other = DeltaStore.begin(table), DeltaStore.begin(table)
    first(one)
    second(other)
    one.commit()
    after = sorted(DeltaStore(table).log.snapshot().files()["path"].to_pylist())
    with pytest.raises(ChunkConflictError) as caught:
        other.commit()
    assert caught.value.node == "/air"
    with pytest.raises(ChunkConflictError):
        other.commit(on_conflict="ours")
    assert sorted(table.snapshot().files()["path"].to_pylist()) == after
    assert other.commit(on_conflict="theirs") is None


def test_attributes_may_change_beside_a_chunk(table: DeltaLog) -> None:
    one, other = DeltaStore.begin(table), DeltaStore.begin(table)
    set_attribute(one)
    write_chunk(other)
    one.commit()
    other.commit()
    array = zarr.open_array(DeltaStore(table), path=AIR, mode="r")
    assert (array.attrs["unit"], array[25]) == ("K", 1)


@pytest.mark.full
@pytest.mark.parametrize("delete_first", [True, False])
def test_a_deleted_group_conflicts_with_a_write_below_it(
    table: DeltaLog, delete_first: bool
) -> None:
    store = DeltaStore.begin(table)
    zarr.create_group(store, path="group")
    store.commit()
    one, other = DeltaStore.begin(table), DeltaStore.begin(table)
    remover, writer = (one, other) if delete_first else (other, one)
    del zarr.open_group(remover, mode="r+")["group"]
    new_array(writer, "group/new")
    one.commit()
    with pytest.raises(ChunkConflictError):
        other.commit()


@pytest.mark.full
def test_blocks_keep_their_shape_when_an_array_grows(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    array = writable(store)
    array.resize((100_020,))
    array[100_000:] = 5
    store.commit()
    blocks = {each.partition_values["block"] for each in table.snapshot().add_files()}
    assert blocks == {"metadata", "10000-0", "10000-1"}
    found: Any = zarr.open_array(DeltaStore(table), path=AIR, mode="r")
    assert list(found[99_990:]) == [-1] * 10 + [5] * 20


def test_pickled_copies_share_the_session(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    writable(store)[0:10] = 1
    copy = pickle.loads(pickle.dumps(store))
    assert numbers(copy) == [1] * 10 + [0] * 20
    writable(copy)[10:20] = 2
    writable(pickle.loads(pickle.dumps(copy)))[20:30] = 3
    assert store.commit() == 2
    assert numbers(table) == [1] * 10 + [2] * 10 + [3] * 10


def test_two_writers_of_a_session_that_set_one_chunk_conflict(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    copies = [pickle.loads(pickle.dumps(store)) for _ in range(2)]
    arrays = [writable(copy) for copy in copies]
    for number, array in enumerate(arrays):
        array[number * 5] = number + 1
    with pytest.raises(ChunkConflictError) as caught:
        store.commit()
    assert caught.value.coordinates == ((0,),)


def test_a_closed_store_has_staged_its_writes(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    with DeltaStore(table, session=store.session) as part:
        writable(part)[0:10] = 1
    assert store.commit() == 2
    assert numbers(table)[:10] == [1] * 10


@pytest.mark.full
def test_a_writer_may_change_what_it_has_seen_of_another(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    copy = pickle.loads(pickle.dumps(store))
    writable(copy)[0] = 1
    store.refresh()
    writable(store)[1] = 2
    store.commit()
    assert numbers(table)[:2] == [1, 2]


def test_a_session_commit_of_the_table_rejects_staged_arrays(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    writable(store)[:] = 1
    store.flush()
    assert store.session
    session = open_session(table, store.session)
    with pytest.raises(SessionConflictError, match="array changes"):
        session.commit()
    with pytest.raises(InvalidRequestError, match="array changes"):
        session.rebase()
    assert store.commit() == 2


@pytest.mark.full
def test_a_property_may_change_beside_a_session(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    writable(store)[:] = 1
    transaction = begin(table)
    transaction.set_properties({"owner": "me"})
    transaction.commit(operation="SET TBLPROPERTIES")
    assert store.commit() == 3
    assert numbers(table) == [1] * 30


def test_a_txn_is_committed_once(table: DeltaLog) -> None:
    for number in (1, 2):
        store = DeltaStore.begin(table, expires_in=timedelta(hours=1))
        writable(store)[:] = number
        assert store.commit(txn=("nightly", 7)) == 2
    late = DeltaStore.begin(table)
    writable(late)[:] = 3
    assert late.commit(txn=("nightly", 7)) == 2
    assert numbers(table) == [1] * 30
    assert list_sessions(table) == []


@pytest.mark.full
def test_stores_that_commit_one_session_at_once_make_one_version(table: DeltaLog) -> None:
    for version in (2, 3, 4):
        store = DeltaStore.begin(table)
        writable(store)[:] = version
        store.flush()
        stores = [DeltaStore(table, session=store.session) for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(DeltaStore.commit, stores)) == [version] * 3
        assert numbers(table) == [version] * 30


@pytest.mark.full
def test_sessions_that_commit_to_one_block_at_once_lose_no_chunk(table: DeltaLog) -> None:
    stores = [DeltaStore.begin(table) for _ in range(3)]
    for number, store in enumerate(stores):
        writable(store)[number * 10 : number * 10 + 10] = number + 1
    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(DeltaStore.commit, stores)) == {2, 3, 4}
    assert numbers(table) == [number // 10 + 1 for number in range(30)]


@pytest.mark.full
def test_bytes_that_a_commit_moves_to_a_chunk_do_not_conflict(table: DeltaLog) -> None:
    big = {f"b/c/{number}": bytes([number]) * 60_000 for number in range(100)}
    set_keys(table, dict(list(big.items())[:30]))
    one, other = DeltaStore.begin(table), DeltaStore.begin(table)
    for key in list(big)[30:]:
        one.set_sync(key, cpu.Buffer.from_bytes(big[key]))
    for key in list(big)[:30]:
        other.delete_sync(key)
    before = chunk_rows(table)
    one.commit()
    assert chunk_rows(table) - before  # some of them were rows
    other.commit()
    assert da.count_rows(table, "node = '/b'") == 70


def set_keys(log: DeltaLog, keys: dict[str, bytes]) -> None:
    store = DeltaStore.begin(log)
    for key, data in keys.items():
        store.set_sync(key, cpu.Buffer.from_bytes(data))
    store.commit()


def chunk_rows(log: DeltaLog) -> set[str]:
    """Keys of the first 30 whose bytes are a chunk."""
    rows = da.to_table(log, ["key", "sha256"]).to_pylist()
    return {
        each["key"]
        for each in rows
        if each["sha256"] and each["key"] in {f"b/c/{number}" for number in range(30)}
    }


def test_a_session_is_read_by_its_token_only(table: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match="token"):
        DeltaStore(table, ref="session:x")


def write_part(store: DeltaStore, number: int) -> None:
    """The work of one process."""
    writable(store)[number * 10 : number * 10 + 10] = number


@pytest.mark.full
def test_processes_that_share_a_session_write_the_array_of_one_process(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_part, args=(store, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert store.commit() == 2
    assert numbers(table) == [number // 10 for number in range(30)]


@pytest.mark.full
def test_a_second_commit_does_nothing(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    writable(store)[:] = 1
    other = DeltaStore(table, session=store.session)
    assert [store.commit(), store.commit(), other.commit()] == [2, 2, 2]


@pytest.mark.full
def test_an_abandoned_session_takes_no_writes(table: DeltaLog) -> None:
    store = DeltaStore.begin(table)
    writable(store)[:] = 1
    store.abandon()
    store.close()
    with pytest.raises(SessionEndedError):
        writable(store)
    assert numbers(table) == [0] * 30


@pytest.mark.full
def test_a_version_cannot_be_written(table: DeltaLog) -> None:
    store = DeltaStore(table, version=1)
    with pytest.raises(ArrayKeyError, match="read-only") as caught:
        store.delete_sync("air/c/0")
    assert caught.value.key == "air/c/0"


def test_the_first_chunk_costs_six_calls(table: DeltaLog) -> None:
    calls: list[str] = []
    counted = CountingStorage(open_storage(table.uri), recording(calls))
    array: Any = zarr.open_array(DeltaStore(DeltaLog("", storage=counted)), path=AIR, mode="r")
    assert array[0] == 0
    assert len(calls) <= 6  # the log: its hint, its list and two commits; and two blocks


@pytest.mark.full
def test_the_first_chunk_after_a_checkpoint_costs_five_calls(table: DeltaLog) -> None:
    create_checkpoint(table)
    for _ in range(5):  # threads of Zarr must not list the files twice
        calls: list[str] = []
        counted = CountingStorage(open_storage(table.uri), recording(calls))
        store = DeltaStore(DeltaLog("", storage=counted))
        assert zarr.open_array(store, path=AIR, mode="r")[0] == 0
        # The log: its hint, its list and the checkpoint; and two blocks.
        assert len(calls) <= 5, calls
