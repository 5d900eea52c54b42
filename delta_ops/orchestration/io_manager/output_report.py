"""Output report: the metadata and data version of an output's table, for Dagster.

A rerun that finds its work committed reports that commit, not a later commit. Its data version is
never older than Dagster's data version for the same partitions, because steps read at the newest
data version.

If a run writes several partitions, the event of each partition has its own number of rows. The rows
are counted in the files of the commit: by statistics if all rows of a file belong to one partition,
else by the columns of `partition_expr`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import dagster as dg
import pyarrow as pa

from delta_ops.errors import DeltaOpsError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.log.refs.branches import branch_id_of
from delta_ops.log.version.pruning import file_view, match_files, split_by_match
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.column_lineage import computed_lineage, declared_lineage
from delta_ops.orchestration.io_manager.output_partitions import (
    rows_of_each_partition,
    versioned_rows,
)
from delta_ops.orchestration.io_manager.output_settings import OutputSettings
from delta_ops.orchestration.metadata import (
    commit_metadata,
    data_version,
    rows_by_statistics,
    rows_written,
    table_metadata,
    table_version,
)
from delta_ops.orchestration.table_versions import last_data_version, last_partition_version
from delta_ops.protocol.arrow_schemas import add_files, merge_chunks
from delta_ops.protocol.predicate import Predicate, columns, resolve, to_arrow
from delta_ops.transaction import CommitResult, Txn

_LINEAGE = "dagster/column_lineage"
_MAX_COUNTED_PARTITIONS = 500
"""The rows of runs with more partitions are not counted, because Dagster's time for metadata grows
with the square of the number of partitions."""
_MAX_LIVE_FILES = 10_000
"""The rows of each partition are not counted in tables with more live files."""


class WrittenOutput(NamedTuple):
    """The commits of an output."""

    results: Sequence[CommitResult]
    is_replaced: bool
    """Whether the output has replaced all rows of its partitions or its table."""
    rows: Any = None
    """The whole data if its columns become columns of the table; otherwise None."""
    mode: str = "overwrite"

    @property
    def is_new(self) -> bool:
        """Whether this run has committed any part of the output."""
        return any(not result.already_committed for result in self.results)

    @property
    def num_rows_written(self) -> int:
        """The rows that the commits of this run wrote."""
        new = [result for result in self.results if not result.already_committed]
        return sum(rows_written(result.metrics) for result in new)

    @property
    def snapshot(self) -> Snapshot | None:
        """The table after the last commit; None without a commit."""
        found = [result.snapshot for result in self.results if result.snapshot is not None]
        return found[-1] if found else None


def report_output(
    context: dg.OutputContext, log: DeltaLog, settings: OutputSettings, output: WrittenOutput
) -> Snapshot | None:
    """Add metadata and data version of written or already committed rows to the output.

    Args:
        log: The log that has the rows; for the log of a branch, the report names no version of the
            table.

    Returns:
        The reported version of the table; None if there is no table.
    """
    table = output.snapshot or log.snapshot_if_exists()
    return None if table is None else _OutputReport(context, log, settings, output, table).send()


class _OutputReport:
    """The metadata and the data version of one output.

    Args:
        table: The table after the last commit; the latest version if nothing was written.
    """

    def __init__(
        self,
        context: dg.OutputContext,
        log: DeltaLog,
        settings: OutputSettings,
        output: WrittenOutput,
        table: Snapshot,
    ) -> None:
        self._context, self._log, self._settings = context, log, settings
        self._output, self._results, self._table = output, output.results, table
        self._known = None if output.is_new else known_version(context, table)
        self._reported = table if output.is_new else self._found_snapshot()
        self._predicates = rows_of_each_partition(
            context, settings, table.schema, is_replaced=output.is_replaced
        )

    def send(self) -> Snapshot:
        """Add the metadata and the data version to the output; return the reported version."""
        newest = max(self._rows_version(), min(self._known or 0, self._table.version))
        branch_id = branch_id_of(self._log.log_directory)
        compat.set_data_version(self._context, data_version(self._reported, newest, branch_id))
        context = self._context
        name = context.asset_key.to_user_string() if context.has_asset_key else None
        is_placed = "dagster/uri" in context.definition_metadata
        metadata = {
            **table_metadata(self._reported, name, is_placed=is_placed),
            **commit_metadata(self._results),
            **self._lineage_metadata(),
        }
        if branch_id is not None:
            metadata.pop("delta/version")
        adopted = self._adopted_commit()
        if adopted is not None:
            metadata["delta/rows_written"] = rows_of(adopted)
        if self._context.has_asset_partitions:
            self._add_partition_metadata(metadata.pop("delta/rows_written"))
        self._context.add_output_metadata(metadata)
        return self._reported

    def _found_snapshot(self) -> Snapshot:
        """The table at the version of the already committed write."""
        versions = [result.version for result in self._results if result.version is not None]
        version = max(versions, default=self._known if self._results else None)
        if version is None or version >= self._table.version:
            return self._table
        try:
            return self._log.snapshot(version)
        except VersionNotFoundError:
            return self._table

    def _rows_version(self) -> int:
        """The last version, up to the reported version, that changed rows of the output."""
        reported = self._reported
        own = [result.metrics for result in self._results if result.version == reported.version]
        if any(each.get("numFiles") or each.get("numRemovedFiles") for each in own):
            return reported.version
        rows = versioned_rows(self._context, self._settings, self._table.schema)
        if rows is None:
            return last_data_version(self._log, reported.version)
        known = known_version(self._context, reported)
        return last_partition_version(self._log, reported, rows, known)

    def _lineage_metadata(self) -> dict[str, Any]:
        """The declared column lineage, or else the lineage of the rows, if it is known."""
        columns = [field.name for field in self._reported.schema.fields]
        declared = self._settings.column_lineage
        if declared is None:
            # Other code may have computed rows that were already committed.
            rows = self._output.rows if self._output.is_new else None
            lineage = computed_lineage(self._context, rows, columns)
            return {} if lineage is None else {_LINEAGE: lineage}
        lineage, unknown = declared_lineage(declared, columns)
        if unknown:
            self._context.log.warning(
                f"delta/column_lineage names {', '.join(unknown)}, of which the table has no column"
            )
        return {_LINEAGE: lineage}

    def _adopted_commit(self) -> Commit | None:
        """The commit of an output that was already committed as a whole."""
        match self._results:
            case [CommitResult(already_committed=True, version=int() as version)]:
                return next(iter(self._log.commits(version, version)), None)
        return None

    def _add_partition_metadata(self, total: int) -> None:
        """Add to each partition the number of written rows, and its row count, if known."""
        counts = self._partition_counts(total)
        held = counts if self._output.is_replaced else _held_rows(self._reported, self._predicates)
        for partition in {**counts, **held}:
            figures = {
                "delta/rows_written": counts.get(partition),
                "dagster/partition_row_count": held.get(partition),
            }
            known = {name: number for name, number in figures.items() if number is not None}
            compat.add_partition_metadata(self._context, partition, known)

    def _partition_counts(self, total: int) -> Mapping[str, int]:
        """The rows written to each partition; empty if they cannot be counted."""
        keys = self._context.asset_partition_keys
        if len(keys) == 1:
            return dict.fromkeys(keys, total)
        versions = [result.version for result in self._results if result.version is not None]
        if not versions or not self._predicates or len(keys) > _MAX_COUNTED_PARTITIONS:
            return {}
        try:
            commits = [commit for v in versions for commit in self._log.commits(v, v)]
            counts = dict.fromkeys(self._predicates, 0)
            for commit in commits:
                for partition, predicate in self._predicates.items():
                    counts[partition] += _count_rows(self._reported, commit.adds, predicate)
        except DeltaOpsError as error:
            # The rows are committed; only their number is unknown.
            self._context.log.warning(f"the rows of each partition were not counted: {error}")
            return {}
        # Rewritten files also hold rows that do not belong to the output.
        return counts if sum(counts.values()) <= total else {}


def known_version(context: dg.OutputContext, snapshot: Snapshot) -> int | None:
    """The newest version of the table that materializations of this output report."""
    versions = (table_version(each, snapshot) for each in compat.logged_data_versions(context))
    return max((each for each in versions if each is not None), default=None)


def newest_version_with(
    log: DeltaLog, txns: Sequence[Txn], after_version: int | None, latest: Snapshot
) -> int | None:
    """The newest version after `after_version` with one of these txns; None if it is not found."""
    wanted = {(txn.app_id, txn.version) for txn in txns}
    first = 0 if after_version is None else after_version + 1
    for version in range(latest.version, first - 1, -1):
        commits = list(log.commits(version, version))
        if not commits:
            return None
        if wanted & {(txn.app_id, txn.version) for txn in commits[0].transactions}:
            return version
    return None


def rows_of(commit: Commit) -> int:
    """The number of written rows in the metrics of a commit."""
    metrics = commit.info.values.get("operationMetrics") if commit.info else None
    return rows_written(metrics) if isinstance(metrics, Mapping) else 0


def _held_rows(snapshot: Snapshot, predicates: Mapping[str, Predicate]) -> Mapping[str, int]:
    """The number of rows in each partition, if the statistics of files have it."""
    is_many = len(predicates) > _MAX_COUNTED_PARTITIONS or snapshot.num_files > _MAX_LIVE_FILES
    if not predicates or is_many:
        return {}
    adds = merge_chunks(snapshot.add_rows())
    counts = {}
    for partition, each in predicates.items():
        predicate = resolve(each, snapshot.schema)
        files = match_files(adds, predicate, snapshot.definition, snapshot.uri)
        matched, mixed = split_by_match(files, predicate, snapshot.definition, snapshot.uri)
        count = rows_by_statistics(matched)
        if not len(mixed) and count is not None:
            counts[partition] = count
    return counts


def _count_rows(snapshot: Snapshot, adds: pa.Table, predicate: Predicate) -> int:
    predicate = resolve(predicate, snapshot.schema)
    definition = snapshot.definition
    adds = match_files(merge_chunks(adds), predicate, definition, snapshot.uri)
    matched, mixed = split_by_match(adds, predicate, definition, snapshot.uri)
    view = file_view(matched, ["num_records"], definition, snapshot.uri)
    known = view["num_records"]
    if known.null_count:
        matched, mixed = matched.slice(0, 0), adds
        known = known.slice(0, 0)
    num_known: int = sum(known.to_pylist())
    return num_known + sum(_matching_rows(snapshot, mixed, predicate))


def _matching_rows(snapshot: Snapshot, adds: pa.Table, predicate: Predicate) -> Iterator[int]:
    from delta_ops.arrow.read.scan import read_files

    condition = to_arrow(predicate, snapshot.schema)
    for rows in read_files(snapshot, add_files(adds), sorted(columns(predicate))):
        yield len(rows.filter(condition))
