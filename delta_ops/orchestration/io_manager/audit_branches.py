"""Audit branches: the branch of an audited output, and how readers of the output find it.

An asset with the metadata `delta/publish` "audited" never commits to main.

1. Each execution of its step writes a new branch that begins at the latest version of main. The
   name of the branch has the asset, the partitions and the run. A retry in the same run deletes the
   branch of the attempt before, so a branch has the rows of one execution.
2. The materialization of the asset names the branch and its version. It is the only record of what
   waits for publication, so a killed step that logged no event left nothing to publish.
3. An input that loads the asset reads the branch that its own run has written, or else a run that
   its run re-executes, or else the newest branch. Checks of the asset load it this way. Only the
   metadata of the input itself may choose another version: with a general setting, such as the tag
   of a run, checks would pass without a look at the branch.
4. The publication carries the branch's `txn` to main. So an append that was published is found on
   main by reruns of its run, and is not written again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from shlex import quote
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.refs.branches import branch_id_of, branch_named
from delta_ops.log.refs.refs import Branch, refs_journal
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration import dagster_records as records
from delta_ops.orchestration.io_manager.output_report import WrittenOutput
from delta_ops.orchestration.io_manager.output_settings import PUBLISH_KEY
from delta_ops.orchestration.io_manager.output_txns import (
    StepOutput,
    step_output,
    step_output_of_asset,
)
from delta_ops.orchestration.io_manager.output_writer import OutputWriter
from delta_ops.orchestration.shared_tables import PUBLISHED_FROM_KEY
from delta_ops.storage.paths import redact
from delta_ops.transaction import CommitResult
from delta_ops.versioning import create_branch, delete_branch

BRANCH = "delta/branch"
BRANCH_ID = "delta/branch_id"
BRANCH_VERSION = "delta/branch_version"
BASE_VERSION = "delta/base_version"
BRANCH_EXPIRES = "delta/branch_expires"
READ_BRANCH = "delta/read_branch"
"""Metadata of the materialization of an audited asset."""
FILES_WRITTEN, _ROWS_WRITTEN = "delta/files_written", "delta/rows_written"
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_+-]+")
_MOST_CHARACTERS = 60
_loaded: WeakKeyDictionary[Any, dict[dg.AssetKey, dict[str, Any]]] = WeakKeyDictionary()
"""Metadata of the branches that the inputs of a step have loaded, by the step's context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """Rows that wait on a branch, as a materialization of an audited asset records them."""

    branch: str | None
    """The name of the branch; None if the rows were found on main."""
    branch_id: str
    branch_version: int
    base_version: int
    num_rows: int
    """Rows that the step wrote."""
    is_reported: bool
    """Whether the IO manager has handled the output."""
    run_id: str
    step_key: str | None
    storage_id: int
    """The storage id of the materialization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRows:
    """The publications of a run; the IO manager reports them as an output."""

    results: Sequence[CommitResult]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedOutput:
    """An output that is written to a branch."""

    log: DeltaLog
    """The log of the branch; the table's own log if nothing waits for publication."""
    branch: Branch | None
    output: WrittenOutput


def branch_name(output: StepOutput, purpose: str = "audit") -> str:
    """The name of the branch for an output: its purpose, its asset, its partitions and its run."""
    asset = _part_of_name(output.asset_key.to_user_string())
    partitions = [] if output.partition_text is None else [_part_of_name(output.partition_text)]
    return "/".join([purpose, asset, *partitions, output.run.run_id])


def _part_of_name(text: str) -> str:
    """A text as a part of a branch's name; a hash tells apart texts that become equal."""
    part = _OTHER_CHARACTERS.sub("-", text)[:_MOST_CHARACTERS]
    return part if part == text else f"{part}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def create_audit_branch(log: DeltaLog, name: str) -> Branch:
    """Create the branch of an output at the latest version of main.

    A branch of this name belongs to an earlier attempt of the same step, and is deleted.

    Raises:
        InvalidRequestError: The table cannot have branches.
        TableNotFoundError: There is no table.
    """
    if branch_named(refs_journal(log.storage).load().state, name) is not None:
        delete_branch(log, name)
    return create_branch(log, name)


def open_audit_branch(
    context: dg.AssetExecutionContext, log: DeltaLog, asset_key: dg.AssetKey | None = None
) -> DeltaLog:
    """Create and open the branch of an audited asset that writes its table by itself.

    The asset writes to the returned handle, and returns that handle.

    Args:
        context: The context of the asset.
        log: The handle of the table.
        asset_key: The asset, if the step materializes several.

    Raises:
        InvalidRequestError: The asset is not audited, or the table cannot have branches.
        TableNotFoundError: There is no table; create it with `delta_ops.ddl.create_table`.

    Examples:
        >>> from delta_ops import DeltaLog
        >>> @dg.asset(metadata={"delta/publish": "audited"})
        ... def orders(context: dg.AssetExecutionContext) -> DeltaLog:
        ...     branch = open_audit_branch(context, DeltaLog("lake/orders"))
        ...     da.delete(branch, "id = 1")
        ...     return branch
        >>> dg.materialize([orders], resources={"io_manager": DeltaIOManager(root="lake")}).success
        True
        >>> da.count_rows("lake/orders")  # main waits for the publication
        3
    """
    key = context.asset_key if asset_key is None else asset_key
    if context.assets_def.specs_by_key[key].metadata.get(PUBLISH_KEY) is None:
        raise InvalidRequestError(
            f"asset {key.to_user_string()} has no {PUBLISH_KEY} in its metadata, so its branch "
            f'would not be published; add metadata={{"{PUBLISH_KEY}": "audited"}}'
        )
    name = branch_name(step_output_of_asset(context, key))
    return log.main.on_branch(create_audit_branch(log.main, name))


