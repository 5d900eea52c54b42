"""Recorded run: what an earlier run read and committed, by its materializations.

A run with the tag `delta_ops/reproduce` reproduces the run that the tag names.

1. Each materialization of the named run records the version of the table that it wrote, and the
   versions of the inputs that its step read. An input of the reproduction reads the same version,
   also if the named run has written that input. So each step is reproduced by itself.
2. `validate_recorded` looks for versions that are gone. An IO manager calls it when Dagster
   initializes resources, which is before the first step: in the process of the run, or in the
   process of the first step with an executor that starts a process for each step. Dagster has no
   earlier place for code of an IO manager.
3. If the run has partitions, its inputs may read a part of the files. Then `validate_recorded`
   looks for the versions only, and the files are looked up when the input is read.
4. A step without assets, such as an asset check, reads the branch that its own run has written.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.errors import DeltaOpsError, InvalidRequestError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import read_commit_if_there
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration import dagster_records as records
from delta_ops.orchestration.io_manager.audit_branches import audited_log, runs_of
from delta_ops.orchestration.io_manager.input_reader import InputReader
from delta_ops.orchestration.io_manager.input_versions import INPUT_VERSION
from delta_ops.orchestration.io_manager.output_txns import run_id_of_commit
from delta_ops.orchestration.table_versions import changes_rows
from delta_ops.orchestration.tags import REPRODUCE_TAG, validate_tags
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction.races.missing_files import find_missing
from delta_ops.units import count_text

LogOfAsset = Callable[[dg.AssetKey, dict[str, Any]], DeltaLog]
"""Opens the table of an asset, given metadata with its location."""


def reproduced_run(
    instance: dg.DagsterInstance | None, run: dg.DagsterRun | None
) -> dg.DagsterRun | None:
    """The run that a run reproduces; None if it reproduces no run.

    Raises:
        InvalidRequestError: The tag names no run, the run itself, or another reproduction.
    """
    if instance is None or run is None:
        return None
    validate_tags(run)
    if REPRODUCE_TAG not in run.tags:
        return None
    run_id = run.tags[REPRODUCE_TAG]
    named = None if run_id == run.run_id else instance.get_run_by_id(run_id)
    problem = None
    if named is None:
        problem = "which is no other run of this Dagster instance"
    elif REPRODUCE_TAG in named.tags:
        problem = f"which itself reproduces run {named.tags[REPRODUCE_TAG]}"
    if problem is not None:
        raise InvalidRequestError(
            f"run {run.run_id} has the tag {REPRODUCE_TAG}={run_id}, {problem}; give the id of the "
            "run to reproduce. Nothing was read or written"
        )
    return named


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOutput:
    """A materialization of the named run."""

    run: dg.DagsterRun
    asset_key: dg.AssetKey
    partition: str | None
    metadata: dict[str, Any]

    @property
    def name(self) -> str:
        """The asset and its partition, for messages."""
        key = self.asset_key.to_user_string()
        return key if self.partition is None else f"{key}[{self.partition}]"

    @property
    def version(self) -> int | None:
        """The version of the table; None if the materialization names none."""
        value = self.metadata.get("delta/version")
        return value if isinstance(value, int) else None

    @property
    def input_versions(self) -> dict[str, int]:
        """The versions that the step read, by the asset key of the input as text."""
        return {
            name.removeprefix(INPUT_VERSION): value
            for name, value in self.metadata.items()
            if name.startswith(INPUT_VERSION) and isinstance(value, int)
        }


def recorded_outputs(
    instance: dg.DagsterInstance, run: dg.DagsterRun, asset_key: dg.AssetKey | None = None
) -> Iterator[RecordedOutput]:
    """The materializations of a run, newest first; of one asset if a key is given."""
    for record in records.materializations_of_run(instance, run.run_id, asset_key):
        event = record.asset_materialization
        if event is not None:
            yield RecordedOutput(
                run=run,
                asset_key=event.asset_key,
                partition=event.partition,
                metadata={name: each.value for name, each in event.metadata.items()},
            )


def find_recorded_output(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    asset_key: dg.AssetKey,
    partitions: Collection[str] = (),
) -> RecordedOutput:
    """The newest materialization of an asset, and of one of the partitions, in a run.

    Raises:
        InvalidRequestError: The run has not materialized them.
    """
    for each in recorded_outputs(instance, run, asset_key):
        if not partitions or each.partition in partitions:
            return each
    of = f" for partition {', '.join(sorted(partitions)[:3])}" if partitions else ""
    raise InvalidRequestError(
        f"run {run.run_id} has not materialized asset {asset_key.to_user_string()}{of}, so this "
        "asset cannot be reproduced; leave it out of the selection. Nothing was written"
    )


def recorded_input_version(context: dg.InputContext) -> int | None:
    """The version of an input that the named run read.

    Returns:
        None if the run of the input reproduces no run, or if the step materializes no asset.

    Raises:
        InvalidRequestError: The named run has not recorded a version of the input.
    """
    instance, run = compat.instance_of(context), compat.run_of_input(context)
    named = reproduced_run(instance, run)
    if named is None:
        return None
    assert instance is not None
    found = compat.consumer_partitions(context)
    partitions: Sequence[str] = () if found is None else found[1]
    consumers = list(compat.consumer_metadata(context))
    name = context.asset_key.to_user_string()
    for consumer in consumers:
        recorded = find_recorded_output(instance, named, consumer, partitions)
        if name in recorded.input_versions:
            return recorded.input_versions[name]
    if not consumers:
        return None
    raise InvalidRequestError(
        f"run {named.run_id} has recorded no version of the input {name} of asset "
        f"{consumers[0].to_user_string()}, so the asset cannot be reproduced; leave it out of the "
        "selection. Nothing was read"
    )


def is_reproduction(context: dg.InputContext) -> bool:
    """Whether the run of an input reproduces another run."""
    return reproduced_run(compat.instance_of(context), compat.run_of_input(context)) is not None


def read_reproduced(reader: InputReader, log: DeltaLog) -> Any:
    """Read an input as the named run read it.

    Raises:
        InvalidRequestError: The named run has not recorded a version of the input.
        VersionNotFoundError: The version, or a file with rows of the input, is gone.
    """
    version = recorded_input_version(reader.context)
    if version is None:
        branch = audited_log(reader.context, log)
        return reader.read(log) if branch is None else reader.reading("latest").read(branch)
    chosen = reader.reading(version)
    try:
        open_recorded(log, version, chosen.rows_of(log.snapshot(version)))
    except VersionNotFoundError as error:
        named = reproduced_run(
            compat.instance_of(reader.context), compat.run_of_input(reader.context)
        )
        assert named is not None
        raise VersionNotFoundError(
            error.table, error.requested, f"{error.reason}; run {named.run_id} read this version"
        ) from error
    return chosen.read(log)


def first_version(log: DeltaLog, recorded: RecordedOutput, run_ids: Collection[str]) -> int:
    """The first version of an output: it and all later versions have only the output's rows.

    Args:
        run_ids: The named run, and the runs that it re-executes.

    Raises:
        InvalidRequestError: The version of the materialization is of another run or is unknown.
        VersionNotFoundError: The commit is gone.
    """
    first = None
    version = recorded.version
    if version is None:
        raise InvalidRequestError(
            f"run {recorded.run.run_id} has recorded no version of the table of asset "
            f"{recorded.name}, as an audited asset or another storage does; leave the asset out of "
            "the selection. Nothing was written"
        )
    for each in range(version, -1, -1):
        commit = read_commit_if_there(log.storage, log.log_directory, each)
        if commit is not None and run_id_of_commit(commit) in run_ids:
            first = each
        elif commit is None or changes_rows(commit):
            if commit is None and first is None:
                raise VersionNotFoundError(
                    log.uri, f"version {each}", "its commit was deleted from the log"
                )
            break
    if first is None:
        raise InvalidRequestError(
            f"run {recorded.run.run_id} has not committed the rows of asset {recorded.name}: it "
            f"found version {version} of {log.uri}, which another run or program committed. Name "
            "that run instead. Nothing was written"
        )
    return first


def open_recorded(log: DeltaLog, version: int, predicate: Predicate | None = None) -> Snapshot:
    """Open a version, and look up its files that the latest version lacks.

    Args:
        predicate: The rows that are needed of a version; None for all rows.

    Raises:
        VersionNotFoundError: The version, or one of its files, is gone.
    """
    snapshot = log.snapshot(version)
    live = {canonical_path(each.path, log.uri): each for each in log.snapshot().add_files()}
    wanted = [
        add
        for add in snapshot.add_files(predicate)
        if (known := live.get(canonical_path(add.path, log.uri))) is None
        or known.deletion_vector != add.deletion_vector
    ]
    if missing := find_missing(wanted, snapshot):
        raise VersionNotFoundError(
            log.uri,
            f"version {version}",
            f"{count_text(len(missing), 'file')} of this version were deleted, such as "
            f"{missing[0].path}",
        )
    return snapshot


def validate_recorded(
    instance: dg.DagsterInstance | None, run: dg.DagsterRun | None, log_of: LogOfAsset
) -> None:
    """Reject a reproduction before its first step if it must fail, as where versions are gone.

    Does nothing in other runs, and after the first step.

    Raises:
        InvalidRequestError: The error names each version that is gone.
    """
    # Other tags are validated where an input or output is handled: Dagster gives the caller those
    # errors as they are, and wraps errors from here.
    if instance is None or run is None or REPRODUCE_TAG not in run.tags:
        return
    named = reproduced_run(instance, run)
    assert named is not None
    if records.has_finished_step(instance, run.run_id):
        return
    run_ids = [each.run_id for each in runs_of(instance, named)]
    problems: dict[str, None] = {}
    opened: set[tuple[str, int]] = set()
    for recorded in recorded_outputs(instance, named):
        if run.asset_selection and recorded.asset_key not in run.asset_selection:
            continue
        for key, version in recorded.input_versions.items():
            if (key, version) not in opened:
                opened.add((key, version))
                asset_key = dg.AssetKey.from_user_string(key)
                problem = _problem(instance, log_of, asset_key, version, recorded)
                if problem is not None:
                    problems[f"{recorded.name} read version {version} of {key}: {problem}"] = None
        problem = _problem_of_output(instance, log_of, recorded, run_ids)
        if problem is not None:
            problems[f"{recorded.name} was committed as version {recorded.version}: {problem}"] = (
                None
            )
    if problems:
        raise InvalidRequestError(
            f"run {named.run_id} cannot be reproduced, so no step was executed; leave these assets "
            f"out of the selection. {' '.join(problems)}"
        )


def _problem(
    instance: dg.DagsterInstance,
    log_of: LogOfAsset,
    asset_key: dg.AssetKey,
    version: int,
    recorded: RecordedOutput,
) -> str | None:
    """Why a version cannot be read; None if it can be."""
    try:
        log = _log(instance, log_of, asset_key)
        if recorded.partition is None:
            open_recorded(log, version)
        else:
            log.snapshot(version)
    except DeltaOpsError as error:
        return str(error)
    return None


def _problem_of_output(
    instance: dg.DagsterInstance,
    log_of: LogOfAsset,
    recorded: RecordedOutput,
    run_ids: Collection[str],
) -> str | None:
    if recorded.version is None:
        return None  # another IO manager has stored the output, or it names a branch
    problem = _problem(instance, log_of, recorded.asset_key, recorded.version, recorded)
    if problem is not None:
        return problem
    try:
        log = _log(instance, log_of, recorded.asset_key)
        log.snapshot(max(first_version(log, recorded, run_ids) - 1, 0))
    except DeltaOpsError as error:
        return str(error)
    return None


def _log(instance: dg.DagsterInstance, log_of: LogOfAsset, asset_key: dg.AssetKey) -> DeltaLog:
    """The table of an asset, where its newest materialization says that it is."""
    newest = records.newest_record(instance, asset_key, None)
    event = None if newest is None else newest.asset_materialization
    uri = None if event is None else event.metadata.get("dagster/uri")
    return log_of(asset_key, {} if uri is None else {"dagster/uri": uri.value})
