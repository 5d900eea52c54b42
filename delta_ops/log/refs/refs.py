"""Refs: tags, branches, sessions and holds of a table, and the running deletions of files.

A tag is a name of one version that never changes. A branch is a version with commits of its own;
see `branches`. A session collects the rows of several writers; see `sessions`. A hold keeps one
version for a release of several tables; see `versioning.releases`. The journal in `_delta_ops/refs`
keeps all refs, outside of `_delta_log`, where other engines would delete or misread its files.

1. Vacuum and log clean-up keep what the versions of tags, branches and holds need.
2. Before they delete the first file, they announce the deletion in a journal entry. They keep the
   refs of all earlier entries. Until the deletion ends, a new ref of an older version is rejected,
   because the files of that version may be disappearing.
3. The name of a deleted tag cannot be used again, so a name always means the same version.
4. A ref records `metaData.id` of its version and `txnId` of the commit. They show whether the table
   was deleted and created again, or its log was restored to an older state.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from delta_ops.clock import DAY_MS, Clock
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.log.history.time_travel import timestamp_ms
from delta_ops.log.refs.journal import FORMAT_VERSION, LONG_JOURNAL, Change, Entry, Journal
from delta_ops.log.segment import list_log
from delta_ops.option_words import option
from delta_ops.storage import Storage
from delta_ops.storage.own_files import create_own
from delta_ops.storage.paths import OWN_DIRECTORY

REFS_DIRECTORY = f"{OWN_DIRECTORY}/refs"
FORMAT_FILE = f"{OWN_DIRECTORY}/format.json"
RefKind = Literal["tag", "branch", "session"]
_NAME = re.compile(r"[A-Za-z0-9_+](?:[A-Za-z0-9._+/-]*[A-Za-z0-9_+-])?")
_KINDS: dict[str, RefKind] = {"tag:": "tag", "branch:": "branch", "session:": "session"}
_MOST_CHARACTERS = 200
_MAIN_LOG = "_delta_log"
_LONGEST_DELETION_MS = 7 * DAY_MS
"""A deletion that was announced longer ago counts as killed."""
_RENEW_AFTER_MS = DAY_MS
"""A deletion that runs for longer is announced again."""

Version = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LAST_MS = 253_402_300_799_999
Time = Annotated[int, msgspec.Meta(ge=0, le=_LAST_MS)]
"""Milliseconds since the Unix epoch, until the year 9999."""


class Tag(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A name of one version that never changes.

    Examples:
        >>> tag = create_tag("lake/orders", "first")
        >>> tag.name, tag.version
        ('first', 0)
    """

    name: str
    version: Version
    table_id: str
    """`metaData.id` of the version."""
    created_ms: Time
    """Milliseconds since the Unix epoch."""
    txn_id: str | None = None
    """`commitInfo.txnId` of the version's commit; None if unknown."""


class Branch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version with commits of its own, which main does not see until they are published.

    Examples:
        >>> branch = create_branch("lake/orders", "audit")
        >>> branch.name, branch.base_version
        ('audit', 0)
    """

    id: str
    """Chosen at random; a branch that is created later under the same name has another id."""
    name: str
    base_version: Version
    """The version of main that the first commit of the branch follows."""
    table_id: str
    """`metaData.id` of the base version."""
    created_ms: Time
    """Milliseconds since the Unix epoch."""
    expires_ms: Time
    """When maintenance may delete the branch, in milliseconds since the Unix epoch."""
    last_version: Version | None = None
    """The version to publish; set when a publication begins. Later commits are rejected."""
    publisher: str | None = None
    """The id of the publication in charge; a later publication takes over from a killed one. During
    a rebase, `rebase` and the id of the branch that replaces this one."""
    published_version: Version | None = None
    """The version of main that has the commits of the branch."""
    replaces: str | None = None
    """The id of the branch that this one replaces once its rebase ends. Until then, it has no name
    of its own."""
    txn_id: str | None = None
    """`commitInfo.txnId` of the base version's commit; None if unknown."""


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version that a release keeps readable, or will keep once it is made."""

    release_set: str
    """The location of the release set, without credentials."""
    set_id: str
    """The id of the release set; another set at the same location has another id."""
    version: Version
    table_id: str
    """`metaData.id` of the version."""
    created_ms: Time
    """Milliseconds since the Unix epoch."""
    txn_id: str | None = None
    """`commitInfo.txnId` of the version's commit; None if unknown."""


