"""Staged changes: what the writers of a session have set and deleted, before the commit.

A writer appends its changes to the session as rows of three blocks of the root, which no version of
main has: `session.set`, `session.delete` and `session.withdraw`. The files are marked, so the
commit of a session rejects a file that was not merged into blocks.

1. A writer sees the changes of the forks that existed when it began, and its own.
2. The change of a writer counts if it saw the other changes of the key, or if the bytes are equal.
   Two writers that did not see each other and set one key to different bytes conflict.
3. A withdrawn key has no change, whatever was staged for it before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import msgspec
import pyarrow as pa

from delta_ops.arrays.blocks import partition_values, read_values
from delta_ops.arrays.chunks import have_same_bytes
from delta_ops.arrays.keys import ROOT, place_of
from delta_ops.arrays.rows import COLUMNS, Value, rows_of
from delta_ops.arrow.arrow_data import ArrowData
from delta_ops.arrow.engine import ARROW
from delta_ops.arrow.write.data_file import discard
from delta_ops.errors import ChunkConflictError, SessionConflictError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.log.refs.sessions import Fork
from delta_ops.log.session_place import fork_place_of
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import ADD, add_files
from delta_ops.storage.concurrency import run_parallel
from delta_ops.transaction import begin
from delta_ops.versioning.session_state import SESSION_ONLY, SessionState

SET_BLOCK, DELETE_BLOCK, WITHDRAW_BLOCK = "session.set", "session.delete", "session.withdraw"
STAGED_BLOCKS = (SET_BLOCK, DELETE_BLOCK, WITHDRAW_BLOCK)
MERGE_STEP = "merge of array changes"
"""The step of a session that writes the changed blocks."""
Change = Value | Literal["deleted", "withdrawn"]
"""The change of a key."""


class _Written(NamedTuple):
    fork: str
    version: int
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The changes that a writer sees."""

    changes: Mapping[str, Change]
    """By key, without withdrawn keys."""
    files: tuple[AddFile, ...]
    """The files that hold them."""


def rows_of_changes(changes: Mapping[str, Change]) -> pa.Table:
    """Changes as rows of the staged blocks."""
    by_block: dict[str, list[tuple[str, Value]]] = {block: [] for block in STAGED_BLOCKS}
    for key, change in changes.items():
        match change:
            case "deleted":
                by_block[DELETE_BLOCK].append((key, Value()))
            case "withdrawn":
                by_block[WITHDRAW_BLOCK].append((key, Value()))
            case _:
                by_block[SET_BLOCK].append((key, change))
    tables = [rows_of(ROOT, block, values) for block, values in by_block.items() if values]
    return pa.concat_tables(tables) if tables else COLUMNS.empty_table()


def stage_changes(fork: DeltaLog, changes: Mapping[str, Change]) -> None:
    """Append changes to a fork of a session; they are durable when the call returns.

    Raises:
        SessionEndedError: The session has ended, or expired.
        StorageError: The store failed; the changes may be staged.
    """
    transaction = begin(fork)
    staged = ARROW.write_rows(ArrowData(rows_of_changes(changes)), transaction.target)
    marked = tuple(
        msgspec.structs.replace(add, tags={**(add.tags or {}), SESSION_ONLY: "array changes"})
        for add in staged.adds
    )
    try:
        transaction.stage(replace(staged, adds=marked))
        transaction.commit(operation="WRITE", parameters={"mode": "Append"}, hooks=())
    except BaseException:
        if not transaction.may_be_committed:
            discard(fork.storage, staged.adds)
        raise


def load_staged(state: SessionState, fork: DeltaLog) -> Staged:
    """The changes that a fork sees: those that were staged when it began, and its own.

    Raises:
        ChunkConflictError: Two writers that did not see each other have set one key.
        SessionConflictError: Another process has committed or rebased the session; call it again.
        SessionEndedError: The session has ended.
        LogCorruptError, DataFileError, StorageError: The session cannot be read.
    """
    place = fork_place_of(fork.log_directory)
    assert place is not None
    forks = state.load_forks()
    own = next((each for each in forks if each.key == place.key), None)
    if own is None:
        raise SessionConflictError(
            state.log.uri,
            state.session.base_version,
            f"session {state.session.id} was committed or rebased by another process meanwhile",
            cure="Repeat the call",
        )
    last = {**own.begin.saw, own.key: own.last_version}
    seen = [
        replace(each, fragments=tuple(f for f in each.fragments if f.version <= last[each.key]))
        for each in forks
        if each.key in last
    ]
    return changes_of_forks(state, seen)


def changes_of_forks(state: SessionState, forks: Sequence[Fork]) -> Staged:
    """The changes of forks, which are in the order of the session; raises as `load_staged`."""
    fragments = [
        (fork, fragment) for fork in forks if fork.step != MERGE_STEP for fragment in fork.fragments
    ]
    files = [add_files(fragment.adds.select(ADD.names)) for _, fragment in fragments]
    loaded = run_parallel(lambda adds: read_changes(state.base, adds), files)
    written: dict[str, _Written] = {}
    for (fork, fragment), changes in zip(fragments, loaded, strict=True):
        _add_fragment(written, fork, fragment, changes, state.log.uri)
    return Staged(
        changes={key: each.change for key, each in written.items() if each.change != "withdrawn"},
        files=tuple(add for adds in files for add in adds),
    )


def _add_fragment(
    written: dict[str, _Written],
    fork: Fork,
    fragment: Commit,
    changes: Mapping[str, Change],
    table: str,
) -> None:
    for key, change in changes.items():
        known = written.get(key)
        if (
            known is not None
            and known.fork != fork.key
            and fork.begin.saw.get(known.fork, 0) < known.version
            and not _are_equal(known.change, change)
        ):
            place = place_of(key)
            raise ChunkConflictError(
                table,
                fragment.version,
                (key,),
                place.node,
                (place.coordinates,) if place.kind == "chunk" else (),
                "two writers of the session have set it, and neither has seen the other's bytes",
                "Let each writer write whole chunks of its own, and run the writers again in a new "
                "session",
            )
        written[key] = _Written(fork.key, fragment.version, change)


def _are_equal(one: Change, other: Change) -> bool:
    if isinstance(one, Value) and isinstance(other, Value):
        return have_same_bytes(one, other)
    return one == other


def read_changes(snapshot: Snapshot, files: Iterable[AddFile]) -> dict[str, Change]:
    """The changes in staged files of one fragment."""
    changes: dict[str, Change] = {}
    for add in files:
        _, block = partition_values(snapshot, add)
        for key, value in read_values(snapshot, (add,)):
            match block:
                case "session.delete":
                    changes[key] = "deleted"
                case "session.withdraw":
                    changes[key] = "withdrawn"
                case _:
                    changes[key] = value
    return changes
