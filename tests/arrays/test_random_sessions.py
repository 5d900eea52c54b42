"""Random changes of two sessions: the outcome is that of one session after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import uuid4

import pytest

pytest.importorskip("zarr")

import fsspec
import hypothesis.strategies as st
from hypothesis import given, settings
from zarr.core.buffer import cpu

from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.arrays.keys import ancestors, is_within, place_of
from delta_ops.errors import ChunkConflictError

Keys = Mapping[str, bytes | None]
"""The bytes of keys; None deletes."""


def document(shape: int, note: int = 0) -> bytes:
    return json.dumps({"shape": [shape], "attributes": {"note": note}}).encode()


CHUNKS = [f"{node}c/{number}" for node in ("a/", "a/b/", "") for number in (0, 1, 10_000)]
DOCUMENTS = ["a/zarr.json", "a/b/zarr.json", "zarr.json"]
CHANGES = st.dictionaries(
    st.sampled_from(CHUNKS), st.sampled_from([b"1", b"2", b"3", None]), max_size=4
).flatmap(
    lambda chunks: st.dictionaries(
        st.sampled_from(DOCUMENTS),
        st.sampled_from([document(1), document(1, note=1), document(2), None]),
        max_size=1,
    ).map(lambda documents: {**chunks, **documents})
)


def write(store: DeltaStore, changes: Keys) -> None:
    for key, data in changes.items():
        if data is None:
            store.delete_sync(key)
        else:
            store.set_sync(key, cpu.Buffer.from_bytes(data))


def content(log: DeltaLog) -> dict[str, bytes]:
    store = DeltaStore(log)
    found = ((key, store.get_sync(key)) for key in (*CHUNKS, *DOCUMENTS))
    return {key: buffer.to_bytes() for key, buffer in found if buffer is not None}


def after(keys: Mapping[str, bytes], changes: Keys) -> dict[str, bytes]:
    merged = {**keys, **changes}
    return {key: data for key, data in merged.items() if data is not None}


def depends(key: str, other: str) -> bool:
    """Whether a change of a key may depend on a change of another key."""
    one, two = place_of(key), place_of(other)
    above = two.kind == "metadata" and two.node in ancestors(one.node)
    below = one.kind == "metadata" and is_within(two.node, one.node)
    return key == other or above or below


def check_two_sessions(base: Keys, ours: Keys, theirs: Keys) -> None:
    place = f"memory://random/{uuid4()}"
    try:
        check_sessions_of(DeltaLog(place), base, ours, theirs)
    finally:
        # Each listing looks at all files in memory.
        fsspec.filesystem("memory").rm(place, recursive=True)


def check_sessions_of(log: DeltaLog, base: Keys, ours: Keys, theirs: Keys) -> None:
    create_array_table(log)
    first = DeltaStore.begin(log)
    write(first, base)
    first.commit()
    start = content(log)
    one, other = DeltaStore.begin(log), DeltaStore.begin(log)
    write(one, theirs)
    write(other, ours)
    one.commit()
    between = content(log)
    assert between == after(start, theirs)
    named = conflicting_keys(other)
    if named:
        assert named <= {key for key in theirs if start.get(key) != between.get(key)}
        assert any(depends(key, each) for key in ours for each in named)
        assert content(log) == between
    else:
        serial = (after(after(start, theirs), ours), after(after(start, ours), theirs))
        assert content(log) in serial


def conflicting_keys(store: DeltaStore) -> set[str]:
    """The keys of the conflict that rejects a commit; empty if it was made."""
    try:
        store.commit()
    except ChunkConflictError as error:
        return set(error.keys)
    return set()


@settings(max_examples=3)
@given(base=CHANGES, ours=CHANGES, theirs=CHANGES)
def test_two_sessions_have_a_serial_outcome(base: Keys, ours: Keys, theirs: Keys) -> None:
    check_two_sessions(base, ours, theirs)


@pytest.mark.long
@settings(max_examples=1000)
@given(base=CHANGES, ours=CHANGES, theirs=CHANGES)
def test_many_pairs_of_sessions_have_a_serial_outcome(base: Keys, ours: Keys, theirs: Keys) -> None:
    check_two_sessions(base, ours, theirs)
