"""Repair: finds differences between the log and the stored files, and repairs some of them.

Missing statistics are filled in from the footers of the files, which changes no row. Entries of
missing files are removed only on explicit request: their rows are lost, and as long as the files
may be restored from a backup an error is better. Both changes are one commit with a txn; a rerun
finds the remaining work.

No file is deleted. Orphans and missing deletion vectors are reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.log.outside_files import TableFiles
from delta_ops.log.transaction_identifiers import version_of_transaction
from delta_ops.maintenance.data_footers import describe_files, read_data_footer
from delta_ops.maintenance.repair.plan import RepairPlan, plan_repair
from delta_ops.maintenance.request_txn import maintenance_txn
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH
from delta_ops.protocol.file_paths import canonical_path, is_absolute, split_place
from delta_ops.protocol.stats.file_stats import widen_stats
from delta_ops.protocol.stats.from_footer import stats_from_footer
from delta_ops.storage import FileInfo
from delta_ops.storage.concurrency import run_parallel
from delta_ops.transaction import CommitResult, Transaction, Txn, begin
from delta_ops.transaction.changes import Describe
from delta_ops.transaction.races.missing_files import vector_path


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """The result of `repair`."""

    plan: RepairPlan
    dry_run: bool
    version: int | None = None
    """The version that holds the change; None if there is none, or it was cleaned up."""
    already_committed: bool = False
    """True: a concurrent run did the same first, and this one changed nothing."""
    described_files: int = 0
    """Files that got statistics."""
    removed_files: int = 0
    """Missing files whose entries were removed."""
    failures: tuple[str, ...] = ()
    """A sentence for each file whose footer cannot be read."""
    earlier_version: int | None = None
    """The version that an earlier run of the same request committed, if its commit is still there.
    """

    @property
    def left(self) -> tuple[str, ...]:
        """Faults that a person has to repair, one sentence each."""
        return tuple(_remaining_faults(self.plan, has_removed=self.removed_files > 0))


def repair(
    log: TableOrPlace,
    *,
    remove_missing: bool = False,
    fill_statistics: bool = True,
    request_id: str | None = None,
    user_metadata: str | None = None,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> RepairResult:
    """Compare the table with its files, and repair the requested faults.

    Args:
        remove_missing: Remove the entries of missing files, and so their rows.
        fill_statistics: Count the rows of files without statistics, and find their bounds.
        request_id: Identifies one request in all its reruns. A rerun reports the version that an
            earlier run committed and does the remaining work.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: All files of the table, or of another location, are missing, so the
            store is probably the wrong one; or the table is append-only and would lose rows.
        CommitConflictError: Another writer changed one of these files first; nothing was committed.
        StorageError: The store failed, so it is unknown which files exist.
        UnsupportedFeatureError: The table uses a feature that we cannot repair.

    Examples:
        >>> import pathlib
        >>> _ = da.write("lake/orders", da.to_table("lake/orders"))
        >>> next(pathlib.Path("lake/orders").glob("*.parquet")).unlink()
        >>> len(repair("lake/orders", dry_run=True).plan.missing)
        1
        >>> repair("lake/orders", remove_missing=True).removed_files
        1
    """
    validate_arguments(repair, locals())
    log = log_of(log)
    transaction = begin(log, clock=clock, on_event=on_event, operation="restore")
    snapshot = transaction.snapshot
    if snapshot is None:
        raise TableNotFoundError(log.uri)
    plan = load_repair_plan(snapshot, now_ms=clock())
    removed = plan.missing if remove_missing else ()
    if removed and len(removed) == plan.num_files:
        raise InvalidRequestError(
            f"{log.uri}: all {plan.num_files:,} files of the table are missing; check that this "
            "is the right location, and that its store is mounted and complete. If the files are "
            "lost, overwrite the table"
        )
    if removed:
        _validate_no_place_is_gone(removed, snapshot)
    if dry_run:
        transaction.remove(removed)
        transaction.validate()
        return RepairResult(plan=plan, dry_run=True)
    found = plan.without_statistics if fill_statistics else ()
    described, failures = describe_files(
        found,
        partial(run_parallel, partial(_add_statistics, snapshot)),
        table=snapshot.uri,
        operation="repair",
        on_event=on_event,
    )
    txn = _txn(snapshot, f"{bool(described)} {bool(removed)}", request_id)
    result = RepairResult(
        plan=plan,
        dry_run=False,
        failures=tuple(failures),
        earlier_version=None if request_id is None else _version_of(snapshot, txn),
    )
    if not described and not removed:
        return result
    transaction.set_transaction(txn)
    committed = _commit(transaction, plan, described, removed, user_metadata)
    result = replace(
        result, version=committed.version, already_committed=committed.already_committed
    )
    if committed.already_committed:
        return result
    return replace(result, described_files=len(described), removed_files=len(removed))


def _validate_no_place_is_gone(removed: Sequence[AddFile], snapshot: Snapshot) -> None:
    """Reject the removal of all files of a location: it may just not be mounted."""
    lost = Counter(_place(canonical_path(add.path, snapshot.uri)) for add in removed)
    live = Counter(
        _place(path)
        for files in snapshot.stream_live([CANONICAL_PATH])
        for path in files[CANONICAL_PATH].to_pylist()
    )
    for place, number in lost.items():
        if number >= live[place]:
            raise InvalidRequestError(
                f"{snapshot.uri}: all {number:,} files of the table in "
                f"{place or 'its own directory'} are missing; check that the location is mounted "
                "and complete. If the files are lost, overwrite the table"
            )


def _place(path: str) -> str:
    """The location to report for a file: "" for the table, else a store or a local directory."""
    if not is_absolute(path):
        return ""
    root, rest = split_place(path) or (path, "")
    if root != "/":
        return root
    return root + "/".join(name for name in rest.split("/")[:-1] if "=" not in name)


def _txn(snapshot: Snapshot, work: str, request_id: str | None) -> Txn:
    """The txn of a repair; two runs with the same plan on the same version share it."""
    if request_id is None:
        return maintenance_txn("repair", snapshot, work)
    request = maintenance_txn("repair", snapshot, "", request_id=request_id)
    return replace(request, version=snapshot.version)


def _version_of(snapshot: Snapshot, txn: Txn) -> int | None:
    """The version of the last commit by the txn's application."""
    stored = snapshot.transactions().get(txn.app_id)
    if stored is None:
        return None
    return version_of_transaction(
        snapshot.storage,
        snapshot.log_directory,
        txn.app_id,
        stored.version,
        base=snapshot.base,
    )


