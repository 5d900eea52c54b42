"""Publish asset: publishes what an audited asset wrote, after its blocking checks have passed.

Dagster logs the materialization of an asset when its step has written it, before the steps of its
checks begin. Readers therefore cannot depend on the audited asset, whose rows may not have been
checked. They depend on the publish asset. Dagster runs its step after the audited asset and all
blocking checks of the run.

1. The rows to publish are those of `find_staged`: of this run, of a run that it re-executes, or of
   the newest materialization.
2. All blocking checks must have passed for these rows, see `audits`; else nothing is published.
3. Each branch is published in one commit, at the version that was checked, and then deleted.
4. A step that was killed is repeated. It finds the commit on main by the branch, also after the
   branch was deleted.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.log import DeltaLog
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.log.refs.branches import branch_log_directory, find_branch
from delta_ops.option_words import Surface, spoken_on
from delta_ops.orchestration import dagster_records as records
from delta_ops.orchestration.dagster_versions import BetaWarning
from delta_ops.orchestration.io_manager.audit_branches import (
    BRANCH,
    READ_BRANCH,
    PublishedRows,
    StagedRows,
    branch_metadata,
    find_staged,
)
from delta_ops.orchestration.io_manager.delta_io_manager import DeltaIOManager
from delta_ops.orchestration.io_manager.output_settings import (
    PUBLISH_KEY,
    is_audited,
)
from delta_ops.orchestration.io_manager.output_txns import step_output_of_asset, user_metadata
from delta_ops.orchestration.publish.audits import audits_of, problems_of
from delta_ops.orchestration.shared_tables import PUBLISHED_FROM_KEY
from delta_ops.orchestration.tables import TABLE_KEY, table_parts
from delta_ops.orchestration.tags import reject_reproduction
from delta_ops.transaction import CommitResult
from delta_ops.versioning import delete_branch, publish
from delta_ops.versioning.publish import find_publication

_KIND = "deltalake"
_RUN_NAMES = "dagster/"


def build_publish_asset(
    asset: dg.AssetsDefinition | dg.AssetSpec,
    key: dg.AssetKey | str | Sequence[str],
    *,
    rebase: bool | None = None,
    io_manager_key: str = "io_manager",
    group_name: str | None = None,
    description: str | None = None,
    automation_condition: dg.AutomationCondition[dg.AssetKey] | None = None,
    backfill_policy: dg.BackfillPolicy | None = None,
    retry_policy: dg.RetryPolicy | None = None,
) -> dg.AssetsDefinition:
    """The asset that publishes an audited asset after its blocking checks have passed.

    The audited asset has the metadata `delta/publish` "audited", so it writes to a branch of its
    table. Readers depend on the publish asset, which is the same table.

    Args:
        asset: The audited asset, with its partitions.
        key: The key of the publish asset.
        rebase: Publish beside other commits on main, if they changed no row that the branch read.
            If None, only an asset with partitions does so, since its checks read the rows of its
            partitions. See `delta_ops.versioning.publish`.
        io_manager_key: The resource key of the `DeltaIOManager` of both assets.
        group_name: If None, the group of the audited asset.
        description: Text for the UI; if None, it names the audited asset.
        automation_condition: When Dagster runs the publish asset by itself.
        backfill_policy: If None, the policy of the audited asset.
        retry_policy: Retries of the step; a retry publishes nothing twice.

    Raises:
        InvalidRequestError: The asset is not audited, or is a definition of several assets.

    Examples:
        >>> @dg.asset(metadata={"delta/publish": "audited", "delta/table": "visits"})
        ... def new_visits() -> pa.Table:
        ...     return pa.table({"page": ["/"]})
        >>> @dg.asset_check(asset=new_visits, blocking=True)
        ... def has_pages(new_visits: pa.Table) -> dg.AssetCheckResult:
        ...     return dg.AssetCheckResult(passed=new_visits["page"].null_count == 0)
        >>> visits = build_publish_asset(new_visits, "visits")
        >>> resources = {"io_manager": DeltaIOManager(root="lake")}
        >>> dg.materialize([new_visits, has_pages, visits], resources=resources).success
        True
        >>> da.count_rows("lake/visits")
        1
    """
    validate_arguments(build_publish_asset, locals())
    audited = _audited_spec(asset)
    if backfill_policy is None and isinstance(asset, dg.AssetsDefinition):
        backfill_policy = asset.backfill_policy
    publication = _Publication(
        audited=audited,
        key=dg.AssetKey.from_coercible(key),
        io_manager_key=io_manager_key,
        rebase=audited.partitions_def is not None if rebase is None else rebase,
    )
    text = description or f"Publishes {audited.key.to_user_string()} after its blocking checks."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)  # of backfill_policy

        @dg.asset(
            key=publication.key,
            deps=[audited.key],
            partitions_def=audited.partitions_def,
            metadata=_metadata(audited),
            group_name=group_name or audited.group_name,
            kinds={_KIND},
            io_manager_key=io_manager_key,
            required_resource_keys={io_manager_key},
            automation_condition=automation_condition,
            backfill_policy=backfill_policy,
            retry_policy=retry_policy,
            description=text,
        )
        def publish_rows(context: dg.AssetExecutionContext) -> Any:
            return publication.run(context)

    return publish_rows


def _audited_spec(asset: dg.AssetsDefinition | dg.AssetSpec) -> dg.AssetSpec:
    specs = list(asset.specs) if isinstance(asset, dg.AssetsDefinition) else [asset]
    if len(specs) != 1:
        names = ", ".join(sorted(spec.key.to_user_string() for spec in specs))
        raise InvalidRequestError(
            f"the definition has {len(specs)} assets ({names}), and a publish asset publishes one; "
            "give the AssetSpec of the asset, such as definition.specs_by_key[key]"
        )
    (spec,) = specs
    if not is_audited(spec.key, spec.metadata):
        raise InvalidRequestError(
            f"asset {spec.key.to_user_string()} writes to main, so there is nothing to publish; "
            f'add metadata={{"{PUBLISH_KEY}": "audited"}} to it'
        )
    return spec


def _metadata(audited: dg.AssetSpec) -> dict[str, Any]:
    """Metadata of the publish asset: where the table is, and what readers of it need."""
    kept = {name: value for name, value in audited.metadata.items() if name != PUBLISH_KEY}
    named = {PUBLISHED_FROM_KEY: audited.key.to_user_string()}
    if table_parts(audited.key, audited.metadata) is None and "dagster/uri" not in kept:
        named[TABLE_KEY] = "/".join(audited.key.path)
    return {**kept, **named}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Publication:
    """The work of a publish asset; `build_publish_asset` documents the fields."""

    audited: dg.AssetSpec
    key: dg.AssetKey
    io_manager_key: str
    rebase: bool

    @spoken_on(Surface.ASSET)
    def run(self, context: dg.AssetExecutionContext) -> PublishedRows:
        """Publish the rows of the run's partitions.

        Raises:
            InvalidRequestError: The resource is not a DeltaIOManager.
            dagster.Failure: Rows are missing, were not checked, or cannot be published.
        """
        reject_reproduction(context.run.tags, "publishing rows")
        manager = getattr(context.resources, self.io_manager_key)
        if not isinstance(manager, DeltaIOManager):
            raise InvalidRequestError(
                f"the resource {self.io_manager_key} of the publish asset "
                f"{self.key.to_user_string()} is of type {type(manager).__name__}; give the "
                "io_manager_key of a DeltaIOManager"
            )
        log = manager.log_of_asset(self.audited.key, self.audited.metadata)
        staged = self._find_rows(context)
        for each in staged:
            self._require_passed_checks(context, log, each)
        published = [self._publish(context, manager, log, each) for each in staged]
        results = [each for each in published if each is not None]
        names = [each.branch for each in staged if each.branch is not None]
        return PublishedRows(results=results, metadata=_branch_names(names))

    def _find_rows(self, context: dg.AssetExecutionContext) -> list[StagedRows]:
        """The rows of the run's partitions, once for each branch."""
        keys = None if self.audited.partitions_def is None else list(context.partition_keys)
        found = find_staged(context.instance, context.run, self.audited.key, keys)
        missing = [key for key in ([None] if keys is None else keys) if key not in found]
        name = self.audited.key.to_user_string()
        if missing:
            of = f" for partition {missing[0]}" if missing[0] is not None else ""
            raise _failure(f"asset {name} was never materialized{of}; materialize it first")
        if any(not each.is_reported for each in found.values()):
            raise _failure(
                f"the materialization of asset {name} names no branch, because the asset returned "
                "neither rows nor its branch; return rows, or the handle of open_audit_branch"
            )
        by_branch: dict[str, StagedRows] = {}
        for each in found.values():
            known = by_branch.get(each.branch_id)
            num_rows = each.num_rows + (known.num_rows if known else 0)
            by_branch[each.branch_id] = replace(each, num_rows=num_rows)
        return list(by_branch.values())

    def _require_passed_checks(
        self, context: dg.AssetExecutionContext, log: DeltaLog, staged: StagedRows
    ) -> None:
        """Reject rows whose blocking checks have not all passed.

        Raises:
            dagster.Failure: With each check, and the branch.
        """
        if staged.branch is None:
            return
        name = self.audited.key.to_user_string()
        defined = records.blocking_checks(context, self.audited.key)
        audits = audits_of(context.instance, context.run, self.audited.key, defined, staged)
        if not audits:
            raise _failure(
                f"asset {name} has no blocking check, so nothing says whether its rows may be "
                "published; add an @asset_check(asset=..., blocking=True), or leave "
                f"{PUBLISH_KEY} out of its metadata",
                _read_metadata(log, staged),
            )
        problems = list(problems_of(audits))
        if problems:
            raise _failure(
                f"the rows of asset {name} on the branch {staged.branch} were not published: "
                f"{'; '.join(problems)}. Run {name} again with its checks, or the checks alone",
                _read_metadata(log, staged),
            )

    def _publish(
        self,
        context: dg.AssetExecutionContext,
        manager: DeltaIOManager,
        log: DeltaLog,
        staged: StagedRows,
    ) -> CommitResult | None:
        """Publish the rows of a branch; None if the branch has no commits."""
        if staged.branch is None:  # an earlier run has published the rows
            return CommitResult(version=None, already_committed=True, attempts=0)
        try:
            branch = find_branch(log.storage, staged.branch)
        except (TableNotFoundError, VersionNotFoundError):
            branch = None
        if branch is None or branch.id != staged.branch_id:
            return self._find_earlier(log, staged)
        try:
            done = publish(
                log,
                staged.branch,
                expected_branch_version=staged.branch_version,
                rebase=self.rebase,
                user_metadata=self._user_metadata(context, log, staged),
                hooks=manager.hooks,
            )
        except DeltaOpsError as error:
            name = self.audited.key.to_user_string()
            raise dg.Failure(
                f"the branch {staged.branch} was not published: {error}. Materialize {name} again: "
                "it writes a new branch from the latest version",
                metadata=_read_metadata(log, staged),
                allow_retries=_may_pass_later(error),
            ) from error
        delete_branch(log, staged.branch)
        if done.version is None:
            return None
        return _result(log, done.version, staged, already_published=done.already_published)

    def _find_earlier(self, log: DeltaLog, staged: StagedRows) -> CommitResult:
        """The publication of a branch that was deleted.

        Raises:
            dagster.Failure: The branch was deleted before it was published.
        """
        version = find_publication(
            log, staged.branch_id, staged.branch_version, staged.base_version
        )
        if version is None:
            name = self.audited.key.to_user_string()
            raise _failure(
                f"the branch {staged.branch} of asset {name} was deleted before it was published, "
                f"or has expired; materialize {name} again"
            )
        return _result(log, version, staged, already_published=True)

    def _user_metadata(
        self, context: dg.AssetExecutionContext, log: DeltaLog, staged: StagedRows
    ) -> str | None:
        """User metadata of the commit on main: this run, and the strings of the audited asset."""
        texts: dict[str, str] = {}
        directory = branch_log_directory(staged.branch_id)
        for version in range(staged.base_version + 1, staged.branch_version + 1):
            commit = read_commit_if_there(log.storage, directory, version)
            texts |= {} if commit is None else _own_texts(commit)
        return user_metadata(step_output_of_asset(context, self.key), texts)