class Session(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows of several writers that become one commit.

    Examples:
        >>> session = begin_session("lake/orders")
        >>> [(each.id == session.id, each.base_version) for each in list_sessions("lake/orders")]
        [(True, 0)]
    """

    id: str
    """Chosen at random."""
    base_version: Version
    """The version of main that the session changes."""
    table_id: str
    """`metaData.id` of the base version."""
    created_ms: Time
    """Milliseconds since the Unix epoch."""
    expires_ms: Time
    """When the session stops to take rows, in milliseconds since the Unix epoch."""
    generation: int = 1
    """One more than the number of rebases."""
    dropped: tuple[str, ...] = ()
    """Keys of the forks that a rebase left out."""
    name: str | None = None
    """The name by which other processes join the session; None if it has none."""
    txn_id: str | None = None
    """`commitInfo.txnId` of the base version's commit; None if unknown."""


class RunningDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """A vacuum or log clean-up that has not ended; it may have been killed."""

    id: str
    version: Version
    """It deletes only files that versions before this one need."""
    begun_ms: Time
    """Milliseconds since the Unix epoch; later if it was announced again."""

    def must_be_renewed(self, now_ms: int) -> bool:
        """Whether it must be announced again before the next file is deleted."""
        return abs(now_ms - self.begun_ms) > _RENEW_AFTER_MS


class Refs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All refs of a table."""

    tags: dict[str, Tag] = {}
    """By name."""
    deleted_tags: tuple[str, ...] = ()
    """Names of deleted tags, which cannot be used again."""
    branches: dict[str, Branch] = {}
    """By id. Names are unique among the `named_branches`."""
    holds: dict[str, Hold] = {}
    """By the id of the release."""
    sessions: dict[str, Session] = {}
    """By id."""
    deletions: tuple[RunningDeletion, ...] = ()
    complete_from: Version = 0
    """Files that only versions before this one need may have been deleted."""

    @property
    def named_branches(self) -> list[Branch]:
        """The branches by name, without branches that a rebase is writing."""
        named = (each for each in self.branches.values() if each.replaces is None)
        return sorted(named, key=lambda each: each.name)

    @property
    def is_empty(self) -> bool:
        """Whether there is no ref."""
        return not (self.tags or self.branches or self.sessions or self.holds)

    def drop_killed_deletions(self, now_ms: int) -> Refs:
        """These refs without killed deletions, which may have deleted files of older versions."""
        killed = [
            each for each in self.deletions if abs(now_ms - each.begun_ms) >= _LONGEST_DELETION_MS
        ]
        return replace(
            self,
            deletions=tuple(each for each in self.deletions if each not in killed),
            complete_from=max([self.complete_from, *(each.version for each in killed)]),
        )


def time_by(clock: Clock) -> int:
    """The time of a clock, limited to times that an entry can hold: clocks may be wrong."""
    return min(max(clock(), 0), _LAST_MS)


def begin_deletion(
    storage: Storage, version: int, clock: Clock, *, renewed: RunningDeletion | None = None
) -> RunningDeletion:
    """Announce that files of versions before `version` are about to be deleted.

    Read the tags again afterwards: later tags cannot name these versions.

    Args:
        renewed: An earlier announcement of the same deletion, which this one replaces.

    Raises:
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.append`.
    """
    running = RunningDeletion(
        id=renewed.id if renewed else str(uuid.uuid4()), version=version, begun_ms=time_by(clock)
    )

    def decide(refs: Refs) -> Change[Refs]:
        others = [each for each in refs.deletions if each.id != running.id]
        state = replace(refs, deletions=(*others, running))
        return Change(state=state, text=f"will delete files of versions before {version}")

    refs_journal(storage).append(decide, clock)
    return running


def end_deletion(storage: Storage, ended: RunningDeletion, clock: Clock) -> None:
    """Announce that a deletion has ended; forget deletions that were killed, and old entries.

    Raises:
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.append`.
    """

    def decide(refs: Refs) -> Change[Refs]:
        state = replace(
            refs,
            deletions=tuple(each for each in refs.deletions if each.id != ended.id),
            complete_from=max(refs.complete_from, ended.version),
        )
        return Change(
            state=state.drop_killed_deletions(clock()),
            text=f"deleted files of versions before {ended.version}",
        )

    journal = refs_journal(storage)
    if journal.append(decide, clock).number >= LONG_JOURNAL:
        journal.delete_old()


@contextmanager
def announced_deletion(storage: Storage, version: int, clock: Clock) -> Iterator[None]:
    """Announce a deletion for the duration of a block; see `begin_deletion`."""
    running = begin_deletion(storage, version, clock)
    try:
        yield
    except BaseException:
        with suppress(DeltaOpsError):  # the first error is raised
            end_deletion(storage, running, clock)
        raise
    end_deletion(storage, running, clock)


_ENTRIES = msgspec.json.Decoder(Entry[Refs])


def refs_journal(storage: Storage) -> Journal[Refs]:
    """The journal of a table's refs."""
    return Journal(storage=storage, directory=REFS_DIRECTORY, entries=_ENTRIES, empty=Refs())


def load_refs(storage: Storage, log_directory: str, timestamp: str | date | None = None) -> Refs:
    """The refs of a table, at this moment or at an earlier time.

    Raises:
        TableNotFoundError: There is no table here; the location may be misspelt.
        InvalidRequestError: The text is not a time.
        VersionNotFoundError: Entries of that time were deleted.
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.load`.
    """
    journal = refs_journal(storage)
    entry = journal.load() if timestamp is None else journal.load_at(timestamp_ms(timestamp))
    if entry.number == 0:
        validate_table_exists(storage, log_directory)
    return entry.state


def validate_table_exists(storage: Storage, log_directory: str = _MAIN_LOG) -> None:
    """Reject a location without a table; it may be misspelt.

    Called only where a table has no refs, or not the wanted ref.

    Raises:
        TableNotFoundError: There is no commit and no checkpoint.
        StorageError: The store failed.
    """
    if list_log(storage, log_directory).latest_version is None:
        raise TableNotFoundError(storage.uri)


def create_format_file(storage: Storage) -> None:
    """Create the file by which other versions of delta_ops know that the table has refs.

    Raises:
        UnsupportedFeatureError: The file names a format that is unknown here.
        StorageError: The store failed.
    """
    if not create_own(storage, FORMAT_FILE, json.dumps({"version": FORMAT_VERSION}).encode()):
        validate_format(storage, to="tagged")


def validate_format(storage: Storage, to: str) -> None:
    """Reject a table whose `_delta_ops/format.json` names a format that is unknown here.

    Args:
        to: The rejected action, as a participle: `tagged`.

    Raises:
        UnsupportedFeatureError: The format is unknown.
    """
    try:
        text = storage.read(FORMAT_FILE)
    except FileNotFoundError:
        return
    try:
        found = json.loads(text)["version"]
    except (ValueError, KeyError, TypeError):
        found = "unknown"
    if type(found) is not int or found != FORMAT_VERSION:
        named = found if found and isinstance(found, int | str) else "unknown"
        raise UnsupportedFeatureError(storage.uri, (f"version {named} of {FORMAT_FILE}",), to)


def validate_ref_name(name: str, kind: RefKind | Literal["table"] = "tag") -> None:
    """Reject a name that cannot be a tag, a branch, or a table of a release.

    Raises:
        InvalidRequestError: The name is empty or too long, or has characters that no ref may have.
    """
    is_valid = (
        _NAME.fullmatch(name) is not None
        and len(name) <= _MOST_CHARACTERS
        and ".." not in name
        and "//" not in name
        and "/." not in name
        and not name.endswith(".lock")
    )
    if not is_valid:
        raise InvalidRequestError(
            f"{name[:50]!r} cannot name a {kind}; give at most {_MOST_CHARACTERS} of the "
            "characters A-Z, a-z, 0-9 and . _ + / -, begin with a letter, a digit, _ or +, use no "
            ".., // or /., and end with neither . nor / nor .lock"
        )


def parse_ref(ref: str) -> tuple[RefKind, str]:
    """Kind and name of a ref, such as `tag:2026-11` or `branch:audit`.

    Raises:
        InvalidRequestError: The text is not a kind, a colon and a name.
    """
    kind, colon, name = ref.partition(":")
    known: RefKind | None = _KINDS.get(f"{kind}{colon}")
    if known is None:
        raise InvalidRequestError(
            f"{ref!r} is not a ref; give tag:, branch: or session: and a name, such as tag:2026-11"
        )
    validate_ref_name(name, known)
    return known, name


def find_tag(storage: Storage, name: str) -> Tag:
    """Find a tag by its name.

    Raises:
        TableNotFoundError: There is no table here.
        VersionNotFoundError: There is no such tag.
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.load`.
    """
    refs = refs_journal(storage).load().state
    if name in refs.tags:
        return refs.tags[name]
    validate_table_exists(storage)
    reason = "it was deleted" if name in refs.deleted_tags else "there is no such tag"
    raise VersionNotFoundError(
        storage.uri, f"tag {name}", f"{reason}; {option('list_tags')} shows the names"
    )
