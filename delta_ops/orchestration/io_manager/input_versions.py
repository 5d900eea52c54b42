"""Input versions: by default a step reads the table version that Dagster records as provenance.

The setting `delta/read` chooses the latest version instead, or a version by its number or tag.

If the upstream has partitions, Dagster records a hash of their data versions. The version then
comes from the materializations of these partitions when the step began. The newest of several
versions counts, so that all partitions are read in one state of the table. A later event without a
partition, such as a restore, counts for all partitions.

A version whose files were vacuumed cannot be read. The latest version is read instead.

A step that reads older rows than the table has warns, and records both versions in the metadata of
its assets. It sees a DELETE outside Dagster only after an event reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg
import pyarrow as pa

from delta_ops.errors import InvalidRequestError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.optimize.small_files import own_files_by_path
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.metadata import table_version
from delta_ops.orchestration.table_versions import last_partition_version, rows_changed
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction.races.missing_files import find_missing
from delta_ops.units import count_text

READ_KEY = "delta/read"
ReadVersion = Literal["materialized", "latest"] | int | str
"""Which version an input reads: the version that Dagster records, the latest, a number, or a tag
or branch such as `tag:2026-11`."""
INPUT_VERSION = "delta/input_version/"
_LATEST, _ADVICE = "delta/latest/", "delta/read_advice/"
_MAX_COMMITS = 100
"""Commits that are read to find changes of a partition."""
READ_NAMES = (INPUT_VERSION, _LATEST, _ADVICE)
"""Prefixes of the metadata that record the versions of an asset's inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputVersion:
    """The version of an upstream's table that a step reads."""

    snapshot: Snapshot
    latest_version: int
    advice: str | None = None
    """How to read the latest version; None if it has the same rows."""


def input_version(
    context: dg.InputContext,
    log: DeltaLog,
    read: ReadVersion,
    predicate_of: Callable[[Snapshot], Predicate | None],
) -> InputVersion:
    """The upstream's table at the version that the step must read, or else the latest version.

    Args:
        predicate_of: The rows to read of a version; None for all rows.

    Raises:
        VersionNotFoundError: `read` is the number, tag or branch of a version that does not exist.
    """
    latest = log.snapshot()
    newest = InputVersion(snapshot=latest, latest_version=latest.version)
    if read == "latest":
        return newest
    if read != "materialized":
        return newest if read == latest.version else _chosen_version(context, log, read, latest)
    version = _recorded_version(context, latest)
    if version is None or version >= latest.version:
        return newest
    if not rows_changed(log, version + 1, latest.version):
        # The rows are the same, and a vacuum cannot have deleted the files of the latest version.
        return newest
    try:
        recorded = log.snapshot(version)
    except VersionNotFoundError as error:
        context.log.warning(f"{error}; reading version {latest.version} instead")
        return newest
    predicate = predicate_of(recorded)
    wanted = _files(recorded, predicate)
    if num_gone := _num_gone(recorded, latest, wanted):
        files = count_text(num_gone, "data file")
        context.log.warning(
            f"{log.uri} can no longer be read at version {version}, because a vacuum has deleted "
            f"{files}; reading version {latest.version} instead"
        )
        return newest
    advice = None
    if predicate is None or _may_differ(log, recorded, latest, predicate, wanted):
        advice = _advice(context, recorded, latest)
        context.log.warning(advice)
    else:
        context.log.info(
            f"{latest.uri}: this step reads version {version}, which Dagster records; the latest "
            f"version is {latest.version}, and has the same rows for this input"
        )
    return InputVersion(snapshot=recorded, latest_version=latest.version, advice=advice)


def _chosen_version(
    context: dg.InputContext, log: DeltaLog, read: int | str, latest: Snapshot
) -> InputVersion:
    """A version by its number, tag or branch."""
    snapshot = log.snapshot(ref=read) if isinstance(read, str) else log.snapshot(read)
    of_ref = f" of {read}" if isinstance(read, str) else ""
    context.log.info(
        f"{latest.uri}: this step reads version {snapshot.version}{of_ref}, which delta/read "
        f"names; the latest version is {latest.version}"
    )
    return InputVersion(snapshot=snapshot, latest_version=latest.version)


def is_ref(value: str) -> bool:
    """Whether a value of `delta/read` names a tag or a branch."""
    return value.startswith(("tag:", "branch:"))


def read_metadata(asset_key: dg.AssetKey, version: InputVersion) -> dict[str, Any]:
    """Metadata for the assets of a step: the version that they read, and the latest version."""
    key = asset_key.to_user_string()
    advice = {} if version.advice is None else {f"{_ADVICE}{key}": version.advice}
    return {
        f"{INPUT_VERSION}{key}": version.snapshot.version,
        f"{_LATEST}{key}": version.latest_version,
        **advice,
    }


def _files(snapshot: Snapshot, predicate: Predicate | None) -> dict[str, AddFile]:
    """The files that hold the rows, by canonical path."""
    return {canonical_path(a.path, snapshot.uri): a for a in snapshot.add_files(predicate)}


def _may_differ(
    log: DeltaLog,
    recorded: Snapshot,
    latest: Snapshot,
    predicate: Predicate,
    wanted: Mapping[str, AddFile],
) -> bool:
    """Whether the latest version may have other rows that match the predicate.

    Args:
        wanted: The files of the recorded version that hold the rows.
    """
    try:
        live = _files(latest, predicate)
    except InvalidRequestError:  # the column of the predicate is gone
        return True
    if wanted.keys() == live.keys() and not _removed_files(wanted, live):
        return False
    if latest.version - recorded.version > _MAX_COMMITS:
        return True
    # Maintenance may have written the same rows again.
    known = recorded.version
    return last_partition_version(log, latest, predicate, known) > known


def _removed_files(wanted: Mapping[str, AddFile], live: Mapping[str, AddFile]) -> list[AddFile]:
    """The files that are no longer live, or have other deletion vectors."""
    return [
        add
        for path, add in wanted.items()
        if path not in live or live[path].deletion_vector != add.deletion_vector
    ]


def _num_gone(recorded: Snapshot, latest: Snapshot, wanted: Mapping[str, AddFile]) -> int:
    """How many of the files to read have been deleted."""
    live = own_files_by_path(latest, pa.array(list(wanted), pa.string()))
    return len(find_missing(_removed_files(wanted, live), recorded))


def _advice(context: dg.InputContext, recorded: Snapshot, latest: Snapshot) -> str:
    key = context.asset_key.to_user_string()
    return (
        f"{latest.uri}: this step reads version {recorded.version}, the newest that Dagster had an "
        f"event of when the step began; the latest version is {latest.version}, and its rows "
        f"differ. To read it, let build_commit_sensor report the commits of other writers, or "
        f"materialize {key}, and run this again. An input with the metadata delta/read='latest' "
        "always reads the latest version, and one that is annotated with DeltaLog opens any version"
    )


def _recorded_version(context: dg.InputContext, latest: Snapshot) -> int | None:
    version = table_version(compat.input_data_version(context), latest)
    if version is not None or not context.has_asset_partitions:
        return version
    recorded = compat.input_partition_data_versions(context, context.asset_partition_keys)
    recorded += compat.latest_data_versions_without_partition(context)
    versions = (table_version(each, latest) for each in recorded)
    return max((each for each in versions if each is not None), default=None)
