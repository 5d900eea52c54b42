"""One pool for all I/O: in order, bounded, without a way to wait for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from delta_ops.storage.concurrency import MAX_CONCURRENCY, in_parallel, run_ahead


def test_as_many_calls_run_at_once_as_the_pool_has_threads() -> None:
    barrier = threading.Barrier(MAX_CONCURRENCY, timeout=10)
    assert in_parallel(lambda i: (barrier.wait(), i)[1], range(32)) == list(range(32))


def test_calls_of_several_callers_share_the_pool() -> None:
    lock = threading.Lock()
    now, most = 0, 0

    def call(_: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.001)
        with lock:
            now -= 1

    callers = [threading.Thread(target=in_parallel, args=(call, range(100))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert 1 < most <= MAX_CONCURRENCY


def test_a_call_that_calls_in_parallel_itself_does_not_wait_for_ever() -> None:
    def call(i: int) -> int:
        inner = in_parallel(lambda j: i * j, range(3))
        return sum(inner) + sum(run_ahead(((1, lambda: i) for _ in range(2)), 1))

    assert in_parallel(call, range(100)) == [5 * i for i in range(100)]


def test_the_error_of_the_first_item_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda i: 1 // i, [1, 0, 2])


def reads_of(sizes: list[int], under_way: list[int]) -> Iterator[tuple[int, Callable[[], int]]]:
    for size in sizes:
        under_way.append(size)
        yield size, lambda size=size: size  # type: ignore[misc]


@pytest.mark.parametrize("sizes", [[], [5], [1] * 50, [100] * 50, [1, 100, 1, 1, 100, 3] * 5])
def test_reads_come_in_their_order_and_are_bounded(sizes: list[int]) -> None:
    under_way: list[int] = []
    found = []
    for size in run_ahead(reads_of(sizes, under_way), max_bytes=10):
        found.append(under_way.pop(0))
        assert found[-1] == size
        ahead = under_way[:-1]  # the last one has been asked for, and waits
        assert len(ahead) <= MAX_CONCURRENCY
        assert sum(ahead) <= 10 or len(ahead) <= 1
    assert found == sizes


def test_the_next_read_is_under_way_before_the_last_one_is_used() -> None:
    second_began = threading.Event()
    reads = run_ahead([(100, lambda: None), (100, second_began.set)], 1)
    next(reads)
    assert second_began.wait(10)
    reads.close()


def test_reads_that_nobody_takes_are_given_up() -> None:
    began: list[int] = []
    reads = run_ahead(((1, lambda i=i: began.append(i)) for i in range(1_000)), 10)  # type: ignore[misc]
    next(reads)
    reads.close()
    in_parallel(lambda _: None, range(100))
    assert len(began) <= MAX_CONCURRENCY + 2