def _own_texts(commit: Commit) -> dict[str, str]:
    """The strings of `delta/user_metadata` in a commit."""
    text = commit.info.values.get("userMetadata") if commit.info else None
    try:
        values = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    items = values.items() if isinstance(values, dict) else ()
    return {name: text for name, text in items if not name.startswith(_RUN_NAMES)}


def _result(
    log: DeltaLog, version: int, staged: StagedRows, *, already_published: bool
) -> CommitResult:
    return CommitResult(
        version=version,
        already_committed=already_published,
        attempts=0 if already_published else 1,
        metrics={"numOutputRows": staged.num_rows},
        open_snapshot=lambda: log.snapshot(version),
    )


def _may_pass_later(error: DeltaOpsError) -> bool:
    return not isinstance(error, InvalidRequestError)


def _branch_names(names: Sequence[str]) -> dict[str, Any]:
    if not names:
        return {}
    return {BRANCH: names[0] if len(names) == 1 else dg.MetadataValue.json(list(names))}


def _read_metadata(log: DeltaLog, staged: StagedRows) -> Mapping[str, Any]:
    """Metadata that name the branch and say how to read it; empty if the branch is gone."""
    assert staged.branch is not None
    try:
        branch = find_branch(log.storage, staged.branch)
    except (TableNotFoundError, VersionNotFoundError):
        return {BRANCH: staged.branch}
    metadata = branch_metadata(log, branch, staged.branch_version)
    return {BRANCH: metadata[BRANCH], READ_BRANCH: metadata[READ_BRANCH]}


def _failure(text: str, metadata: Mapping[str, Any] | None = None) -> dg.Failure:
    """A failure that a retry of the step does not cure."""
    return dg.Failure(text, metadata=metadata, allow_retries=False)
