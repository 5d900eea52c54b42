"""One pool for all I/O: results in order, bounded reads ahead, and no deadlock."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

import pytest

from delta_ops.storage.concurrency import (
    MAX_CONCURRENCY,
    Behind,
    run_ahead,
    run_behind,
    run_parallel,
)
from tests.support.forked import call_in_child, needs_fork
from tests.support.gate import PATIENCE_S, Gate, call_in_thread


class Busy:
    """Counts concurrent calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.most = 0

    def call(self, number: int) -> int:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        threading.Event().wait(0.001)
        with self._lock:
            self._now -= 1
        return number


def test_as_many_calls_run_at_once_as_the_pool_has_threads() -> None:
    barrier = threading.Barrier(MAX_CONCURRENCY, timeout=PATIENCE_S)
    assert run_parallel(lambda i: (barrier.wait(), i)[1], range(32)) == list(range(32))


def test_calls_of_several_callers_share_the_pool() -> None:
    busy = Busy()
    callers = [
        threading.Thread(target=run_parallel, args=(busy.call, range(100))) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert 1 < busy.most <= MAX_CONCURRENCY + len(callers)


def test_a_call_that_calls_in_parallel_itself_does_not_wait_for_ever() -> None:
    def call(i: int) -> int:
        inner = run_parallel(lambda j: i * j, range(3))
        return sum(inner) + sum(run_ahead(((1, lambda: i) for _ in range(2)), 1))

    assert run_parallel(call, range(100)) == [5 * i for i in range(100)]


def test_the_error_of_the_first_item_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run_parallel(lambda i: 1 // i, [1, 0, 2])


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
        ahead = under_way[:-1]  # the last read is requested, and waits
        assert len(ahead) <= MAX_CONCURRENCY
        assert sum(ahead) <= 10 or len(ahead) <= 1
    assert found == sizes


def test_the_next_read_is_under_way_before_the_last_one_is_used() -> None:
    # No other test uses this number of threads. Leftover offers of another test may fill the pool's
    # queue for a moment, and then no thread joins.
    num_threads = 3
    second_began = threading.Event()
    reads = run_ahead([(100, lambda: None), (100, second_began.set)], 1, num_threads)
    next(reads)
    assert second_began.wait(PATIENCE_S)
    reads.close()


def test_reads_that_nobody_takes_are_cancelled() -> None:
    began: list[int] = []
    reads = run_ahead(((1, lambda i=i: began.append(i)) for i in range(1_000)), 10)  # type: ignore[misc]
    next(reads)
    reads.close()
    run_parallel(lambda _: None, range(100))
    assert len(began) <= MAX_CONCURRENCY + 2


Calls = Callable[[Callable[[int], object], int], list[object]]
"""Makes a call for each of these numbers."""


def made_in_parallel(call: Callable[[int], object], number: int) -> list[object]:
    return run_parallel(call, range(number))


def made_ahead(
    call: Callable[[int], object], number: int, max_calls: int = MAX_CONCURRENCY
) -> list[object]:
    return list(run_ahead(((1, partial(call, i)) for i in range(number)), number, max_calls))


ways = pytest.mark.parametrize(
    ("calls", "num_threads"),
    [
        pytest.param(made_in_parallel, MAX_CONCURRENCY, id="in parallel"),
        pytest.param(made_ahead, MAX_CONCURRENCY, id="ahead", marks=pytest.mark.full),
        pytest.param(partial(made_ahead, max_calls=2), 2, id="ahead, by two threads"),
    ],
)


def all_threads(num_threads: int) -> Callable[[list[str]], bool]:
    """Whether all threads of a pool are held at the gate."""
    return lambda held: sum(name.startswith("delta_ops") for name in held) == num_threads


@ways
def test_while_all_threads_are_held_up_others_do_it_themselves(
    calls: Calls, num_threads: int
) -> None:
    gate = Gate()
    held = [lambda: calls(lambda _: gate.pass_by(), 100)] * 2
    with gate.holding(held, all_threads(num_threads)):
        done = call_in_thread(lambda: calls(lambda i: 2 * i, 100))
        assert done.result(PATIENCE_S / 2) == [2 * i for i in range(100)]


@ways
def test_calls_made_without_threads_are_not_kept_for_threads(
    calls: Calls, num_threads: int
) -> None:
    class Item:
        pass

    gate = Gate()
    held = [lambda: calls(lambda _: gate.pass_by(), 100)] * 2
    with gate.holding(held, all_threads(num_threads)):
        made = call_in_thread(lambda: [weakref.ref(item) for item in calls(lambda _: Item(), 100)])
        items = made.result(PATIENCE_S / 2)
        gc.collect()
        assert not any(item() for item in items)


@pytest.mark.full
def test_while_all_threads_are_held_up_offers_to_them_do_not_pile_up() -> None:
    def work_items() -> int:
        return sum(isinstance(each, Future) for each in gc.get_objects())

    gate, rounds = Gate(), 200
    held = [lambda: made_in_parallel(lambda _: gate.pass_by(), 100)] * 2
    with gate.holding(held, all_threads(MAX_CONCURRENCY)):
        before = work_items()
        for _ in range(rounds):
            run_parallel(str, range(MAX_CONCURRENCY))
        assert work_items() - before < rounds * MAX_CONCURRENCY / 8


@needs_fork
@ways
def test_a_child_forked_while_threads_are_at_work_has_threads_of_its_own(
    calls: Calls, num_threads: int
) -> None:
    def met(_: int) -> None:
        barrier.wait()

    gate, barrier = Gate(), threading.Barrier(num_threads, timeout=PATIENCE_S / 2)
    held = [lambda: calls(lambda _: gate.pass_by(), 100)] * 2
    with gate.holding(held, all_threads(num_threads)):
        assert call_in_child(lambda: calls(met, num_threads)) == [None] * num_threads


@needs_fork
def test_a_child_makes_the_calls_that_threads_of_its_parent_had_begun_or_not() -> None:
    gate = Gate()

    def call(i: int) -> int:
        if i in {1, 2}:
            gate.pass_by()
        return i

    made = run_ahead(((1, partial(call, i)) for i in range(9)), 9, max_calls=4)
    with gate.closed():
        assert next(made) == 0
        gate.wait_until(lambda held: len(held) == 2)
        assert call_in_child(lambda: list(made)) == list(range(1, 9))
    assert list(made) == list(range(1, 9))


@needs_fork
def test_a_child_goes_on_with_what_its_parent_has_begun_by_threads_of_its_own() -> None:
    def call(number: int) -> tuple[int, str]:
        threading.Event().wait(0.01)
        return number, threading.current_thread().name

    data = run_ahead(((1, partial(call, number)) for number in range(40)), 100, 4, 2)
    assert next(data)[0] == 0
    rest = call_in_child(lambda: list(data))
    assert [number for number, _ in rest] == list(range(1, 40))
    assert len({name for _, name in rest[10:]}) > 1
    data.close()


@pytest.mark.parametrize("max_threads", [1, 2])
def test_calls_lie_ready_for_threads_that_compute(max_threads: int) -> None:
    busy = Busy()
    calls = ((1, partial(busy.call, number)) for number in range(60))
    assert list(run_ahead(calls, 100, 6, max_threads)) == list(range(60))
    assert busy.most <= max_threads + 1  # and the caller's


def test_threads_that_wait_for_a_store_hold_up_none_that_compute() -> None:
    gate = Gate()
    waiting = [lambda: list(run_ahead(((1, gate.pass_by) for _ in range(9)), 100, 2))] * 3
    with gate.holding(waiting, lambda held: sum(name != "held" for name in held) == 2):
        barrier = threading.Barrier(2, timeout=PATIENCE_S / 4)
        calls = ((1, barrier.wait) for _ in range(4))
        assert sorted(run_ahead(calls, 100, 4, 2)) == [0, 0, 1, 1]


def test_after_an_error_no_other_call_is_begun() -> None:
    begun: list[int] = []

    def call(i: int) -> None:
        begun.append(i)
        raise ValueError(i)

    with pytest.raises(ValueError, match=r"^0$"):
        run_parallel(call, range(1_000))
    assert len(begun) <= MAX_CONCURRENCY


def test_an_interrupted_caller_does_not_wait_for_the_threads() -> None:
    gate, caller = Gate(), threading.current_thread()

    def call(_: int) -> None:
        if threading.current_thread() is caller:
            raise KeyboardInterrupt
        gate.pass_by()

    with gate.closed(), pytest.raises(KeyboardInterrupt):
        run_parallel(call, range(100))


def test_calls_behind_the_caller_are_made_in_order_and_never_two_at_once() -> None:
    lock, made = threading.Lock(), []

    def call(number: int) -> None:
        assert lock.acquire(blocking=False)
        threading.Event().wait(0.001)
        made.append(number)
        lock.release()

    run_behind(partial(call, number) for number in range(20))
    assert made == list(range(20))


def test_no_call_is_under_way_after_the_caller_has_failed() -> None:
    began, ended = threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        threading.Event().wait(0.05)
        ended.set()

    def calls() -> Iterator[Callable[[], None]]:
        yield call
        assert began.wait(PATIENCE_S)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_behind(calls())
    assert ended.is_set()


def test_items_are_passed_behind_the_caller_in_order_and_each_once() -> None:
    passed: list[list[int]] = []
    began = threading.Event()

    def call(items: list[int]) -> None:
        passed.append(items)
        began.set()

    with Behind(call, 2) as behind:
        behind.add(0)
        assert not passed
        behind.add(1)
        assert began.wait(PATIENCE_S)
        for number in range(2, 20):
            behind.add(number)
    assert [number for items in passed for number in items] == list(range(20))


def test_the_error_of_a_call_behind_the_caller_is_raised_at_the_end() -> None:
    failed = threading.Event()

    def call(items: list[int]) -> None:
        failed.set()
        raise ZeroDivisionError(items[0])

    def add_two() -> None:
        with Behind(call, 1) as behind:
            behind.add(7)
            assert failed.wait(PATIENCE_S)
            behind.add(8)

    with pytest.raises(ZeroDivisionError, match="7"):
        add_two()


def test_after_an_error_of_the_caller_no_items_are_passed_and_no_call_is_running() -> None:
    began, added, ended = threading.Event(), threading.Event(), threading.Event()
    passed = []

    def call(items: list[int]) -> None:
        passed.append(items)
        began.set()
        assert added.wait(PATIENCE_S)
        ended.set()

    def add_two() -> None:
        with Behind(call, 1) as behind:
            behind.add(7)
            assert began.wait(PATIENCE_S)
            behind.add(8)
            added.set()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        add_two()
    assert ended.is_set()
    assert passed == [[7]]