def load_repair_plan(snapshot: Snapshot, *, now_ms: int) -> RepairPlan:
    """List the table and plan; look up doubtful files by name.

    Files that the listing shows as missing or truncated may be behind links.

    Raises:
        StorageError: The store failed.
    """
    retention_ms = snapshot.properties.deleted_file_retention_ms
    links: dict[str, str | None] = {}
    listed = list(snapshot.storage.list_tree("", on_link=links.__setitem__))
    compared = partial(plan_repair, snapshot, now_ms=now_ms, retention_ms=retention_ms, links=links)
    plan = compared(listed)
    files = snapshot.table_files
    in_doubt = (*plan.missing, *plan.truncated)  # a listed link is shorter than its file
    doubtful = {canonical_path(add.path, snapshot.uri) for add in in_doubt}
    # A file that turns out to exist needs its deletion vector, too.
    vectors = (vector_path(add, snapshot) for add in (*plan.missing, *plan.missing_vectors))
    doubtful |= {path for path in vectors if path and files.is_admitted(path)}
    infos = run_parallel(partial(_look_up, files, now_ms), sorted(doubtful))
    found = [info for info in infos if info is not None]
    if not found:
        return plan
    there = {info.path for info in found}
    return compared([*(info for info in listed if info.path not in there), *found])


def _look_up(files: TableFiles, now_ms: int, path: str) -> FileInfo | None:
    """A file by its path in the log, with the time `now_ms`; None if it is missing."""
    try:
        storage, place = files.find(path)
        return FileInfo(path, size=storage.stat(place).size, modified_ms=now_ms)
    except FileNotFoundError:
        return None


def _commit(
    transaction: Transaction,
    plan: RepairPlan,
    described: Sequence[AddFile],
    removed: Sequence[AddFile],
    user_metadata: str | None,
) -> CommitResult:
    transaction.apply(Describe(files=tuple(described)))
    transaction.remove(removed)
    return transaction.commit(
        operation="FSCK" if removed else "COMPUTE STATS",
        parameters={} if removed else {"predicate": []},
        metrics={
            "numFilesScanned": plan.num_files,
            "numMissingFiles": len(plan.missing),
            "numMissingDVs": len(plan.missing_vectors),
            "numRemovedFiles": len(removed),
            "numDescribedFiles": len(described),
        },
        user_metadata=user_metadata,
        counts_files=False,
    )


def _add_statistics(snapshot: Snapshot, add: AddFile) -> AddFile | str:
    footer = read_data_footer(snapshot, add)
    if isinstance(footer, str):
        return footer
    definition = snapshot.definition
    stats = stats_from_footer(
        footer,
        definition.physical_schema,
        tuple(definition.partition_names.values()),
        definition.stats_settings,
    )
    # Deleted rows may have held the minimum or maximum.
    described = stats if add.deletion_vector is None else widen_stats(stats)
    return replace(add, stats=described, data_change=False)


def _remaining_faults(plan: RepairPlan, *, has_removed: bool) -> Iterator[str]:
    if plan.missing and not has_removed:
        yield (
            f"data files are missing ({len(plan.missing):,}), such as {plan.missing[0].path}: "
            "restore them from a backup, or remove their rows with a repair that removes missing "
            "files"
        )
    if plan.missing_vectors:
        yield (
            f"deletion vectors are missing ({len(plan.missing_vectors):,}), such as that of "
            f"{plan.missing_vectors[0].path}: restore them from a backup, or restore an older "
            "version"
        )
    if plan.truncated:
        yield (
            f"data files are shorter than the log says ({len(plan.truncated):,}), such as "
            f"{plan.truncated[0].path}: restore them from a backup, or restore an older version"
        )
