"""Merge matching: match the rows of a file with source rows, and choose the clause for each.

Only the columns of keys and conditions are read, about a million rows at a time. Arrow joins them
with the keys of the source; a null key matches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.acero import inner_join
from delta_ops.arrow.dml.merge_clauses import PlannedClause, choose_clauses
from delta_ops.arrow.dml.merge_keys import MergeKeys
from delta_ops.arrow.dml.merge_source import Source, join_chunks, normalize_key
from delta_ops.arrow.expressions.evaluation import Rows, evaluate_condition, field_of
from delta_ops.arrow.read.reading import ReadFiles
from delta_ops.errors import RepeatedMatchError
from delta_ops.planning.merge_columns import SOURCE, TARGET
from delta_ops.protocol.arrow_values import array_of, numpy_of, scalar
from delta_ops.protocol.expression.nodes import Node
from delta_ops.protocol.schema import ColumnPath

_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 256 << 20
_PAIRS = 1 << 20
"""Approximate number of row pairs to evaluate conditions on at once. If keys repeat on both sides,
the pairs are the product of both."""
_KEPT_BYTES = 64 << 20
"""Maximum bytes of a file's deciding columns that are kept while its other columns are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """How rows of a table match rows of a source."""

    source: Source
    keys: MergeKeys
    residual: Node | None
    """Resolved condition that must be true in addition to equal keys; None means no condition."""
    matched: Sequence[PlannedClause]
    not_matched_by_source: Sequence[PlannedClause]
    read: ReadFiles
    """Reads the target's columns that decide."""

    @property
    def clauses(self) -> Sequence[PlannedClause]:
        """The clauses for rows of the target, in the order of their numbers."""
        return (*self.matched, *self.not_matched_by_source)

    @property
    def allows_repeats(self) -> bool:
        """Whether a target row may match several source rows, because all have the same effect."""
        match self.matched:
            case [PlannedClause(action="delete", condition=None)]:
                return True
        return not self.matched

    @property
    def keys_decide(self) -> bool:
        """Whether equal keys alone decide: then the first source row of each key is enough."""
        return self.residual is None and (not self.matched or self.matched[0].condition is None)


class FileMatches(NamedTuple):
    """The changes to the rows of a file."""

    rows: pa.Int64Array
    """Numbers of the rows that change, ascending and distinct."""
    source_rows: pa.Int64Array
    """The source row that each changed row matches; null for none."""
    clauses: pa.Int8Array
    """The number of the clause for each changed row."""
    met: pa.Int64Array
    """The distinct source rows that match a row of the file, whether or not the row changes."""
    num_rows: int
    """Number of rows in the file, without deleted rows."""

    def part(self, first: int, start: int, end: int) -> FileMatches:
        """Return the changes from `start` to `end`, with row numbers relative to `first`."""
        rows, source_rows, clauses = (
            each.slice(start, end - start) for each in (self.rows, self.source_rows, self.clauses)
        )
        return self._replace(
            rows=pc.subtract(rows, scalar(first)), source_rows=source_rows, clauses=clauses
        )


class _Hits(NamedTuple):
    """Ascending target rows whose key exists in the source."""

    rows: np.ndarray
    keys: np.ndarray
    """The key number of each row."""


class _Pairs(NamedTuple):
    rows: pa.Int64Array
    source_rows: pa.Int64Array


def match_file(
    matching: Matching, table: str, rows: Iterable[pa.RecordBatch]
) -> tuple[FileMatches, pa.Table | None]:
    """Find the changes to the rows of a file.

    Args:
        table: For messages.
        rows: All live rows of the file, with at least the columns that decide.

    Returns:
        The changes, and the given rows, for use when the other columns are read; None if the rows
        are large.

    Raises:
        RepeatedMatchError: Several source rows would change the same row.
    """
    first = 0
    found: list[FileMatches] = []
    deciding: pa.Table | None = None
    for group in _groups(rows):
        deciding = group if not found and group.nbytes <= _KEPT_BYTES else None
        found.append(_match_group(matching, group, first, table))
        first += len(group)
    empty = [array_of([], data_type) for data_type in _TYPES]
    columns = zip(empty, *(each[:-1] for each in found), strict=True)
    changed, source_rows, clauses, met = map(pa.concat_arrays, columns)
    return FileMatches(changed, source_rows, clauses, pc.unique(met), first), deciding


def join_matches(files: Sequence[FileMatches]) -> FileMatches:
    """Return the changes to the rows of several files, numbered through the files."""
    if len(files) == 1:
        return files[0]
    starts = accumulate((each.num_rows for each in files), initial=0)
    rows = [pc.add(each.rows, scalar(start)) for each, start in zip(files, starts, strict=False)]
    return FileMatches(
        rows=pa.concat_arrays(rows),
        source_rows=pa.concat_arrays([each.source_rows for each in files]),
        clauses=pa.concat_arrays([each.clauses for each in files]),
        met=pa.concat_arrays([each.met for each in files]),
        num_rows=sum(each.num_rows for each in files),
    )


