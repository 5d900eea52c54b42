"""Which version of an upstream's table a step reads: the one that Dagster records as provenance.

Of an upstream with partitions Dagster records a hash of their data versions. The version is then
that of the materializations of these partitions as the step found them when it began; of several
partitions the newest, so that all are read in one state of the table. A later event that names no
partition, as of a restore of which nobody can say what it touched, is of all of them.

A version whose files a vacuum has deleted cannot be read; the latest one takes its place.
"""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg
import pyarrow as pa

from delta_ops.errors import VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.optimize.small_files import own_files_by_path
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.changes import rows_changed
from delta_ops.orchestration.metadata import table_version
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction.missing_files import find_missing
from delta_ops.units import count_text


def input_snapshot(
    context: dg.InputContext, log: DeltaLog, predicate_of: Callable[[Snapshot], Predicate | None]
) -> Snapshot:
    """The upstream's table at the version that the step is to read, or else the latest.

    Args:
        predicate_of: The rows of a version that are read; None: all.
    """
    latest = log.snapshot()
    version = _recorded_version(context, latest)
    if version is None or version >= latest.version:
        return latest
    if not rows_changed(log, version + 1, latest.version):
        # The same rows, in files that maintenance has not replaced.
        return latest
    try:
        recorded = log.snapshot(version)
    except VersionNotFoundError as error:
        context.log.warning(f"{error}; reading version {latest.version} instead")
        return latest
    if num_gone := _num_gone(recorded, latest, predicate_of(recorded)):
        files = count_text(num_gone, "data file")
        context.log.warning(
            f"{log.uri} cannot be read at version {version} any more, of which a vacuum has "
            f"deleted {files}; reading version {latest.version} instead"
        )
        return latest
    return recorded


def _num_gone(recorded: Snapshot, latest: Snapshot, predicate: Predicate | None) -> int:
    """How many files of a version, of those to be read, have been deleted since."""
    wanted = {canonical_path(add.path, recorded.uri): add for add in recorded.add_files(predicate)}
    live = own_files_by_path(latest, pa.array(list(wanted), pa.string()))
    removed = [
        add
        for path, add in wanted.items()
        if path not in live or live[path].deletion_vector != add.deletion_vector
    ]
    return len(find_missing(removed, recorded))


def _recorded_version(context: dg.InputContext, latest: Snapshot) -> int | None:
    version = table_version(compat.input_data_version(context), latest)
    if version is not None or not context.has_asset_partitions:
        return version
    recorded = compat.input_partition_data_versions(context, context.asset_partition_keys)
    recorded += compat.latest_data_versions_without_partition(context)
    versions = (table_version(each, latest) for each in recorded)
    return max((each for each in versions if each is not None), default=None)
