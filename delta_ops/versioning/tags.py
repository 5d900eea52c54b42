"""Tags: names of versions that stay readable.

A tag costs one entry in the journal of refs. No file of the table is listed, unless the tagged
version is so old that a vacuum may have deleted some of its files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import msgspec

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace, log_of
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import (
    Refs,
    Tag,
    load_refs,
    refs_journal,
    time_by,
    validate_ref_name,
    validate_table_exists,
)
from delta_ops.option_words import option
from delta_ops.versioning.version_to_keep import VersionToKeep


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
            cannot be used again.
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
    kept = VersionToKeep(log=log, snapshot=snapshot, verb="tag")
    tag = Tag(
        name=name,
        version=snapshot.version,
        table_id=snapshot.metadata.id,
        created_ms=time_by(clock),
        txn_id=snapshot.txn_id,
    )
    creation = _Creation(version=kept, tag=tag)
    entry = refs_journal(log.storage).append(creation.decide, clock)
    return entry.state.tags[name]


def delete_tag(
    table: TableOrPlace, name: str, *, dry_run: bool = False, clock: Clock = system_clock
) -> Tag:
    """Delete a tag, and return it; the next vacuum may delete files that only its version needs.

    Args:
        table: A table's location or handle.
        name: The name, which is never given again.
        dry_run: Delete nothing.
        clock: Milliseconds since the Unix epoch.

    Raises:
        TableNotFoundError: There is no table here.
        InvalidRequestError: There is no such tag.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed. The tag may be deleted; list the tags.

    Examples:
        >>> _ = create_tag("lake/orders", "first")
        >>> delete_tag("lake/orders", "first").version
        0
        >>> list_tags("lake/orders")
        []
    """
    validate_arguments(delete_tag, locals())
    log = log_of(table)

    deleted: list[Tag] = []

    def decide(refs: Refs) -> Change[Refs] | None:
        if name not in refs.tags:
            validate_table_exists(log.storage)
            raise InvalidRequestError(
                f"{log.uri}: there is no tag {name!r}; {option('list_tags')} shows the names"
            )
        deleted[:] = [refs.tags[name]]
        left = {each: tag for each, tag in refs.tags.items() if each != name}
        state = msgspec.structs.replace(refs, tags=left, deleted_tags=(*refs.deleted_tags, name))
        return None if dry_run else Change(state=state, text=f"delete tag {name}")

    refs_journal(log.storage).append(decide, clock)
    return deleted[0]


def list_tags(table: TableOrPlace, *, timestamp: str | date | None = None) -> list[Tag]:
    """List the tags of a table, by name.

    Args:
        table: A table's location or handle.
        timestamp: List the tags of this time; UTC unless it has a zone.

    Raises:
        InvalidRequestError: The text is not a time.
        TableNotFoundError: There is no table here.
        VersionNotFoundError: The journal of refs does not go back to this time.
        LogCorruptError: The journal of refs is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed.

    Examples:
        >>> _ = create_tag("lake/orders", "first", version=0)
        >>> [(tag.name, tag.version) for tag in list_tags("lake/orders")]
        [('first', 0)]
    """
    validate_arguments(list_tags, locals())
    log = log_of(table)
    tags = load_refs(log.storage, log.log_directory, timestamp).tags
    return [tags[name] for name in sorted(tags)]


@dataclass(slots=True, kw_only=True)
class _Creation:
    """The creation of one tag."""

    version: VersionToKeep
    tag: Tag

    def decide(self, refs: Refs) -> Change[Refs] | None:
        """The refs with the tag; None if the tag exists."""
        tag, uri = self.tag, self.version.log.uri
        existing = refs.tags.get(tag.name)
        if existing is not None:
            if (existing.version, existing.table_id) == (tag.version, tag.table_id):
                self.version.log.snapshot(ref=f"tag:{tag.name}")  # still the tagged commit
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
        self.version.validate_kept(refs)
        tags = {**refs.tags, tag.name: tag}
        return Change(
            state=msgspec.structs.replace(refs, tags=tags),
            text=f"create tag {tag.name} at version {tag.version}",
        )