def split_matches(matches: FileMatches, counts: Sequence[int]) -> Iterator[FileMatches]:
    """Yield the changes to each of several files that were matched together.

    The first file gets the source rows that match a row of any of them.

    Args:
        counts: The number of rows of each file.
    """
    firsts = [0, *accumulate(counts)]
    places = np.searchsorted(numpy_of(matches.rows), firsts).tolist()
    none = matches.met.slice(0, 0)
    for number, num_rows in enumerate(counts):
        part = matches.part(firsts[number], places[number], places[number + 1])
        yield part._replace(met=none if number else matches.met, num_rows=num_rows)


_TYPES = (pa.int64(), pa.int64(), pa.int8(), pa.int64())


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    num_rows = num_bytes = 0
    for batch in batches:
        pending.append(batch)
        num_rows, num_bytes = num_rows + len(batch), num_bytes + batch.nbytes
        if num_rows >= _GROUP_ROWS or num_bytes >= _GROUP_BYTES:
            yield pa.Table.from_batches(pending)
            pending, num_rows, num_bytes = [], 0, 0
    if pending:
        yield pa.Table.from_batches(pending)


def _match_group(matching: Matching, group: pa.Table, first: int, table: str) -> FileMatches:
    hits = _join(matching, group)
    if matching.keys_decide:
        pairs = _pair_with_first(matching, group, hits, table)
        parts = [_decide_matched(matching, group, pairs, table)]
        met_rows = pairs.rows
        met = array_of(matching.keys.rows_of(numpy_of(pc.unique(array_of(hits.keys)))))
    else:
        parts = []
        met_rows = met = array_of([], pa.int64())
        for pairs in _meeting_pairs(matching, group, hits):
            parts.append(_decide_matched(matching, group, pairs, table))
            met_rows = pa.concat_arrays([met_rows, pc.unique(pairs.rows)])
            met = pc.unique(pa.concat_arrays([met, pairs.source_rows]))
    if matching.not_matched_by_source:
        parts.append(_decide_others(matching, group, met_rows))
    rows, source_rows, clauses = (pa.concat_arrays(each) for each in zip(*parts, strict=True))
    if matching.not_matched_by_source:
        order = pc.sort_indices(rows)
        rows, source_rows, clauses = (each.take(order) for each in (rows, source_rows, clauses))
    numbers = pc.add(rows, scalar(first, pa.int64()))
    return FileMatches(numbers, source_rows, clauses, met, len(group))


def _pair_with_first(matching: Matching, group: pa.Table, hits: _Hits, table: str) -> _Pairs:
    """Pair each row with the first source row of its key."""
    keys, times = matching.keys, matching.keys.times(hits.keys)
    if not matching.allows_repeats and (times > 1).any():
        place = int((times > 1).argmax())
        raise _repeat_error(matching, group, int(hits.rows[place]), int(times[place]), table)
    return _Pairs(array_of(hits.rows), array_of(keys.rows[keys.bounds[hits.keys]]))


def _meeting_pairs(matching: Matching, group: pa.Table, hits: _Hits) -> Iterator[_Pairs]:
    """Yield matching pairs in groups; a group has all pairs of a row. Yields at least one group."""
    times = matching.keys.times(hits.keys)
    ends = times.cumsum()
    start = done = 0
    while True:
        end = max(start + 1, int(np.searchsorted(ends, done + _PAIRS, "right")))
        source_rows = matching.keys.rows_of(hits.keys[start:end])
        rows = np.repeat(hits.rows[start:end], times[start:end])
        pairs = _Pairs(array_of(rows), array_of(source_rows))
        if matching.residual is not None and len(rows):
            holds = evaluate_condition(matching.residual, _pair_rows(matching, group, pairs))
            pairs = _Pairs(pairs.rows.filter(holds), pairs.source_rows.filter(holds))
        yield pairs
        if end >= len(ends):
            return
        start, done = end, int(ends[end - 1])


def _join(matching: Matching, group: pa.Table) -> _Hits:
    """Return the rows of a group whose key exists in the source."""
    if not len(matching.source):
        return _NO_HITS
    names = [f"key{i}" for i in range(len(matching.keys.paths))]
    keys = [
        normalize_key(pad(_target_values(group, path)))
        for path, pad in zip(matching.keys.paths, matching.keys.pads, strict=True)
    ]
    if len(keys) == 1 and _is_number(keys[0].type) and not keys[0].null_count:
        return _join_numbers(keys[0], matching.keys.table)
    near = matching.keys.near(keys[0])
    left = pa.table([*keys, pa.arange(0, len(group))], names=[*names, "row"])
    joined = inner_join(left, near, names, ("row", "key")).sort_by("row")
    return _Hits(numpy_of(joined["row"]), numpy_of(joined["key"]))


def _is_number(data_type: pa.DataType) -> bool:
    """Return whether integers represent the values, with the same equality and order."""
    kinds = (pt.is_integer, pt.is_date, pt.is_timestamp)
    return any(is_kind(data_type) for is_kind in kinds)


