"""Which version of an upstream's table a step reads: the one that Dagster records as provenance.

Of an upstream with partitions Dagster records a hash of their data versions. The version is then
that of the materializations of these partitions as the step found them when it began; of several
partitions the newest, so that all are read in one state of the table.
"""

from __future__ import annotations

import dagster as dg

from delta_ops.errors import VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.changes import rows_changed
from delta_ops.orchestration.metadata import table_version


def input_snapshot(context: dg.InputContext, log: DeltaLog) -> Snapshot:
    """The upstream's table at the version that the step is to read, or else the latest."""
    latest = log.snapshot()
    version = _recorded_version(context, latest)
    if version is None or version >= latest.version:
        return latest
    if not rows_changed(log, version + 1, latest.version):
        # The same rows, in files that maintenance has not replaced.
        return latest
    try:
        return log.snapshot(version)
    except VersionNotFoundError as error:
        context.log.warning(f"{error}; reading version {latest.version} instead")
        return latest


def _recorded_version(context: dg.InputContext, latest: Snapshot) -> int | None:
    version = table_version(compat.input_data_version(context), latest)
    if version is not None or not context.has_asset_partitions:
        return version
    recorded = compat.input_partition_data_versions(context, context.asset_partition_keys)
    versions = (table_version(each, latest) for each in recorded)
    return max((each for each in versions if each is not None), default=None)
