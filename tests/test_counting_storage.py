from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from delta_ops.storage import FileInfo, Storage, open_storage
from tests.support.counting_storage import CountingStorage


class StopHereError(Exception):
    pass


@pytest.fixture
def inner(tmp_path: Any) -> Storage:
    storage = open_storage(tmp_path)
    storage.create("a", b"one")
    return storage


def ignore(number: int, method: str, path: str, moment: Literal["before", "after"]) -> None:
    pass


def test_every_call_is_numbered_and_framed(inner: Storage) -> None:
    calls: list[tuple[int, str, str, str]] = []
    storage: Storage = CountingStorage(inner, lambda *call: calls.append(call))
    storage.read("a")
    storage.create("b", b"two")
    assert calls == [
        (1, "read", "a", "before"),
        (1, "read", "a", "after"),
        (2, "create", "b", "before"),
        (2, "create", "b", "after"),
    ]


def test_the_call_is_carried_out_between_the_two_moments(inner: Storage) -> None:
    there: list[bool] = []
    storage = CountingStorage(
        inner, lambda *_: there.append("b" in [info.path for info in inner.list_tree("")])
    )
    storage.create("b", b"two")
    assert there == [False, True]


def test_a_listing_counts_once_when_it_is_called(inner: Storage) -> None:
    storage = CountingStorage(inner, ignore)
    listing = storage.list_tree("")
    inner.create("later", b"")
    assert ([info.path for info in listing], storage.num_calls) == (["a"], 1)


def test_a_call_that_fails_is_framed_as_well(inner: Storage) -> None:
    moments: list[str] = []
    storage = CountingStorage(inner, lambda *call: moments.append(call[3]))
    with pytest.raises(FileExistsError):
        storage.create("a", b"two")
    assert moments == ["before", "after"]


@pytest.mark.parametrize(
    ("moment", "created"),
    [
        pytest.param("before", False, id="what raises before the call prevents it"),
        pytest.param("after", True, id="what raises after the call leaves it done"),
    ],
)
def test_on_call_may_raise(inner: Storage, moment: str, created: bool) -> None:
    def stop(number: int, method: str, path: str, now: Literal["before", "after"]) -> None:
        if now == moment:
            raise StopHereError

    with pytest.raises(StopHereError):
        CountingStorage(inner, stop).create("b", b"two")
    assert ("b" in [info.path for info in inner.list_tree("")]) is created


def write_nothing(stream: object) -> None:
    pass


@pytest.mark.parametrize(
    ("call", "counted"),
    [
        pytest.param(lambda s: s.uri, 0, id="the uri reaches no store"),
        pytest.param(lambda s: s.locate("a"), 0, id="locate reaches no store"),
        pytest.param(lambda s: s.kept_ranges(s.stat("a")), 1, id="kept_ranges reaches no store"),
        pytest.param(lambda s: list(s.list_from("", "")), 1, id="list_from"),
        pytest.param(lambda s: list(s.list_tree("")), 1, id="list_tree"),
        pytest.param(lambda s: s.stat("a"), 1, id="stat"),
        pytest.param(lambda s: s.read("a"), 1, id="read"),
        pytest.param(lambda s: s.read_ranges("a", [(0, 2)]), 1, id="read_ranges"),
        pytest.param(lambda s: s.open_input("a").read(), 1, id="open_input"),
        pytest.param(lambda s: s.create("b", b""), 1, id="create"),
        pytest.param(
            lambda s: s.create_from_stream("b", write_nothing).path, 1, id="create_from_stream"
        ),
        pytest.param(lambda s: s.replace("a", b""), 1, id="replace"),
        pytest.param(lambda s: s.persist(["a"]), 1, id="persist"),
        pytest.param(lambda s: s.delete("a"), 1, id="delete"),
        pytest.param(lambda s: s.delete_many(["a"]), 1, id="delete_many"),
    ],
)
def test_each_method_answers_as_the_storage_within(
    tmp_path: Any, call: Callable[[Storage], object], counted: int
) -> None:
    plain = open_storage(tmp_path)
    counting = CountingStorage(plain, ignore)
    answers = []
    for storage in (plain, counting):
        plain.delete_many(["a", "b"])
        plain.create("a", b"one")
        answers.append((without_times(call(storage)), without_times(list(plain.list_tree("")))))
    assert (answers[1], counting.num_calls) == (answers[0], counted)


def without_times(answer: object) -> object:
    if isinstance(answer, FileInfo):
        return answer.path, answer.size
    return [without_times(item) for item in answer] if isinstance(answer, list) else answer
