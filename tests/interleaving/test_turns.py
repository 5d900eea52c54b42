"""The search itself: it runs the orders that it names, and finds faults made on purpose."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from functools import partial

import pytest

from delta_ops.storage import Storage, open_storage
from delta_ops.storage.concurrency import run_parallel
from tests.interleaving.enumeration import kills, two_changes
from tests.interleaving.schedule import Order, alternating
from tests.interleaving.turns import Operate, Run, run_in_turns
from tests.support.tiers import seeded

Fresh = Callable[[], Storage]

ORDERS = [
    "a[0:2] b[0:1] a[2:] b[1:]",
    "b[0:] a[0:]",
    "a[0:1!] b[0:]",
    "b[0:3] a[0:1] b[3:]; lost b:2; late 8",
    "drop-create'[0:4] drop-create[0:] drop-create'[4:]",
    "restore[0:7!] vacuum[0:] restore again[0:]",
]


@pytest.mark.parametrize("text", ORDERS)
def test_an_order_is_read_back_from_its_text(text: str) -> None:
    assert str(Order.from_text(text)) == text


@pytest.fixture
def fresh() -> Fresh:
    """Makes an empty in-memory storage."""
    return lambda: open_storage(f"memory://{uuid.uuid4().hex}/table")


def reading(name: str, number: int) -> Operate:
    """An operation that reads this many files, and returns the number."""

    def run(storage: Storage) -> str:
        for k in range(number):
            list(storage.find([f"{name}{k}"]))
        return name

    return run


def made(run: Run) -> str:
    return " ".join(f"{step.who}{step.number}" for step in run.steps)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a[0:] b[0:]", "a0 a1 a2 b0 b1 b2", id="one after the other"),
        pytest.param("b[0:1] a[0:2] b[1:] a[2:]", "b0 a0 a1 b1 b2 a2", id="two changes of turn"),
        pytest.param("a[0:2] b[0:]", "a0 a1 b0 b1 b2 a2", id="what is left runs at last"),
        pytest.param("a[0:2!] b[0:]", "a0 a1 b0 b1 b2", id="who is killed calls nothing"),
        pytest.param("a[0:9!] b[0:]", "a0 a1 a2 b0 b1 b2", id="who has ended is not killed"),
    ],
)
def test_calls_come_in_the_requested_order(fresh: Fresh, text: str, expected: str) -> None:
    operations = {"a": reading("a", 3), "b": reading("b", 3)}
    run = run_in_turns(operations, fresh(), Order.from_text(text))
    assert made(run) == expected


def test_a_killed_operation_has_no_answer_and_the_other_has_its_own(
    fresh: Fresh,
) -> None:
    operations = {"a": reading("a", 3), "b": reading("b", 3)}
    order = Order.from_text("a[0:2!] b[0:]")
    run = run_in_turns(operations, fresh(), order)
    assert run.outcomes["a"].is_killed
    assert run.outcomes["b"].value == "b"


def test_parallel_calls_of_an_operation_run_in_sequence(
    fresh: Fresh,
) -> None:
    threads: set[int] = set()

    def operate(storage: Storage) -> None:
        def look(path: str) -> None:
            threads.add(threading.get_ident())
            list(storage.find([path]))

        run_parallel(look, "xyz")

    operations = {"a": operate, "b": reading("b", 1)}
    run = run_in_turns(operations, fresh(), Order.from_text("a[0:2] b[0:]"))
    assert made(run) == "a0 a1 b0 a2"
    assert len(threads) == 1


def test_a_waiting_operation_continues_when_the_other_has_run(
    fresh: Fresh,
) -> None:
    lock = threading.Lock()

    def operate(storage: Storage) -> None:
        list(storage.find(["x"]))
        with lock:
            list(storage.find(["y"]))

    operations: dict[str, Operate] = {"a": operate, "b": operate}
    order = Order.from_text("a[0:1] b[0:] a[1:]")
    run = run_in_turns(operations, fresh(), order, patience_s=0.1)
    assert made(run) == "a0 b0 a1 b1"
    assert run.num_waits == 1


def test_all_orders_with_two_changes_are_run_where_no_two_come_to_the_same(
    fresh: Fresh,
) -> None:
    """Each call replaces the same file."""

    def operate(storage: Storage) -> None:
        for _ in range(3):
            storage.replace("x", b"")

    runs: list[str] = []

    def run(order: Order) -> Run:
        ran = run_in_turns({"a": operate, "b": operate}, fresh(), order)
        runs.append(made(ran))
        return ran

    counts = two_changes("a", "b", run)
    assert set(runs) == {
        "a0 a1 a2 b0 b1 b2",
        *("b0 a0 a1 a2 b1 b2", "b0 b1 a0 a1 a2 b2", "b0 b1 b2 a0 a1 a2"),
        *("a0 b0 a1 a2 b1 b2", "a0 b0 b1 a1 a2 b2", "a0 b0 b1 b2 a1 a2"),
        *("a0 a1 b0 a2 b1 b2", "a0 a1 b0 b1 a2 b2", "a0 a1 b0 b1 b2 a2"),
        *("b0 a0 b1 b2 a1 a2", "b0 a0 a1 b1 b2 a2"),
        *("b0 b1 a0 b2 a1 a2", "b0 b1 a0 a1 b2 a2"),
    }
    assert len(runs) == counts.run == counts.orders == 14


def random_operation(seed: int) -> Operate:
    """Lists and writes; the name and content of its writes depend on its reads."""

    def run(storage: Storage) -> int:
        chance = seeded(seed)
        seen = 0
        for _ in range(5):
            path = f"{chance.choice('dde')}/{chance.choice('xyz')}"
            kind = chance.randrange(6)
            if kind == 0:
                found = [info.path for info in storage.list_from(path[:1], "")]
            elif kind == 1:
                found = sorted(info.path for info in storage.list_tree("") if chance.random() < 2)
            elif kind == 2:
                found = [storage.read(each.path).decode() for each in storage.find([path])]
            elif kind == 3:
                found = storage.delete_many([path, "d/x"])
            else:
                storage.replace(f"d/{'xyz'[seen % 3]}", str(seen).encode())
                found = []
            seen = (seen * 31 + sum(map(ord, "".join(found)))) % 1009
        return seen

    return run


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 8))]
)
def test_the_orders_that_are_left_out_come_to_what_others_come_to(fresh: Fresh, seed: int) -> None:
    operations = {"a": random_operation(2 * seed), "b": random_operation(2 * seed + 1)}

    def outcome(found: set[object], order: Order) -> Run:
        storage = fresh()
        run = run_in_turns(operations, storage, order)
        files = {info.path: storage.read(info.path) for info in storage.list_tree("")}
        answers = [(name, outcome.value) for name, outcome in sorted(run.outcomes.items())]
        found.add((tuple(sorted(files.items())), tuple(answers)))
        return run

    by_search: set[object] = set()
    counts = two_changes("a", "b", partial(outcome, by_search))
    by_force: set[object] = set()
    for names in (("a", "b"), ("b", "a")):
        for i in range(8):
            for j in range(8):
                outcome(by_force, Order(alternating(*names, (i, j))))
    assert by_search == by_force
    assert counts.run < counts.orders


def look_then_act(name: str) -> Operate:
    """Reads a number from a file and adds one: broken, because nothing excludes other writers."""

    def run(storage: Storage) -> None:
        number = int(storage.read("number"))
        storage.replace("number", str(number + 1).encode())

    return run


Explore = Callable[[Callable[[Order], Run]], object]


@pytest.mark.parametrize(
    ("explore", "expected"),
    [
        pytest.param(
            partial(two_changes, "a", "b"),
            "b[0:1] a[0:] b[1:]: 2, not 3; b0 read number, a0 read number, "
            "a1 replace number, b1 replace number",
            id="two changes of turn",
        ),
        pytest.param(
            partial(kills, "a", "b"),
            "b[0:1] a[0:2!] b[1:] a again[0:]: 3, not 4; b0 read number, a0 read number, "
            "a1 replace number, b1 replace number, a again0 read number, a again1 replace number",
            id="a kill and a rerun",
        ),
    ],
)
def test_an_operation_that_looks_and_then_acts_is_found(
    fresh: Fresh, explore: Explore, expected: str
) -> None:
    failures: list[str] = []

    def run(order: Order) -> Run:
        storage = fresh()
        storage.replace("number", b"1")
        operations = {turn.who: look_then_act(turn.who) for turn in order.turns}
        ran = run_in_turns(operations, storage, order)
        number, right = int(storage.read("number")), 1 + len(operations)
        if number != right:
            calls = ", ".join(f"{step.who}{step.number} {step.call}" for step in ran.steps)
            failures.append(f"{order}: {number}, not {right}; {calls}")
        return ran

    explore(run)
    assert expected in failures
