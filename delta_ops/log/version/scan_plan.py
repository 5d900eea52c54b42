"""Scan plan: the live files that may hold rows of a condition, and how they were found.

Reads and counts of both engines, overwrites of some rows, deletes, updates and merges find their
files by `plan_scan`. It works in steps, and a step leaves out a file only if it proves that no row
of the file matches. A scan cache comes first, if the table has one: a part of it is then read
instead of the checkpoint. Partition values follow, then statistics. Indexes are further steps, and
belong here.

1. A plan takes one pass over the log, and counts its steps from columns that the caller reads.
2. The files stay Arrow columns. An iteration creates their `AddFile` values, some at a time.
3. A transaction has read its predicate, never the files of a plan: other writers may add files
   with matching rows.
4. A scan cache that is stale or damaged costs time, and never a file: the plan starts again from
   the log, and says so in its problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import naming_table
from delta_ops.log.scan_cache.file import UnusableCacheError
from delta_ops.log.version import pruning
from delta_ops.log.version.cached_files import CachedPart, choose_part
from delta_ops.log.version.files import Version, may_repeat_files, naming_file, stream_live
from delta_ops.log.version.indexes.narrow import narrow
from delta_ops.log.version.indexes.wanted import MIN_FILES, KeysOf
from delta_ops.log.version.reconciliation import file_rows
from delta_ops.log.version.repeated_files import drop_repeated
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import ADD, CANONICAL_PATH, add_files, merge_chunks
from delta_ops.protocol.expression.implication import AnyPredicate, predicate_of
from delta_ops.protocol.predicate import TRUE, Predicate, resolve
from delta_ops.protocol.predicate import columns as columns_of
from delta_ops.protocol.predicate.nodes import leaves_of
from delta_ops.protocol.predicate.resolution import resolved_type
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import DataType
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.protocol.stats.indexed_columns import has_bounds
from delta_ops.units import count_text, size_text

_FILES_AT_ONCE = 4096
_INDEXED = frozenset({"size", "modificationTime"})
"""Columns that identify a file in an index; a plan without them uses no index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStep:
    """One step of a plan, and the files that it left."""

    name: str
    """`live files`, `partition values`, `statistics`, `condition` if it has no columns,
    `repeated names` if a checkpoint lists a file twice, or `index NAME` of an inverted index. With
    a scan cache: `scan cache`, and `cached and later files` in place of `live files` if commits
    follow the cached version, since files that they removed are counted too."""
    columns: tuple[str, ...] = ()
    """The columns of the condition that the step used."""
    num_files: int
    size_bytes: int | None
    """Bytes of the files; None if the plan was made without sizes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScanPlan:
    """The live files that may hold rows of a condition: an iterable of `AddFile`.

    `print(plan)` shows the steps, and notes on why files stay.
    """

    snapshot: Version = field(repr=False)
    predicate: Predicate | None
    """True for every row that the condition selects; None without a condition."""
    steps: tuple[ScanStep, ...]
    """In order; the last step left the files of the plan."""
    adds: pa.Table = field(repr=False)
    """The files as rows of `arrow_schemas.ADD`; some of its columns if the caller chose columns."""
    columns: tuple[str, ...] | None = field(default=None, repr=False)
    """The file columns that the caller chose."""
    partition_time_zone: str = "UTC"
    """Time zone for partition timestamps without a zone."""
    problems: tuple[str, ...] = ()
    """A sentence for the scan cache and for each index that was passed over because it is stale,
    damaged or unreadable."""

    def __len__(self) -> int:
        return len(self.adds)

    def __iter__(self) -> Iterator[AddFile]:
        for first in range(0, len(self.adds), _FILES_AT_ONCE):
            yield from add_files(self.adds.slice(first, _FILES_AT_ONCE))

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the files; None if the plan was made without sizes."""
        return self.steps[-1].size_bytes

    def files(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the files as columns, which are much smaller than add actions.

        Args:
            columns: As for `Snapshot.files`; by default, the columns that the plan was made with.
        """
        chosen = self.columns if columns is None else columns
        if chosen is None:
            chosen = ("path", "size", "partition_values")
        version, zone, adds = self.snapshot, self.partition_time_zone, self.adds
        with naming_file(version):
            if "path" in chosen and CANONICAL_PATH not in adds.column_names:
                adds = adds.append_column(CANONICAL_PATH, file_rows(adds, version.uri).paths)
            return pruning.file_view(adds, chosen, version.definition, version.uri, zone)

    def split_by_match(self) -> tuple[pa.Table, pa.Table]:
        """Split the files into files with only matching rows, and all other files."""
        version, zone = self.snapshot, self.partition_time_zone
        adds, predicate = merge_chunks(self.adds), _or_true(self.predicate)
        return pruning.split_by_match(adds, predicate, version.definition, version.uri, zone)

    def is_true_throughout(self) -> bool:
        """Return whether partition values alone prove that all rows of the files match."""
        version, predicate = self.snapshot, _or_true(self.predicate)
        named = columns_of(resolve(predicate, version.definition.schema))
        if not named <= set(version.definition.partition_columns):
            return False  # statistics may be wrong: the rows must be checked
        zone = self.partition_time_zone
        return pruning.all_match(self.adds, predicate, version.definition, version.uri, zone)

    @property
    def num_deletion_vectors(self) -> int:
        """Number of files with deleted rows."""
        vectors = self.files(["deletion_vector"])["deletion_vector"]
        is_there = pc.struct_field(vectors, "storageType").is_valid()
        return int(pc.sum(is_there, min_count=0).as_py())

    @property
    def max_rows(self) -> int | None:
        """Rows of the files, without deleted rows; None if the log lacks the count of a file."""
        found = self.files(["num_records", "deletion_vector"])
        if found["num_records"].null_count:
            return None
        deleted = pc.struct_field(found["deletion_vector"], "cardinality")
        stored = int(pc.sum(found["num_records"], min_count=0).as_py())
        return stored - int(pc.sum(deleted, min_count=0).as_py())

    @property
    def condition(self) -> str | None:
        """The part of the condition that selects files, in SQL; None without a condition."""
        return None if self.predicate is None else predicate_text(self.predicate)

    def notes(self) -> list[str]:
        """Say in sentences why the files of the plan were not left out."""
        version, predicate = self.snapshot, self.predicate
        if predicate is None:
            return ["There is no condition, so every live file is read."]
        if not len(self):
            return []
        partition_columns = version.definition.partition_columns
        resolved = resolve(predicate, version.definition.schema)
        named = columns_of(resolved)
        if not named:
            return [
                "No part of the condition compares a column with a literal, so no file can be "
                "left out."
            ]
        found = []
        if partition_columns and not named & set(partition_columns):
            found.append(
                "The condition compares no partition column with a literal, so partition values "
                f"leave out no file; the table is partitioned by {', '.join(partition_columns)}."
            )
        unbounded = pruning.files_without_bounds(self.adds, predicate, version.definition)
        types = {leaf.column: resolved_type(leaf) for leaf in leaves_of(resolved)}
        found += [
            f"The statistics of {count_text(count, 'file')} have no bounds of "
            f"{name_of_path(path)}, so conditions on it cannot leave out these files; "
            f"{_cure(types[path])}."
            for path, count in unbounded.items()
            if count
        ]
        return found

    def __str__(self) -> str:
        first, last = self.steps[0], self.steps[-1]
        head = f"{self.snapshot.uri} at version {self.snapshot.version}: {last.num_files:,} of "
        head += count_text(first.num_files, "file")
        if first.size_bytes is not None and last.size_bytes is not None:
            head += f", {size_text(last.size_bytes)} of {size_text(first.size_bytes)}"
        rows = [("step", "files", "size"), *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            f"{name:<{widths[0]}}  {count:>{widths[1]}}  {size:>{widths[2]}}".rstrip()
            for name, count, size in rows
        ]
        condition = [] if self.condition is None else [f"condition for files: {self.condition}"]
        return "\n".join([head, *condition, *lines, *self.notes(), *self.problems])

    def rows(self) -> list[tuple[str, str, str]]:
        """The steps as text: name with columns, files, and size."""
        return [
            (
                f"{step.name} of {', '.join(step.columns)}" if step.columns else step.name,
                f"{step.num_files:,}",
                "" if step.size_bytes is None else size_text(step.size_bytes),
            )
            for step in self.steps
        ]


def plan_scan(
    snapshot: Version,
    predicate: AnyPredicate | None = None,
    *,
    columns: Sequence[str] | None = None,
    keys: Sequence[KeysOf] = (),
    partition_time_zone: str = "UTC",
) -> ScanPlan:
    """Find the live files that may hold a matching row.

    Args:
        snapshot: The version to read.
        predicate: None chooses every file.
        columns: The file columns to load, as for `Snapshot.files`. By default, the plan loads
            whole add actions, and can be iterated.
        keys: Values of columns: inverted indexes find the files that hold one of the values. No
            other row is needed.
        partition_time_zone: Time zone for partition timestamps without a zone.

    Raises:
        InvalidRequestError: A column does not exist, or the predicate does not fit the table.
        LogCorruptError: A partition value does not fit its column, or a checkpoint is damaged.
    """
    with naming_file(snapshot):
        loaded = list(ADD.names) if columns is None else pruning.sources(columns)
        with naming_table(snapshot.uri):
            selected = predicate_of(predicate)
            steps = _Steps(snapshot, selected, partition_time_zone)
        needed = list(dict.fromkeys([*loaded, "path", "deletionVector", *steps.sources]))
        adds: pa.Table | None = None
        problems: tuple[str, ...] = ()
        if selected is not None:
            adds, problems = _keep_cached(steps, selected, needed)
        if adds is None:
            steps = _Steps(snapshot, selected, partition_time_zone)
            adds = pa.concat_tables(map(steps.keep, stream_live(snapshot, needed)))
        if may_repeat_files(snapshot):
            adds = steps.drop_repeated(adds)
        if _INDEXED.issubset(loaded) and (selected is not None or keys):
            adds, of_indexes = steps.narrow(adds, keys)
            problems += of_indexes
        return ScanPlan(
            snapshot=snapshot,
            predicate=selected,
            steps=steps.list_steps(),
            problems=problems,
            adds=adds.select(loaded),
            columns=None if columns is None else tuple(columns),
            partition_time_zone=partition_time_zone,
        )


def _keep_cached(
    steps: _Steps, predicate: Predicate, columns: Sequence[str]
) -> tuple[pa.Table | None, tuple[str, ...]]:
    """Return the files of the plan by the scan cache, or None; and a problem of the cache."""
    try:
        with naming_table(steps.version.uri):
            part = choose_part(steps.version, predicate, steps.zone)
        if part is None:
            return None, ()
        steps.begin_with(part)
        return pa.concat_tables(map(steps.keep, part.stream(columns))), ()
    except UnusableCacheError as error:
        return None, (
            f"The scan cache was not used, because {error}; the operation scan_cache writes a new "
            "one.",
        )


def _cure(data_type: DataType) -> str:
    if has_bounds(data_type):
        return "backfill the statistics of the table"
    return f"delta_ops writes no bounds of columns of type {data_type.name}"


def _or_true(predicate: Predicate | None) -> Predicate:
    return TRUE if predicate is None else predicate


class _Count:
    """Files and bytes that a step left."""

    def __init__(self) -> None:
        self.files = 0
        self.bytes: int | None = 0

    def add(self, files: pa.Table | pa.RecordBatch, kept: pa.BooleanArray | None = None) -> None:
        """Count files of which some are kept; all of them by default."""
        self.files += len(files) if kept is None else kept.true_count
        if "size" not in files.schema.names or self.bytes is None:
            self.bytes = None
            return
        sizes = files["size"] if kept is None else files["size"].filter(kept)
        self.bytes += pc.sum(sizes, min_count=0).as_py()


class _Steps:
    """The steps of a plan; counts the files while they pass."""

    def __init__(
        self, version: Version, predicate: Predicate | None, partition_time_zone: str
    ) -> None:
        self.version, self._predicate, self.zone = version, predicate, partition_time_zone
        self._live, self._by_values, self._by_statistics = _Count(), _Count(), _Count()
        self._part: CachedPart | None = None
        self._distinct: _Count | None = None
        self._indexed: _Count | None = None
        self._indexes: Mapping[str, str] = {}
        self.sources: list[str] = []
        self._named: tuple[list[str], list[str]] = ([], [])
        """The partition columns and the other columns of the predicate."""
        if predicate is not None:
            named = columns_of(resolve(predicate, version.definition.schema))
            partition_columns = set(version.definition.partition_columns)
            by_values, by_statistics = named & partition_columns, named - partition_columns
            self._named = sorted(by_values), sorted(by_statistics)
            self.sources = ["path", "partitionValues", *(["stats"] if by_statistics else [])]

    def begin_with(self, part: CachedPart) -> None:
        """Begin with the files of a scan cache."""
        self._part = part

    def keep(self, adds: pa.Table) -> pa.Table:
        """Return the files that each step keeps."""
        self._live.add(adds)
        if self._predicate is None:
            return adds
        version = self.version
        kept = []
        for files, masks in pruning.match_by_step(
            adds, self._predicate, version.definition, version.uri, self.zone
        ):
            if self._named[0]:
                self._by_values.add(files, masks.by_partition_values)
            kept.append(files.filter(masks.by_statistics))
        matching = pa.Table.from_batches(kept, adds.schema)
        self._by_statistics.add(matching)
        return matching

    def drop_repeated(self, adds: pa.Table) -> pa.Table:
        """Return each file once."""
        distinct = drop_repeated(adds, self.version.uri)
        if len(distinct) < len(adds):
            self._distinct = _Count()
            self._distinct.add(distinct)
        return distinct

    def narrow(self, adds: pa.Table, keys: Sequence[KeysOf]) -> tuple[pa.Table, tuple[str, ...]]:
        """Return the files that inverted indexes leave, and problems of indexes."""
        if len(adds) < MIN_FILES:
            return adds, ()
        found = narrow(self.version, adds, self._predicate, keys, partition_time_zone=self.zone)
        if found is None:
            return adds, ()
        if found.used:
            self._indexed, self._indexes = _Count(), found.used
            self._indexed.add(found.adds)
        return found.adds, found.problems

    def list_steps(self) -> tuple[ScanStep, ...]:
        """The steps that the predicate has, with what they left."""
        by_values, by_statistics = self._named
        steps = self._first_steps()
        if by_values:
            steps.append(_step("partition values", by_values, self._by_values))
        if by_statistics:
            steps.append(_step("statistics", by_statistics, self._by_statistics))
        if self._predicate is not None and not (by_values or by_statistics):
            steps.append(_step("condition", (), self._by_statistics))
        if self._distinct is not None:
            steps.append(_step("repeated names", (), self._distinct))
        if self._indexed is not None:
            name = f"{'index' if len(self._indexes) == 1 else 'indexes'} {', '.join(self._indexes)}"
            steps.append(_step(name, tuple(self._indexes.values()), self._indexed))
        return tuple(steps)

    def _first_steps(self) -> list[ScanStep]:
        part = self._part
        if part is None:
            return [_step("live files", (), self._live)]
        whole = _Count()
        whole.files = part.num_files
        whole.bytes = None if self._live.bytes is None else part.size_bytes
        name = "cached and later files" if len(part.tail) else "live files"
        return [_step(name, (), whole), _step("scan cache", part.columns, self._live)]


def _step(name: str, columns: Sequence[str], count: _Count) -> ScanStep:
    return ScanStep(
        name=name, columns=tuple(columns), num_files=count.files, size_bytes=count.bytes
    )
