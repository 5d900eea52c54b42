"""Table events: the Dagster events for commits, partitions and states of a table.

A change of rows is a materialization, because automation and freshness depend on it. Any other
commit is an observation. The newest event also has the table's metadata, because the UI shows
columns and size from the newest event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import dagster as dg

from delta_ops.log import Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.orchestration.commits.changed_partitions import (
    ChangedPartitions,
    Layout,
    key_of_text,
)
from delta_ops.orchestration.commits.reported_commits import SHORT_ID, SINCE_VERSION, CommitRun
from delta_ops.orchestration.dagster_compat import partition_tags
from delta_ops.orchestration.markdown import plain_text
from delta_ops.orchestration.metadata import put_card_first, table_metadata
from delta_ops.orchestration.table_versions import changes_rows

Event = dg.AssetMaterialization | dg.AssetObservation
INITIAL_STATE = "delta/initial_state"
"""Metadata key of events that report the state of a table when it is first read."""
_SHOWN_VERSION = "delta/metadata_of_version"
"""Metadata key of the version whose columns and size an event shows, if it is another version."""
_MAX_OPERATION, _MAX_ENGINE = 40, 200
"""Maximum length of shown texts from a commit, which may have any length."""
_NOTHING: Mapping[str, Any] = {}


class TableEvents:
    """The events of a table.

    Args:
        latest: The table at its latest version.
        layout: How the asset is partitioned, if it is.
    """

    def __init__(self, asset_key: dg.AssetKey, latest: Snapshot, layout: Layout | None) -> None:
        self._asset_key, self._latest, self._layout = asset_key, latest, layout

    def commit_events(
        self,
        commit: Commit,
        made_by: CommitRun | None,
        changed: ChangedPartitions,
        reported: Collection[str],
        data_version: str,
    ) -> Iterator[Event]:
        """Events of a commit: one for each partition that it changed, or one for the table.

        Args:
            changed: Empty unless the commit changed rows of a partitioned asset.
            reported: Partitions that an earlier event reports.
        """
        what = _commit_sentence(commit, made_by)
        engine = commit.mark.engine
        metadata = {
            **self._place(commit.version),
            **({"delta/operation": _operation(commit)} if commit.operation else {}),
            **({"delta/engine": str(engine)[:_MAX_ENGINE]} if engine else {}),
            "delta/files_added": len(commit.adds),
            "delta/files_removed": len(commit.removes),
            **_run_metadata(made_by),
            **_partition_notes(changed),
        }
        yield from self.partition_events(
            changed, reported, commit.version, data_version, what, metadata
        )
        if not changed.keys or changed.unknown is not None:
            kind = dg.AssetMaterialization if changes_rows(commit) else dg.AssetObservation
            yield kind(
                asset_key=self._asset_key,
                description=what,
                metadata=put_card_first({**metadata, **self._latest_metadata(commit.version)}),
                tags=_tags(data_version),
            )

    def first_look_events(
        self, changed: ChangedPartitions, reported: Collection[str], data_version: str
    ) -> Iterator[Event]:
        """Events of the current state: of each partition that has rows, then of the table."""
        version = self._latest.version
        what = f"The state of the table at version {version}."
        metadata = {**self._place(version), INITIAL_STATE: True, **_partition_notes(changed)}
        yield from self.partition_events(changed, reported, version, data_version, what, metadata)
        yield self.state(what, version, self._latest, data_version, metadata=metadata)

    def state(
        self,
        description: str,
        version: int,
        shown: Snapshot,
        data_version: str,
        *,
        first_version: int | None = None,
        metadata: Mapping[str, Any] = _NOTHING,
    ) -> Event:
        """Event of a state of the table, for all commits from `first_version` to `version`."""
        return dg.AssetMaterialization(
            asset_key=self._asset_key,
            description=description,
            metadata={
                **table_metadata(shown, self._asset_key.to_user_string()),
                **metadata,
                "delta/version": version,
                **({} if first_version in (None, version) else {SINCE_VERSION: first_version}),
                **({} if shown.version == version else {_SHOWN_VERSION: shown.version}),
            },
            tags=_tags(data_version),
        )

    def late_partition(self, key: str, version: int, data_version: str) -> Event:
        """Event of a partition that a version changed before Dagster listed the partition."""
        what = f"version {version} changed the partition before its window ended"
        return self._partition(key, what, self._place(version), data_version)

    def partition_events(
        self,
        changed: ChangedPartitions,
        reported: Collection[str],
        version: int,
        data_version: str,
        what: str,
        metadata: Mapping[str, Any],
    ) -> Iterator[Event]:
        """Events of the changed partitions that no earlier event reports.

        Args:
            version: Version of the commit.
            what: The description, as Markdown.
            metadata: Added to the URI of the table and the version.
        """
        metadata = {**self._place(version), **metadata}
        unreported = [key for key in changed.keys if key not in reported]
        for key in unreported:
            shown = self._latest_metadata(version) if key == unreported[-1] else _NOTHING
            shown_first = put_card_first({**metadata, **shown})
            yield self._partition(key, what, shown_first, data_version)

    def _partition(
        self, key: str, what: str, metadata: Mapping[str, Any], data_version: str
    ) -> Event:
        partition = key if self._layout is None else key_of_text(key, self._layout)
        return dg.AssetMaterialization(
            asset_key=self._asset_key,
            partition=partition,
            description=what,
            metadata=metadata,
            tags={**_tags(data_version), **partition_tags(partition)},
        )

    def _place(self, version: int) -> dict[str, Any]:
        return {"dagster/uri": dg.MetadataValue.text(self._latest.uri), "delta/version": version}

    def _latest_metadata(self, version: int) -> Mapping[str, Any]:
        if version != self._latest.version:
            return _NOTHING
        return table_metadata(self._latest, self._asset_key.to_user_string())


def _operation(commit: Commit) -> str:
    return str(commit.operation)[:_MAX_OPERATION]


def _commit_sentence(commit: Commit, made_by: CommitRun | None) -> str:
    """The operation of a commit and its writer, as Markdown."""
    who = "Another writer" if made_by is None else f"Run {made_by.run_id}, which did not report it,"
    operation = f" ({_operation(commit)})" if commit.operation else ""
    return plain_text(f"{who} committed version {commit.version}{operation}.")


def data_version_text(table_id: str, version: int) -> str:
    """Dagster's data version for a version of the table with this `metaData.id`."""
    return f"{table_id[:SHORT_ID]}@{version}"


def _tags(data_version: str) -> dict[str, str]:
    return {"dagster/data_version": data_version}


def _run_metadata(made_by: CommitRun | None) -> dict[str, Any]:
    return {} if made_by is None else {"delta/run": dg.MetadataValue.dagster_run(made_by.run_id)}


def _partition_notes(changed: ChangedPartitions) -> dict[str, Any]:
    """Metadata about values and windows without an event of their own."""
    notes = {
        "delta/outside_of_partitions": list(changed.outside),
        "delta/coming_partitions": list(changed.upcoming),
    }
    return {name: values for name, values in notes.items() if values}
