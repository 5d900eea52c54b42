"""The storage of an operation in a search: lost answers, late listings, and its calls."""

from __future__ import annotations

import uuid

import pytest

from delta_ops.errors import StorageError
from delta_ops.storage import Storage, open_storage
from tests.interleaving.calls import Call, may_swap
from tests.interleaving.schedule import Order
from tests.interleaving.turns import Run, run_in_turns


@pytest.fixture
def storage() -> Storage:
    """An in-memory storage with only the file x/old."""
    storage = open_storage(f"memory://{uuid.uuid4().hex}/table")
    storage.create("x/old", b"1")
    return storage


def paths(storage: Storage) -> list[str]:
    return sorted(info.path for info in storage.list_tree(""))


def create(storage: Storage) -> None:
    storage.create("x/new", b"22")


def test_an_answer_is_lost_after_the_store_has_done_it(storage: Storage) -> None:
    order = Order.from_text("a[0:] b[0:]; lost a:0")
    run = run_in_turns({"a": create, "b": paths}, storage, order)
    assert isinstance(run.outcomes["a"].error, StorageError)
    assert run.outcomes["b"].value == ["x/new", "x/old"]


def test_a_delete_without_an_answer_counts_as_not_deleted(storage: Storage) -> None:
    order = Order.from_text("a[0:] b[0:]; lost a:0")
    delete = {"a": lambda storage: storage.delete_many(["x/old"]), "b": paths}
    run = run_in_turns(delete, storage, order)
    assert [run.outcomes[name].value for name in "ab"] == [["x/old"], []]


def change_and_look(storage: Storage) -> list[str]:
    create(storage)
    storage.delete("x/old")
    return paths(storage)


def look_twice(storage: Storage) -> list[list[str]]:
    directly = [info.path for info in storage.list_from("x", "")]
    by_name = [info.path for info in storage.find(["x/new", "x/old"])]
    return [directly, paths(storage), by_name]


@pytest.mark.parametrize(
    ("lag", "expected"),
    [
        pytest.param(0, [["x/new"], ["x/new"], ["x/new"]], id="at once"),
        pytest.param(3, [["x/old"], ["x/new"], ["x/new"]], id="after three calls"),
        pytest.param(99, [["x/old"], ["x/old"], ["x/new"]], id="much later"),
    ],
)
def test_a_listing_shows_late_what_another_has_changed_and_a_name_at_once(
    storage: Storage, lag: int, expected: list[list[str]]
) -> None:
    order = Order.from_text(f"a[0:2] b[0:] a[2:]; late {lag}")
    run = run_in_turns({"a": change_and_look, "b": look_twice}, storage, order)
    assert run.outcomes["b"].value == expected
    assert run.outcomes["a"].value == ["x/new"]


def calls(run: Run, name: str) -> list[str]:
    return [str(call) for call in run.calls_of(name)]


def test_files_are_deleted_and_streamed_files_created_in_calls_of_their_own(
    storage: Storage,
) -> None:
    def operate(storage: Storage) -> None:
        storage.create_from_stream("y", lambda stream: _write(stream, storage.read("x/old")))
        storage.delete_many(["x/old", "y"])

    def _write(stream: object, data: bytes) -> None:
        assert hasattr(stream, "write")
        stream.write(data)

    run = run_in_turns({"a": operate, "b": paths}, storage, Order.from_text("a[0:] b[0:]"))
    assert calls(run, "a") == [
        "read x/old",
        "create_from_stream y",
        "delete_many x/old",
        "delete_many y",
    ]
    assert run.outcomes["b"].value == []


def call(method: str, **touched: set[str]) -> Call:
    return Call(method=method, **{name: frozenset(paths) for name, paths in touched.items()})


READ, WRITE = call("read", reads={"x/a"}), call("create", writes={"x/a"})


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(READ, READ, True, id="two reads"),
        pytest.param(READ, WRITE, False, id="a read and a write of a file"),
        pytest.param(WRITE, WRITE, False, id="two writes of a file"),
        pytest.param(WRITE, call("create", writes={"x/b"}), True, id="writes of two files"),
        pytest.param(WRITE, call("list_from", lists={"x"}), False, id="a listing of its directory"),
        pytest.param(WRITE, call("list_from", lists={"y"}), True, id="a listing of another one"),
        pytest.param(WRITE, call("list_from", lists={""}), True, id="a listing of that above"),
        pytest.param(WRITE, call("list_tree", trees={""}), False, id="a listing of all"),
        pytest.param(
            WRITE, call("is_directory", trees={"x"}), False, id="whether there is a directory"
        ),
    ],
)
def test_calls_may_change_places_where_neither_sees_what_the_other_writes(
    one: Call, other: Call, expected: bool
) -> None:
    assert may_swap(one, other) is expected
    assert may_swap(other, one) is expected
