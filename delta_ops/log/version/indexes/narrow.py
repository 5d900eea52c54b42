"""Narrowing: excludes files of a scan by the inverted indexes of the table.

1. A file is excluded only if a verified run covers it and has no entry of it that matches.
2. `&` intersects, `|` unites, and below `~` no index is used.
3. An index is read only if this is cheaper than what it saves. Estimates use figures of the index:
   its bytes, its entries and its distinct values.
4. An index that cannot be read, or is damaged, excludes nothing; the plan reports it. Other errors
   are faults of the code, and fail the scan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from delta_ops.error_texts import first_line
from delta_ops.errors import DeltaOpsError
from delta_ops.lazy import lazy
from delta_ops.log.version import pruning
from delta_ops.log.version.files import Version
from delta_ops.log.version.indexes.definitions import (
    IndexDefinition,
    key_type,
    list_definitions,
)
from delta_ops.log.version.indexes.index_table import list_runs
from delta_ops.log.version.indexes.run_file import (
    DamagedRunError,
    OpenRun,
    RunFile,
    numbers_of_covered,
    open_run,
)
from delta_ops.log.version.indexes.wanted import (
    MIN_FILES,
    Keys,
    KeysOf,
    Nulls,
    Range,
    Wanted,
    choose_groups,
    entries_among,
    expected_entries,
    find_wanted,
    values_wanted_by,
    wanted_keys,
)
from delta_ops.log.version.reconciliation import file_rows
from delta_ops.protocol.arrow_values import array_of, numpy_of
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.predicate.nodes import And, Comparison, In, IsNull, Leaf, Or, Predicate
from delta_ops.protocol.predicate.resolution import resolve, resolved_type
from delta_ops.protocol.schema import TIMESTAMP, ColumnPath, DataType
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.storage.below import StorageBelow
from delta_ops.storage.concurrency import run_parallel

_REQUEST_BYTES = 256 << 10
"""Bytes that are read in the time of one request."""
_READ_SHARE = 8
"""A scan reads about one of so many bytes of a file: some columns, and some row groups."""
_LEAST_SHARE = 0.9
"""An index that leaves more of the files is not worth a request."""

_UNREADABLE = (DeltaOpsError, DamagedRunError, OSError)
"""Errors of an index that is damaged, gone or out of reach. Bytes are decoded only after their
checksum is right, so decoding raises nothing else."""

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """The files of a scan that the indexes left."""

    adds: pa.Table
    used: Mapping[str, str]
    """The columns of the used indexes, by the names of the indexes."""
    problems: tuple[str, ...]
    """A sentence for each index that was passed over because it is damaged or unreadable."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """A condition on an indexed column."""

    index: _Index
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class _Every:
    """Files that match all parts."""

    parts: Sequence[_Condition]


@dataclass(frozen=True, slots=True)
class _Any:
    """Files that match one of the parts."""

    parts: Sequence[tuple[Predicate, _Condition | None]]
    """Each part as the caller wrote it; None: no index serves it."""


_Condition = _Probe | _Every | _Any


def narrow(
    version: Version,
    adds: pa.Table,
    predicate: Predicate | None,
    keys: Sequence[KeysOf] = (),
    *,
    partition_time_zone: str,
) -> Narrowed | None:
    """Exclude files by indexes; None if no index serves the condition.

    Args:
        adds: Files with the columns `path`, `size`, `modificationTime` and `deletionVector`, and
            with the columns that `pruning.match_files` needs.
        predicate: The caller's condition.
        keys: More conditions, which all must hold.
        partition_time_zone: Time zone for partition timestamps without one.
    """
    resolved = None if predicate is None else resolve(predicate, version.definition.schema)
    leaves = [] if resolved is None else list(_usable_leaves(resolved))
    if len(adds) < MIN_FILES or not (keys or leaves) or not _may_have_indexes(version):
        return None
    try:
        indexes = _Indexes(version, partition_time_zone)
    except DeltaOpsError as error:  # the listing failed
        problem = f"The indexes of the table cannot be read ({_reason(error)}), so none is used."
        return Narrowed(adds=adds, used={}, problems=(problem,))
    of_keys = [indexes.condition_of_keys(each) for each in keys]
    scan = _Scan(version, adds, partition_time_zone)
    mask = scan.narrow(_every(of_keys), np.ones(len(adds), dtype=bool))
    if resolved is not None:
        mask = scan.narrow(_every([indexes.condition_of(resolved)]), mask)
    problems = (*indexes.problems, *(each for index in indexes.found for each in index.problems))
    used = {each.definition.name: each.shown_column for each in indexes.found if each.is_used}
    return Narrowed(
        adds=adds.filter(array_of(mask)) if used else adds, used=used, problems=problems
    )


def _may_have_indexes(version: Version) -> bool:
    """Whether to list the indexes: the hint of the scan cache may say that there are none."""
    cache = version.scan_cache
    if cache is None or cache.reason is not None:
        return True
    is_same_table = cache.hint.table_id == version.definition.metadata.id
    return cache.hint.may_have_indexes or not is_same_table


def _usable_leaves(predicate: Predicate) -> Iterator[Leaf]:
    """The parts of a predicate that an index could serve."""
    match predicate:
        case And(operands) | Or(operands):
            for each in operands:
                yield from _usable_leaves(each)
        case Comparison() | In() | IsNull():
            yield predicate


def _every(conditions: Sequence[_Condition | None]) -> _Every:
    """All conditions that an index serves."""
    return _Every([each for each in conditions if each is not None])


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    match predicate:
        case And(operands):
            for each in operands:
                yield from _conjuncts(each)
        case _:
            yield predicate


def _unite_ranges(conditions: Sequence[_Condition]) -> list[_Condition]:
    """Combine the ranges on each index: a file may reach each of them, and not both at once."""
    found: list[_Condition] = []
    bounds: dict[_Index, tuple[tuple[str, pa.Scalar], ...]] = {}
    for each in conditions:
        match each:
            case _Probe(index, Range(some)):
                bounds[index] = bounds.get(index, ()) + some
            case _:
                found.append(each)
    return [*found, *(_Probe(index, Range(each)) for index, each in bounds.items())]


class _Indexes:
    """The indexes that serve a condition."""

    def __init__(self, version: Version, partition_time_zone: str) -> None:
        self._version, self._zone = version, partition_time_zone
        self.found: list[_Index] = []
        definitions, self.problems = list_definitions(version.storage)
        table_id = version.definition.metadata.id
        self._by_column = {
            each.column: each for each in reversed(definitions) if each.table_id == table_id
        }
        """For a column with several indexes, the first by name."""

    def condition_of_keys(self, keys: KeysOf) -> _Condition | None:
        index = self._index_on(keys.column, keys.data_type)
        wanted = index and wanted_keys(keys.values, index.key_type)
        return _Probe(index, wanted) if index and wanted else None

    def condition_of(self, predicate: Predicate) -> _Condition | None:
        """The condition of a predicate, without columns whose keys an index has found.

        The predicate of a merge has the ranges of its keys, which leave more files than the keys.
        """
        match predicate:
            case And():
                found = [each for each in map(self.condition_of, _conjuncts(predicate)) if each]
                return _Every(_unite_ranges(found)) if found else None
            case Or(operands):
                parts = [(each, self.condition_of(each)) for each in operands]
                return _Any(parts) if any(found for _, found in parts) else None
            case Comparison() | In() | IsNull():
                index = self._index_on(predicate.column, resolved_type(predicate))
                if index is not None and index.is_used:
                    return None
                wanted = index and values_wanted_by(predicate, index.key_type)
                return _Probe(index, wanted) if index and wanted else None
        return None

    def _index_on(self, column: ColumnPath, data_type: DataType) -> _Index | None:
        definition = self._version.definition
        stored = physical_path(column, definition.schema)
        found = self._by_column.get(stored)
        if found is None:
            return None
        is_partition = column[0] in definition.partition_columns
        if is_partition and data_type == TIMESTAMP and self._zone != "UTC":
            return None  # its values were read in UTC
        known = next((each for each in self.found if each.definition is found), None)
        if known is None:
            known = _Index(found, self._version, name_of_path(column), key_type(data_type))
            self.found.append(known)
        return known


@dataclass(slots=True, kw_only=True)
class _CoveringRun:
    """A run, and the files of the scan that it covers."""

    opened: OpenRun
    numbers: npt.NDArray[np.int64]
    """The number of each file of the scan in the run; -1: the run does not cover it."""

    @property
    def is_covered(self) -> _Mask:
        return self.numbers >= 0


@dataclass(slots=True, eq=False)
class _Index:
    """An index, which is opened on first use."""

    definition: IndexDefinition
    version: Version
    shown_column: str
    key_type: DataType
    problems: list[str] = field(default_factory=list)
    is_used: bool = False
    _runs: list[RunFile] | None = None
    _covering: list[_CoveringRun] | None = None

    def runs(self) -> list[RunFile]:
        """The runs, by the log of the index."""
        if self._runs is None:
            self._runs = []
            try:
                self._runs = self._list_runs()
            except _UNREADABLE as error:
                self._report("its log", error)
        return self._runs

    def covering(self, scan: _Scan) -> list[_CoveringRun]:
        """The readable runs, with the files of the scan that they cover."""
        if self._covering is None:
            found = run_parallel(partial(self._cover, scan), self.runs())
            self._covering = [each for each in found if each is not None]
        return self._covering

    def find_excluded(self, scan: _Scan, wanted: Wanted) -> _Mask:
        """The files of the scan that hold no wanted value."""
        found = run_parallel(partial(self._exclude, wanted), self.covering(scan))
        self.is_used = True
        none = np.zeros(len(scan.adds), dtype=bool)
        excluded: _Mask = np.logical_or.reduce([none, *found])
        return excluded

    def _list_runs(self) -> list[RunFile]:
        runs = []
        _, listed = list_runs(self.definition, self.version.storage)
        for each in listed:
            if isinstance(each, RunFile):
                runs.append(each)
            else:
                path, error = each
                self._report(f"the run {path}", error)
        return runs

    def _cover(self, scan: _Scan, run: RunFile) -> _CoveringRun | None:
        try:
            storage = StorageBelow(self.version.storage, self.definition.directory)
            opened = open_run(run, storage, self.definition, self.key_type)
            return _CoveringRun(opened=opened, numbers=scan.numbers_in(opened.read_coverage()))
        except _UNREADABLE as error:
            self._report(f"the run {run.file.path}", error)
            return None

    def _exclude(self, wanted: Wanted, run: _CoveringRun) -> _Mask:
        opened = run.opened
        holds = np.zeros(opened.run.num_files, dtype=bool)
        try:
            groups = np.flatnonzero(choose_groups(opened.entries, wanted))
            for entries in opened.read_entries(groups.tolist()):
                table = entries.combine_chunks()
                places = find_wanted(table["value"].combine_chunks(), self.key_type, wanted)
                holds[numpy_of(table["file"])[places]] = True
        except _UNREADABLE as error:
            self._report(f"the run {opened.run.file.path}", error)
            return np.zeros(len(run.numbers), dtype=bool)
        lacks = np.append(~holds, False)  # number -1 is the last
        excluded: _Mask = lacks[run.numbers]
        return excluded

    def _report(self, place: str, error: Exception) -> None:
        self.problems.append(
            f"Index {self.definition.name} is not used in full, because {place} cannot be read "
            f"({_reason(error)}); refresh the index with verify, or drop and create it again."
        )


class _Scan:
    """The files of a scan, and the decisions which indexes are worth their bytes."""

    def __init__(self, version: Version, adds: pa.Table, partition_time_zone: str) -> None:
        self._version, self.adds, self._zone = version, adds, partition_time_zone
        self._sizes = numpy_of(adds["size"])

    @lazy
    def _paths(self) -> pa.ChunkedArray:
        return file_rows(self.adds.select(["path", "deletionVector"]), self._version.uri).paths

    def numbers_in(self, covered: pa.Table) -> npt.NDArray[np.int64]:
        """The number of each file among covered files of the same path, size and time; else -1."""
        adds = self.adds
        return numbers_of_covered(covered, self._paths, adds["size"], adds["modificationTime"])

    def narrow(self, condition: _Condition, mask: _Mask) -> _Mask:
        """The files among `mask` that can match a condition."""
        match condition:
            case _Every(parts):
                for each in sorted(parts, key=self._rank):
                    mask = self.narrow(each, mask)
                return mask
            case _Any(parts):
                return self._narrow_any(parts, mask)
            case _Probe(index, wanted):
                if not self._is_worth(index, wanted, mask):
                    return mask
                return mask & ~index.find_excluded(self, wanted)

    def _narrow_any(
        self, parts: Sequence[tuple[Predicate, _Condition | None]], mask: _Mask
    ) -> _Mask:
        united = np.zeros(len(mask), dtype=bool)
        for predicate, served in sorted(parts, key=lambda each: each[1] is not None):
            if united.sum() >= _LEAST_SHARE * mask.sum():
                return mask  # the other parts would not help
            can_match = mask & self._might_match(predicate)
            united |= can_match if served is None else self.narrow(served, can_match)
        return mask & united

    def _might_match(self, predicate: Predicate) -> _Mask:
        version = self._version
        return pruning.match_mask(self.adds, predicate, version.definition, version.uri, self._zone)

    def _rank(self, condition: _Condition) -> float:
        """The expected number of files that a condition leaves, without reading its index."""
        match condition:
            case _Probe(index, wanted):
                return expected_entries(index.runs(), wanted)
            case _Every(parts):
                return min(map(self._rank, parts))
        return math.inf

    def _is_worth(self, index: _Index, wanted: Wanted, mask: _Mask) -> bool:
        """Whether reading an index costs less than what it saves."""
        num_files = int(mask.sum())
        if num_files < MIN_FILES or not index.runs():
            return False
        saved_bytes = self._bytes_to_read(mask)
        opening = sum(
            _REQUEST_BYTES + each.footer_bytes + each.coverage_bytes for each in index.runs()
        )
        if index._covering is None and opening > saved_bytes:
            return False
        covering = index.covering(self)
        is_covered = np.logical_or.reduce(
            [np.zeros(len(mask), bool)] + [r.is_covered for r in covering]
        )
        num_covered = int((mask & is_covered).sum())
        if num_covered < MIN_FILES:
            return False
        cost = entries = 0.0
        for run in covering:
            groups = choose_groups(run.opened.entries, wanted)
            cost += run.opened.bytes_of(groups) + _REQUEST_BYTES * bool(groups.any())
            entries += entries_among(run.opened, groups, wanted)
        # A file has one entry of a value; entries of several values may be in the same files.
        is_exact = isinstance(wanted, Nulls) or (isinstance(wanted, Keys) and len(wanted.keys) < 2)
        left = entries if is_exact else num_covered * -math.expm1(-entries / num_covered)
        if left > _LEAST_SHARE * num_covered:
            return False
        return cost < self._bytes_to_read(mask & is_covered) * (1 - left / num_covered)

    def _bytes_to_read(self, mask: _Mask) -> float:
        """The cost of a scan of files, as bytes."""
        return float(2 * _REQUEST_BYTES * mask.sum() + self._sizes[mask].sum() / _READ_SHARE)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "a file is gone"
    return first_line(error).rstrip(".")