def write_audited(writer: OutputWriter, value: Any) -> AuditedOutput:
    """Write an output to a new branch; to no branch if main has the output already.

    Raises:
        InvalidRequestError: The asset has written to main by itself, each partition has a table of
            its own, or there is no run.
    """
    output = step_output(writer.context)
    if output is None or writer.settings.owns_table:
        reason = "there is no run" if output is None else "each partition has a table of its own"
        raise InvalidRequestError(
            f"{writer.log.uri}: {reason}, so the output cannot be audited; leave {PUBLISH_KEY} out "
            "of the metadata. Nothing was written"
        )
    _warn_if_nothing_publishes(writer.context)
    name = branch_name(output)
    if isinstance(value, Snapshot | DeltaLog) and value.uri == writer.log.uri:
        return _own_branch(writer, value, name)
    if not writer.log.exists():
        writer.create_table(value)
    branch = create_audit_branch(writer.log, name)
    log = writer.log.on_branch(branch)
    try:
        written = replace(writer, log=log).write(value)
        is_staged = written.is_new and log.snapshot().version > branch.base_version
    except BaseException:
        _discard(writer.log, branch)
        raise
    if is_staged:
        return AuditedOutput(log=log, branch=branch, output=written)
    _discard(writer.log, branch)
    return AuditedOutput(log=writer.log, branch=None, output=_on_main(written))


def _warn_if_nothing_publishes(context: dg.OutputContext) -> None:
    name = context.asset_key.to_user_string()
    known = records.definition_metadata(context)
    if all(metadata.get(PUBLISHED_FROM_KEY) != name for metadata in known):
        context.log.warning(
            f"asset {name} is audited, and no asset of this run or of its code location publishes "
            "it, so its rows stay on a branch until the branch expires; add the asset of "
            "build_publish_asset"
        )


def _own_branch(writer: OutputWriter, value: Snapshot | DeltaLog, name: str) -> AuditedOutput:
    """The branch that the asset has written by itself."""
    branch = branch_named(refs_journal(writer.log.storage).load().state, name)
    if branch is None or branch_id_of(value.log_directory) != branch.id:
        raise InvalidRequestError(
            f"{writer.log.uri}: an audited asset that writes its table by itself must write to its "
            "branch, and return the branch; get it with open_audit_branch(context, log)"
        )
    written = WrittenOutput([], is_replaced=False, mode=writer.settings.mode)
    return AuditedOutput(log=writer.log.on_branch(branch), branch=branch, output=written)


def _on_main(written: WrittenOutput) -> WrittenOutput:
    """The output without the snapshots of a branch that was deleted."""
    results = [
        CommitResult(
            version=result.version,
            already_committed=result.already_committed,
            attempts=result.attempts,
            metrics=result.metrics,
        )
        for result in written.results
    ]
    return written._replace(results=results)


def _discard(log: DeltaLog, branch: Branch) -> None:
    if branch_named(refs_journal(log.storage).load().state, branch.name) == branch:
        delete_branch(log, branch.name)


def branch_metadata(log: DeltaLog, branch: Branch, version: int) -> dict[str, Any]:
    """Metadata of an audited asset: its branch, and how to read it.

    Args:
        log: The log of the branch.
        version: The version of the branch with the output.
    """
    uri, ref = redact(log.uri), f"branch:{branch.name}"
    expires = datetime.fromtimestamp(branch.expires_ms / 1000, UTC)
    text = (
        "The rows are on a branch until they are published. Read them in Python, or list the files "
        "at a terminal:\n\n"
        f"```python\ndelta_ops.arrow.to_table({uri!r}, ref={ref!r})\n```\n\n"
        f"```bash\ndelta-ops branch {quote(uri)} diff {branch.name}\n```\n\n"
        f"The branch expires at {expires.isoformat(sep=' ', timespec='minutes')}."
    )
    return {
        BRANCH: branch.name,
        BRANCH_ID: branch.id,
        BRANCH_VERSION: version,
        BASE_VERSION: branch.base_version,
        BRANCH_EXPIRES: dg.MetadataValue.timestamp(expires),
        READ_BRANCH: dg.MetadataValue.md(text),
    }


