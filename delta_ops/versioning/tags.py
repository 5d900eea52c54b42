"""Tags: names of versions that stay readable.

A tag costs one entry in the journal of refs. No file of the table is listed, unless the tagged
version is so old that a vacuum may have deleted some of its files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial

import msgspec

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, TableBusyError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.delta_log import LOG_DIRECTORY
from delta_ops.log.outside_files import TableFiles
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import (
    Refs,
    RunningDeletion,
    Tag,
    create_format_file,
    refs_journal,
    time_by,
    validate_ref_name,
)
from delta_ops.log.same_table import validate_same_table
from delta_ops.protocol.arrow_schemas import ADD, add_files
from delta_ops.protocol.deletion_vectors import stored_path
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.storage.concurrency import run_parallel
from delta_ops.units import count_text


def create_tag(
    table: TableOrPlace,
    name: str,
    version: int | None = None,
    timestamp: str | date | None = None,
    *,
    clock: Clock = system_clock,
) -> Tag:
    """Give a version a name, and keep its files for as long as the tag exists.

    A tag of this name and version that exists is returned. Vacuum and log clean-up of delta_ops
    keep what the version needs. A vacuum of another engine does not know tags: it deletes the
    files of an old version once they are past `delta.deletedFileRetentionDuration`.

    Args:
        table: A table's location or handle.
        name: Letters, digits and `. _ + / -`, such as `reports/2026-11`. The name of a deleted tag
            is never given again.
        version: The latest version if None.
        timestamp: Tag the version of this time instead.
        clock: Milliseconds since the Unix epoch, for the time of the tag.

    Raises:
        InvalidRequestError: The name is invalid, belongs to another version, or was deleted; or
            both a version and a time were given.
        TableNotFoundError: There is no table here.
        VersionNotFoundError: The version cannot be read, or some of its files were deleted.
        TableBusyError: A vacuum or log clean-up may be deleting files of the version.
        TableReplacedError: The table was deleted, or another table is in its place.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed. The tag may exist; repeat the call.

    Examples:
        >>> create_tag("lake/orders", "reports/2026-11").version
        0
        >>> DeltaLog("lake/orders").snapshot(ref="tag:reports/2026-11").num_files
        1
    """
    validate_arguments(create_tag, locals())
    validate_ref_name(name)
    log = log_of(table)
    snapshot = log.snapshot(version, timestamp)
    if snapshot.base is not None or log.log_directory != LOG_DIRECTORY:
        raise InvalidRequestError(
            f"{log.uri}: the log in {log.log_directory} is not the table's own, which is in "
            f"{LOG_DIRECTORY}; tag a version of the table's own log"
        )
    tag = Tag(
        name=name,
        version=snapshot.version,
        table_id=snapshot.metadata.id,
        created_ms=time_by(clock),
    )
    creation = _Creation(log=log, snapshot=snapshot, tag=tag)
    entry = refs_journal(log.storage).append(creation.decide, clock)
    return entry.state.tags[name]


def delete_tag(table: TableOrPlace, name: str, *, clock: Clock = system_clock) -> None:
    """Delete a tag; the next vacuum may delete files that only its version needs.

    Raises:
        InvalidRequestError: There is no such tag.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed. The tag may be deleted; list the tags.

    Examples:
        >>> _ = create_tag("lake/orders", "first")
        >>> delete_tag("lake/orders", "first")
        >>> list_tags("lake/orders")
        []
    """
    validate_arguments(delete_tag, locals())
    log = log_of(table)

    def decide(refs: Refs) -> Change[Refs]:
        if name not in refs.tags:
            raise InvalidRequestError(
                f"{log.uri}: there is no tag {name!r}; list_tags shows the names"
            )
        left = {each: tag for each, tag in refs.tags.items() if each != name}
        state = msgspec.structs.replace(refs, tags=left, deleted_tags=(*refs.deleted_tags, name))
        return Change(state=state, text=f"delete tag {name}")

    refs_journal(log.storage).append(decide, clock)


def list_tags(table: TableOrPlace) -> list[Tag]:
    """List the tags of a table, by name.

    Raises:
        LogCorruptError: The journal of refs is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_tag("lake/orders", "first", version=0)
        >>> [(tag.name, tag.version) for tag in list_tags("lake/orders")]
        [('first', 0)]
    """
    validate_arguments(list_tags, locals())
    tags = refs_journal(log_of(table).storage).load().state.tags
    return [tags[name] for name in sorted(tags)]


@dataclass(slots=True, kw_only=True)
class _Creation:
    """The creation of one tag."""

    log: DeltaLog
    snapshot: Snapshot
    """The version to tag."""
    tag: Tag
    files_seen_at: int = 0
    """`Refs.complete_from` when the files of the tagged version were found."""

    def decide(self, refs: Refs) -> Change[Refs] | None:
        """The refs with the tag; None if the tag exists."""
        tag, uri = self.tag, self.log.uri
        existing = refs.tags.get(tag.name)
        if existing is not None:
            if (existing.version, existing.table_id) == (tag.version, tag.table_id):
                return None
            raise InvalidRequestError(
                f"{uri}: tag {tag.name!r} names version {existing.version}, and a tag never "
                f"changes; choose another name for version {tag.version}"
            )
        if tag.name in refs.deleted_tags:
            raise InvalidRequestError(
                f"{uri}: a tag {tag.name!r} was deleted, and its name is never given again; "
                "choose another name"
            )
        for deletion in refs.deletions:
            if tag.version < deletion.version:
                raise _busy(uri, tag, deletion)
        if tag.version < refs.complete_from != self.files_seen_at:
            self._validate_files_exist()
            self.files_seen_at = refs.complete_from
        validate_same_table(self.snapshot)
        if not refs.tags:
            create_format_file(self.log.storage)
        tags = {**refs.tags, tag.name: tag}
        return Change(
            state=msgspec.structs.replace(refs, tags=tags),
            text=f"create tag {tag.name} at version {tag.version}",
        )

    def _validate_files_exist(self) -> None:
        """Look up the files that the tagged version has and the latest version lacks.

        The version is opened again, because its log files may be gone, too.
        """
        tagged = self.log.snapshot(self.tag.version)
        wanted = sorted(_stored_paths(tagged) - _stored_paths(self.log.snapshot()))
        exist = run_parallel(partial(_exists, self.snapshot.table_files), wanted)
        missing = [path for path, is_there in zip(wanted, exist, strict=True) if not is_there]
        if missing:
            raise VersionNotFoundError(
                self.log.uri,
                f"version {self.tag.version}",
                f"{count_text(len(missing), 'file')} of this version were deleted, such as "
                f"{missing[0]}",
            )


def _busy(uri: str, tag: Tag, deletion: RunningDeletion) -> TableBusyError:
    begun = datetime.fromtimestamp(deletion.begun_ms / 1000, UTC).isoformat(timespec="seconds")
    return TableBusyError(
        uri,
        f"a vacuum or log clean-up that began at {begun} may be deleting files of version "
        f"{tag.version}",
        f"Wait until it ends, or tag version {deletion.version} or a later one. If it was killed, "
        "the next vacuum that deletes files a week later removes the block",
    )


def _stored_paths(snapshot: Snapshot) -> set[str]:
    """Canonical paths of the data files and the files of vectors of a version."""
    found: set[str] = set()
    for files in snapshot.stream_live(ADD.names):
        for add in add_files(files):
            found.add(canonical_path(add.path, snapshot.uri))
            if add.deletion_vector is not None:
                vector = stored_path(add.deletion_vector, snapshot.uri)
                found |= {vector} if vector else set()
    return found


def _exists(files: TableFiles, path: str) -> bool:
    storage, place = files.find(path)
    try:
        storage.stat(place)
    except FileNotFoundError:
        return False
    return True
