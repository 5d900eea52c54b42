"""Adds and removes behave like all values, though they are no dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle

import pytest

from delta_ops.protocol.actions import AddFile, DeletionVector, FileAction, RemoveFile

VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="x" * 20, size_in_bytes=1, cardinality=1, offset=1
)
ACTIONS = [
    AddFile(path="a", size=1, partition_values={"p": None}, modification_time=2),
    RemoveFile(path="a", partition_values={"p": "b"}, deletion_vector=VECTOR),
]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: type(action).__name__)
def test_it_is_a_value(action: FileAction) -> None:
    with pytest.raises(AttributeError):
        action.path = "b"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(action)) == action == copy.deepcopy(action)
    assert not gc.is_tracked(action)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: type(action).__name__)
def test_the_functions_of_dataclasses_take_it(action: FileAction) -> None:
    other = dataclasses.replace(action, path="b", size=7)
    assert (other.path, other.size, action.path) == ("b", 7, "a")
    assert dataclasses.replace(action, path=action.path) == action
    names = [each.name for each in dataclasses.fields(action)]
    assert names == list(dataclasses.asdict(action))
    assert dataclasses.asdict(action)["partition_values"] == action.partition_values