def _join_numbers(values: pa.Array, table: pa.Table) -> _Hits:
    """Return the hits as `_join` does, without a hash table for each file.

    Args:
        values: Keys of the target, without nulls.
        table: The table of `MergeKeys`.
    """
    of_source = join_chunks(table["key0"])
    all_keys = _numbers(of_source.slice(0, len(table) - of_source.null_count))  # nulls come last
    wanted = _numbers(values)
    if not len(wanted) or not len(all_keys):
        return _NO_HITS
    start = np.searchsorted(all_keys, wanted.min())
    keys = all_keys[start : np.searchsorted(all_keys, wanted.max(), "right")]
    places = _find_places(keys, wanted)
    rows = np.flatnonzero(places >= 0)
    return _Hits(rows, start + places[rows].astype(np.int64))


_NO_HITS = _Hits(np.array([], np.int64), np.array([], np.int64))


def _find_places(keys: Any, wanted: Any) -> Any:
    """Return the position of each wanted number among ascending keys; -1 if it is not a key."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int32)
    span = int(keys[-1]) - int(keys[0]) + 1
    if span > _SPARSE * len(wanted):
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[places] == wanted, places, -1)
    # A lookup by number is faster than a search.
    found = np.full(span + 1, -1, dtype=np.int32)
    found[keys.astype(np.int64) - int(keys[0])] = np.arange(len(keys))
    # A number below all keys becomes a large unsigned number.
    offsets = (wanted.astype(np.int64) - int(keys[0])).view(np.uint64)
    return found[np.minimum(offsets, np.uint64(span)).view(np.int64)]


_SPARSE = 4
"""Use a lookup table if the range of keys is at most so many times the number of lookups."""
_OF_WIDTH = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def _numbers(values: pa.Array) -> Any:
    return numpy_of(values.view(_OF_WIDTH[values.type.bit_width]))


def _target_values(group: pa.Table, path: ColumnPath) -> Any:
    return field_of(join_chunks(group[path[0]]), path[1:])


def _pair_rows(matching: Matching, group: pa.Table, pairs: _Pairs) -> Rows:
    def column(path: ColumnPath) -> pa.Array:
        if path[0] == SOURCE:
            return matching.source.take(path[1:], pairs.source_rows)
        return _target_values(group, path[1:]).take(pairs.rows)

    return Rows(column, len(pairs.rows))


def _decide_matched(
    matching: Matching, group: pa.Table, pairs: _Pairs, table: str
) -> tuple[pa.Array, pa.Array, pa.Array]:
    chosen = choose_clauses(matching.matched, _pair_rows(matching, group, pairs))
    changes = chosen.is_valid()
    rows, source_rows = pairs.rows.filter(changes), pairs.source_rows.filter(changes)
    chosen = chosen.filter(changes)
    # The rows are sorted, so equal rows are neighbours.
    is_first = pc.not_equal(rows, _shift(rows))
    if not pc.all(is_first, min_count=0).as_py():
        if not matching.allows_repeats:
            counted = pc.value_counts(rows)
            repeated = counted.filter(pc.greater(counted.field("counts"), scalar(1)))[0].as_py()
            raise _repeat_error(matching, group, repeated["values"], repeated["counts"], table)
        rows, source_rows, chosen = (each.filter(is_first) for each in (rows, source_rows, chosen))
    return rows, source_rows, chosen


def _shift(rows: pa.Int64Array) -> pa.Int64Array:
    """Shift the numbers by one place, and put -1, which is no row, in front."""
    if not len(rows):
        return rows
    return pa.concat_arrays([array_of([-1], pa.int64()), rows.slice(0, len(rows) - 1)])


def _repeat_error(
    matching: Matching, group: pa.Table, row: int, num_met: int, table: str
) -> RepeatedMatchError:
    key = ", ".join(
        f"{'.'.join(path)} = {_target_values(group, path)[row]}"
        for path in dict.fromkeys(matching.keys.paths)
    )
    return RepeatedMatchError(
        f"{table}: the row with {key} matches {num_met} source rows that would change it; keep "
        "one source row for each key. Nothing was committed"
    )


def _decide_others(
    matching: Matching, group: pa.Table, met_rows: pa.Int64Array
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Choose the clauses for rows that match no source row."""
    is_met = pc.is_in(pa.arange(0, len(group)), value_set=met_rows)
    others = pc.indices_nonzero(pc.invert(is_met)).cast(pa.int64())
    chosen = choose_clauses(
        matching.not_matched_by_source, Rows(partial(_target_column, group), len(group), others)
    )
    changes = chosen.is_valid()
    numbers = pc.add(chosen.filter(changes), scalar(len(matching.matched), pa.int8()))
    rows = others.filter(changes)
    return rows, pa.nulls(len(rows), pa.int64()), numbers


def _target_column(group: pa.Table, path: ColumnPath) -> pa.Array:
    assert path[0] == TARGET
    return _target_values(group, path[1:])