def find_staged(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    asset_key: dg.AssetKey,
    partitions: Sequence[str] | None,
) -> dict[str | None, StagedRows]:
    """Find the rows that wait for publication, by partition.

    First the materializations of the run are searched, then the runs that it re-executes, and then
    the newest materializations.

    Args:
        partitions: Partition keys; None for an asset without partitions, whose only key is None.
    """
    wanted = [None] if partitions is None else list(partitions)
    found: dict[str | None, StagedRows] = {}
    for each in runs_of(instance, run):
        for record in records.materializations_of_run(instance, each.run_id, asset_key):
            event = record.asset_materialization
            assert event is not None
            key = event.partition if partitions is not None else None
            if key in wanted and key not in found:
                found[key] = _staged_rows(record)
        if len(found) == len(wanted):
            return found
    for key in wanted:
        newest = None if key in found else records.newest_record(instance, asset_key, key)
        if newest is not None:
            found[key] = _staged_rows(newest)
    return found


def runs_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[dg.DagsterRun]:
    """A run, and the runs that it re-executes, newest first."""
    current: dg.DagsterRun | None = run
    while current is not None:
        yield current
        parent_id = current.parent_run_id
        current = instance.get_run_by_id(parent_id) if parent_id is not None else None


def _staged_rows(record: dg.EventLogRecord) -> StagedRows:
    event = record.asset_materialization
    assert event is not None
    metadata: dict[str, Any] = {name: each.value for name, each in event.metadata.items()}
    return StagedRows(
        branch=metadata.get(BRANCH),
        branch_id=metadata.get(BRANCH_ID, ""),
        branch_version=metadata.get(BRANCH_VERSION, 0),
        base_version=metadata.get(BASE_VERSION, 0),
        num_rows=metadata.get(_ROWS_WRITTEN, 0),
        is_reported=FILES_WRITTEN in metadata,
        run_id=record.run_id,
        step_key=record.event_log_entry.step_key,
        storage_id=record.storage_id,
    )


def audited_log(context: dg.InputContext, log: DeltaLog) -> DeltaLog | None:
    """The branch that an input of an audited asset loads; None if nothing waits on a branch."""
    run, instance = compat.run_of_input(context), compat.instance_of(context)
    if run is None or instance is None:
        return None
    record = _record_to_read(context, run, instance)
    if record is None:
        return None
    staged = _staged_rows(record)
    branch = refs_journal(log.storage).load().state.branches.get(staged.branch_id)
    if branch is None or branch.published_version is not None:
        return None
    context.log.info(f"{log.uri}: this step reads the branch {branch.name}, which is not published")
    _loaded.setdefault(context.step_context, {})[context.asset_key] = branch_metadata(
        log, branch, staged.branch_version
    )
    return log.on_branch(branch)


def audit_metadata(
    context: dg.AssetCheckExecutionContext, asset_key: dg.AssetKey | None = None
) -> dict[str, Any]:
    """Metadata for the result of a check: the branch that the check has loaded.

    Args:
        context: The context of the check.
        asset_key: The audited asset, if the check loads several.

    Returns:
        The metadata of the materialization that name the branch and say how to read it; empty if
        the check has loaded no branch.

    Examples:
        >>> @dg.asset(metadata={"delta/publish": "audited", "delta/table": "visits"})
        ... def new_visits() -> pa.Table:
        ...     return pa.table({"page": ["/"]})
        >>> @dg.asset_check(asset=new_visits, blocking=True)
        ... def has_two(
        ...     context: dg.AssetCheckExecutionContext, new_visits: pa.Table
        ... ) -> dg.AssetCheckResult:
        ...     is_right = len(new_visits) == 2
        ...     return dg.AssetCheckResult(passed=is_right, metadata=audit_metadata(context))
        >>> resources = {"io_manager": DeltaIOManager(root="lake")}
        >>> run = dg.materialize([new_visits, has_two], resources=resources, raise_on_error=False)
        >>> (evaluation,) = run.get_asset_check_evaluations()
        >>> branch = evaluation.metadata["delta/branch"].value
        >>> da.count_rows("lake/visits", ref=f"branch:{branch}")
        1
    """
    op = compat.running_op(context)
    loaded = {} if op is None else _loaded.get(op.get_step_execution_context(), {})
    if asset_key is None:
        return dict(next(iter(loaded.values()), {}))
    return dict(loaded.get(asset_key, {}))


def _record_to_read(
    context: dg.InputContext, run: dg.DagsterRun, instance: dg.DagsterInstance
) -> dg.EventLogRecord | None:
    """The materialization whose branch an input loads.

    A check without partitions depends on all partitions of its asset. So the partitions of the
    input do not choose the branch, unless there is one.
    """
    for each in runs_of(instance, run):
        found = records.materializations_of_run(instance, each.run_id, context.asset_key)
        if found:
            return found[0]
    keys = list(context.asset_partition_keys) if context.has_asset_partitions else []
    key = keys[0] if len(keys) == 1 else None
    return records.newest_record(instance, context.asset_key, key)
