"""Offsets of streams: valid and invalid values in a checkpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.stream_offset import StreamOffset, stream_offset_from_json

OFFSET = {
    "sourceVersion": 1,
    "reservoirId": "t",
    "reservoirVersion": 3,
    "index": 2,
    "isStartingVersion": False,
}


@given(
    table_id=st.text(),
    version=st.integers(0, 2**63 - 1),
    index=st.integers(-1, 2**63 - 1),
    is_first=st.booleans(),
)
def test_an_offset_is_read_as_it_was_written(
    table_id: str, version: int, index: int, is_first: bool
) -> None:
    place = StreamOffset(
        table_id=table_id, version=version, index=index, is_starting_version=is_first
    )
    assert stream_offset_from_json(place.to_json()) == place


@pytest.mark.parametrize("index", [-100, -20, -19], ids=["base", "change", "after a change"])
def test_a_place_before_a_change_of_columns_is_before_all_files(index: int) -> None:
    text = json.dumps({**OFFSET, "sourceVersion": 3, "index": index})
    assert stream_offset_from_json(text) == StreamOffset(table_id="t", version=3)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"reservoirId": None}, id="no table"),
        pytest.param({"reservoirVersion": -1}, id="no version"),
        pytest.param({"reservoirVersion": "3"}, id="a version that is a text"),
        pytest.param({"index": True}, id="an index that is none"),
        pytest.param({"isStartingVersion": None}, id="no flag"),
    ],
)
def test_texts_that_are_no_offset_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="not come from a Delta table"):
        stream_offset_from_json(json.dumps({**OFFSET, **changes}))


@pytest.mark.parametrize("text", ["", "17", "[]", '{"logOffset":3}'])
def test_the_offset_of_another_source_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="its own checkpoint_location"):
        stream_offset_from_json(text)


def test_an_offset_of_a_later_version_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="offset of format version 4"):
        stream_offset_from_json(json.dumps({**OFFSET, "sourceVersion": 4}))
