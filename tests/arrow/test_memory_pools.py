"""Arrow's memory pool during a rewrite and after it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import col
from delta_ops.arrow.memory_pools import fast_pool, returning_memory, sparing_memory


@pytest.fixture
def usual() -> pa.MemoryPool:
    """Arrow's default on Linux."""
    pool = pa.default_memory_pool()
    assert pool.backend_name == "mimalloc"
    assert fast_pool() is not None
    return pool


@pytest.mark.usefixtures("usual")
def test_it_is_the_fast_one_until_the_last_one_leaves() -> None:
    first, second = sparing_memory(), sparing_memory()
    for enter in (first, second):
        enter.__enter__()
        assert pa.default_memory_pool().backend_name == "jemalloc"
    first.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == "jemalloc"
    second.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == "mimalloc"


def test_after_an_error_it_is_as_before(usual: pa.MemoryPool) -> None:
    with pytest.raises(RuntimeError), sparing_memory():
        raise RuntimeError
    assert pa.default_memory_pool().backend_name == usual.backend_name


def test_a_pool_that_its_owner_chooses_meanwhile_stays(usual: pa.MemoryPool) -> None:
    try:
        with sparing_memory():
            pa.set_memory_pool(pa.system_memory_pool())
        assert pa.default_memory_pool().backend_name == "system"
    finally:
        pa.set_memory_pool(usual)


@pytest.mark.parametrize("name", ["system", "jemalloc"])
def test_a_pool_that_its_owner_has_chosen_stays(usual: pa.MemoryPool, name: str) -> None:
    chosen = {"system": pa.system_memory_pool, "jemalloc": pa.jemalloc_memory_pool}[name]()
    pa.set_memory_pool(chosen)
    try:
        with sparing_memory():
            assert pa.default_memory_pool().backend_name == name
        assert pa.default_memory_pool().backend_name == name
    finally:
        pa.set_memory_pool(usual)


def test_verbs_leave_it_as_it_was(tmp_path: Path, usual: pa.MemoryPool) -> None:
    rows = pa.table({"id": [1, 2, 3], "x": [1, 1, 1]})
    da.write(tmp_path, rows)
    da.update(tmp_path, {"x": 2}, col("id") == 1)
    da.delete(tmp_path, col("id") == 2)
    merge = da.merge(tmp_path, rows, "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert pa.default_memory_pool().backend_name == usual.backend_name


@pytest.mark.usefixtures("usual")
def test_there_are_no_huge_pages_until_the_last_one_leaves() -> None:
    def are_off() -> bool:
        return bool(ctypes.CDLL(None).prctl(42, 0, 0, 0, 0))  # PR_GET_THP_DISABLE

    assert not are_off()
    first, second = returning_memory(), returning_memory()
    for enter in (first, second):
        enter.__enter__()
        assert are_off()
    first.__exit__(None, None, None)
    assert are_off()
    second.__exit__(None, None, None)
    assert not are_off()


@pytest.mark.usefixtures("usual")
def test_huge_pages_that_the_owner_has_turned_off_stay_so() -> None:
    prctl = ctypes.CDLL(None).prctl
    prctl(41, 1, 0, 0, 0)
    try:
        with returning_memory():
            pass
        assert prctl(42, 0, 0, 0, 0)
    finally:
        prctl(41, 0, 0, 0, 0)
