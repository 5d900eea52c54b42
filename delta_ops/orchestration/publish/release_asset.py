"""Release asset: releases the table versions that a run has materialized.

1. The run, and then the runs that it re-executes, are searched for a materialization of each asset.
   If they have none, the newest materialization is taken. It names the version.
2. A retry finds the release of an earlier attempt by its versions and its message.
3. If a newer run has made a release, the versions of this run are older, and the step fails.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.option_words import Surface, spoken_on
from delta_ops.orchestration import dagster_records as records
from delta_ops.orchestration.io_manager.audit_branches import runs_of
from delta_ops.orchestration.io_manager.delta_io_manager import DeltaIOManager
from delta_ops.orchestration.io_manager.output_settings import PUBLISH_KEY, is_audited
from delta_ops.orchestration.storage_options import resolve_options, resolve_text
from delta_ops.orchestration.tags import reject_reproduction
from delta_ops.storage.paths import redact
from delta_ops.versioning import Release, ReleaseSet, create_release

RELEASE, RELEASE_SET, RELEASE_TABLES = (
    "delta/release",
    "delta/release_set",
    "delta/release_tables",
)
"""Metadata of the materialization of a release asset."""
_KIND = "deltalake"
_MOST_RECORDS = 100
"""Newest materializations that are searched for one with a version."""


def build_release_asset(
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec],
    key: dg.AssetKey | str | Sequence[str],
    *,
    release_set: str,
    storage_options: Mapping[str, Any] | None = None,
    message: str = "",
    io_manager_key: str = "io_manager",
    group_name: str | None = None,
    description: str | None = None,
    automation_condition: dg.AutomationCondition[dg.AssetKey] | None = None,
    retry_policy: dg.RetryPolicy | None = None,
) -> dg.AssetsDefinition:
    """The asset that releases the tables of several assets together.

    Its step runs after the steps of the assets and their blocking checks, and makes a release from
    the versions that the run has materialized. For an asset that is not in the run, the release has
    the version of its newest materialization. Readers open the release with
    `delta_ops.versioning.open_release`.

    Args:
        assets: The assets to release; for an audited asset, its publish asset.
        key: The key of the release asset.
        release_set: The directory of the release set; see `delta_ops.versioning.create_release`.
        storage_options: Options for the store of the set, as for `DeltaIOManager`.
        message: Text that is kept with each release.
        io_manager_key: The resource key of the `DeltaIOManager` of all assets.
        group_name: The group of the release asset.
        description: Text for the UI; if empty, it names the assets.
        automation_condition: When Dagster runs the release asset by itself.
        retry_policy: Retries of the step; a retry releases nothing twice.

    Raises:
        InvalidRequestError: There are no assets, or one is audited.

    Examples:
        >>> @dg.asset
        ... def visits() -> pa.Table:
        ...     return pa.table({"page": ["/"]})
        >>> @dg.asset
        ... def pages() -> pa.Table:
        ...     return pa.table({"page": ["/"]})
        >>> site = build_release_asset([visits, pages], "site", release_set="lake/releases")
        >>> resources = {"io_manager": DeltaIOManager(root="lake")}
        >>> dg.materialize([visits, pages, site], resources=resources).success
        True
        >>> from delta_ops.versioning import open_release
        >>> sorted(open_release("lake/releases"))
        ['pages', 'visits']
    """
    validate_arguments(build_release_asset, locals())
    specs = list(_specs(assets))
    making = _Making(
        specs=specs,
        release_set=release_set,
        storage_options=storage_options or {},
        message=message,
        io_manager_key=io_manager_key,
    )
    names = ", ".join(spec.key.to_user_string() for spec in specs)

    @dg.asset(
        key=dg.AssetKey.from_coercible(key),
        deps=[spec.key for spec in specs],
        group_name=group_name,
        kinds={_KIND},
        required_resource_keys={io_manager_key},
        automation_condition=automation_condition,
        retry_policy=retry_policy,
        description=description or f"Releases {names} together.",
        metadata={RELEASE_SET: redact(release_set)},
    )
    def make_release(context: dg.AssetExecutionContext) -> Any:
        return making.run(context)

    return make_release


def _specs(assets: Sequence[dg.AssetsDefinition | dg.AssetSpec]) -> Iterator[dg.AssetSpec]:
    """The specs of the assets.

    Raises:
        InvalidRequestError: There are none, or one is audited.
    """
    if not assets:
        raise InvalidRequestError("a release asset needs at least one asset to release")
    for asset in assets:
        for spec in asset.specs if isinstance(asset, dg.AssetsDefinition) else [asset]:
            if is_audited(spec.key, spec.metadata):
                raise InvalidRequestError(
                    f"asset {spec.key.to_user_string()} has {PUBLISH_KEY} in its metadata, so it "
                    "writes to a branch; release its publish asset instead"
                )
            yield spec


@dataclass(frozen=True, slots=True, kw_only=True)
class _Making:
    """The work of a release asset; `build_release_asset` documents the fields."""

    specs: Sequence[dg.AssetSpec]
    release_set: str
    storage_options: Mapping[str, Any]
    message: str
    io_manager_key: str

    @spoken_on(Surface.ASSET)
    def run(self, context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        """Make the release.

        Raises:
            InvalidRequestError: The resource is not a DeltaIOManager.
            dagster.Failure: An asset was never materialized, or the versions cannot be released.
        """
        reject_reproduction(context.run.tags, "making a release")
        manager = getattr(context.resources, self.io_manager_key)
        if not isinstance(manager, DeltaIOManager):
            raise InvalidRequestError(
                f"the resource {self.io_manager_key} of the release asset is of type "
                f"{type(manager).__name__}; give the io_manager_key of a DeltaIOManager"
            )
        logs = {
            spec.key.to_user_string(): manager.log_of_asset(spec.key, spec.metadata)
            for spec in self.specs
        }
        releases = ReleaseSet(
            resolve_text(self.release_set, "release_set"),
            resolve_options(self.storage_options),
            tables=logs,
        )
        try:
            snapshots = {
                spec.key.to_user_string(): self._snapshot(context, logs, spec)
                for spec in self.specs
            }
            release = create_release(releases, snapshots, message=self.message)
        except DeltaOpsError as error:
            raise dg.Failure(
                f"nothing was released: {error}",
                allow_retries=not isinstance(error, InvalidRequestError),
            ) from error
        return _result(releases, release)

    def _snapshot(
        self, context: dg.AssetExecutionContext, logs: Mapping[str, DeltaLog], spec: dg.AssetSpec
    ) -> Snapshot:
        name = spec.key.to_user_string()
        version = _materialized_version(context, spec.key)
        if version is None:
            raise dg.Failure(
                f"asset {name} was never materialized as a table; materialize it first",
                allow_retries=False,
            )
        return logs[name].snapshot(version)


def _materialized_version(context: dg.AssetExecutionContext, asset_key: dg.AssetKey) -> int | None:
    """The version of an asset's table in the newest materialization; of this run if it has one."""
    for run in runs_of(context.instance, context.run):
        found = records.materializations_of_run(context.instance, run.run_id, asset_key)
        versions = [version for each in found if (version := _version_in(each)) is not None]
        if versions:
            return max(versions)
    # Materializations of audited and reproduced rows name no version.
    newest = context.instance.fetch_materializations(asset_key, limit=_MOST_RECORDS).records
    return next((v for each in newest if (v := _version_in(each)) is not None), None)


def _version_in(record: dg.EventLogRecord) -> int | None:
    event = record.asset_materialization
    value = event.metadata.get("delta/version") if event is not None else None
    return value.value if value is not None and isinstance(value.value, int) else None


def _result(releases: ReleaseSet, release: Release) -> dg.MaterializeResult[Any]:
    tables = [
        dg.TableRecord({"table": name, "version": table.version, "location": redact(table.uri)})
        for name, table in sorted(release.tables.items())
    ]
    return dg.MaterializeResult(
        metadata={
            RELEASE: release.number,
            RELEASE_SET: redact(releases.uri),
            RELEASE_TABLES: dg.MetadataValue.table(records=tables),
        },
        data_version=dg.DataVersion(str(release.number)),
    )
