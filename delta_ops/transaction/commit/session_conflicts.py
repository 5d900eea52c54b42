"""Session conflicts: whether the writers of a session contradict each other.

The forks of a session are put in one order, see `log.refs.sessions`. The session is as if the forks
ran one after the other in this order. That holds if no fork has read or removed what an earlier
fork changed without being seen. The rules are those of `conflicts` for concurrent commits, with the
earlier fragment in the place of the commit that came first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from delta_ops.errors import SessionConflictError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.log.refs.refs import Session
from delta_ops.log.refs.session_files import ForkBegin, decode_file
from delta_ops.log.refs.sessions import Fork, SessionReader, find_session, snapshot_of_session
from delta_ops.log.session_place import fork_place_of
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.transaction.branch_rules import reads_of
from delta_ops.transaction.races.conflicts import Conflict, Footprint, find_conflict


def validate_forks(base: Snapshot, session: Session, forks: Sequence[Fork]) -> None:
    """Reject forks that contradict each other.

    Args:
        base: The base version of the session.
        forks: The forks that count, in order.

    Raises:
        SessionConflictError: A fork has read or removed what another changed at the same time.
    """
    for number, fork in enumerate(forks):
        if _depends_on_nothing(fork):
            continue
        _validate_seen_forks_count(base, session, forks, fork)
        unseen = [(each, _unseen_fragments(each, fork.begin.saw)) for each in forks[:number]]
        if not any(fragments for _, fragments in unseen):
            continue
        seen = snapshot_of_session(base, session, _seen_forks(forks, fork.begin.saw))
        ours = footprint_of(fork, base)
        for other, fragments in unseen:
            conflict = _first_conflict(fragments, ours, seen)
            if conflict is not None:
                raise SessionConflictError(
                    base.uri,
                    base.version,
                    f"session {session.id} cannot be committed, because step {fork.step!r} did not "
                    f"see the rows of step {other.step!r}, which {conflict.reason}",
                    conflict.kind,
                    conflict.evidence,
                    (fork.step,),
                    f"Run step {fork.step!r} again in a new attempt, then commit the session",
                )


def validate_fragment(log: DeltaLog, snapshot: Snapshot, ours: Footprint) -> None:
    """Reject a new fragment that contradicts a fragment of another writer.

    Two writers that create their fragments at the same moment do not find each other here;
    `validate_forks` finds them before the commit.

    Args:
        log: The log of the fork.
        snapshot: The rows that the writer sees.
        ours: What the fragment reads and changes.

    Raises:
        SessionConflictError: It has read or removed what another fragment changed.
        VersionNotFoundError: The session has ended.
    """
    place = fork_place_of(log.log_directory)
    if place is None or not (ours.reads or ours.removed_paths or ours.app_ids):
        return
    begin = decode_file(log.uri, place.fork_file, log.storage.read(place.fork_file), ForkBegin)
    session = find_session(log.storage, place.session_id)
    reader = SessionReader(storage=log.storage, session=session)
    for other in reader.load(reader.look()):
        if other.key == place.key or (other.only_appends and not ours.app_ids):
            continue
        conflict = _first_conflict(_unseen_fragments(other, begin.saw), ours, snapshot)
        if conflict is not None:
            raise SessionConflictError(
                log.uri,
                snapshot.version,
                f"step {begin.step!r} cannot be added to session {session.id}, because step "
                f"{other.step!r} {conflict.reason}",
                conflict.kind,
                conflict.evidence,
                (begin.step,),
                f"Fork the session again as step {begin.step!r}, and run the step again",
            )


def footprint_of(fork: Fork, base: Snapshot) -> Footprint:
    """The rows and files that the fragments of a fork have read and change."""
    removed: set[str] = set()
    named: set[str] = set()
    for fragment in fork.fragments:
        gone = set(canonical_texts(fragment.removes["path"].to_pylist(), base.uri))
        removed |= gone - named
        named |= gone | set(canonical_texts(fragment.adds["path"].to_pylist(), base.uri))
    reads = [read for fragment in fork.fragments for read in reads_of(fragment)]
    is_serial = any(each.is_serial for each in reads)
    return Footprint(
        reads=tuple(each.predicate for each in reads),
        removed_paths=frozenset(removed),
        app_ids=frozenset(
            txn.app_id for fragment in fork.fragments for txn in fragment.transactions
        ),
        domains=frozenset(),
        changes_metadata=False,
        isolation="Serializable" if is_serial else base.properties.isolation_level,
    )


def _depends_on_nothing(fork: Fork) -> bool:
    return fork.only_appends and not any(each.transactions for each in fork.fragments)


def _validate_seen_forks_count(
    base: Snapshot, session: Session, forks: Sequence[Fork], fork: Fork
) -> None:
    """Reject a fork that has read rows of an attempt that was repeated or dropped."""
    last = {each.key: each.last_version for each in forks}
    for key, version in fork.begin.saw.items():
        if fork.only_appends or last.get(key, 0) >= version:
            continue
        name = key.partition("/")[2].rpartition(".")[0]
        newer = next((each.step for each in forks if each.place.step == name), name)
        raise SessionConflictError(
            base.uri,
            base.version,
            f"session {session.id} cannot be committed, because step {fork.step!r} read rows of an "
            f"attempt of step {newer!r} that no longer counts",
            "delete read",
            (),
            (fork.step,),
            f"Run step {fork.step!r} again in a new attempt, then commit the session",
        )


def _unseen_fragments(other: Fork, saw: Mapping[str, int]) -> list[Commit]:
    return [each for each in other.fragments if each.version > saw.get(other.key, 0)]


def _seen_forks(forks: Iterable[Fork], saw: Mapping[str, int]) -> list[Fork]:
    """The forks with the fragments that a writer saw."""
    return [
        replace(
            each, fragments=tuple(f for f in each.fragments if f.version <= saw.get(each.key, 0))
        )
        for each in forks
    ]


def _first_conflict(
    fragments: Sequence[Commit], ours: Footprint, snapshot: Snapshot
) -> Conflict | None:
    earlier: list[Commit] = []
    for fragment in fragments:
        conflict = find_conflict(fragment, ours, snapshot, earlier)
        if conflict is not None:
            return conflict
        earlier.append(fragment)
    return None
