"""Ordered rewrite: sort the rows of a group's files along a curve, and write them to new files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

import pyarrow as pa

from delta_ops.arrow.acero import evaluate
from delta_ops.arrow.read.count import num_live_rows
from delta_ops.arrow.read.scan import read_kept
from delta_ops.arrow.rewrite.curve import best_cut
from delta_ops.arrow.rewrite.ordered_rows import (
    Piece,
    SortedRows,
    Sorting,
    sample_of,
    sorted_pieces,
)
from delta_ops.arrow.write.written_files import LOCAL_WRITES, WrittenFiles, all_or_none
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.predicate import resolve, to_arrow
from delta_ops.transaction.rewrite_group import CurveOrder, RewriteGroup

MEMORY_BYTES = 256 << 20
"""Approximate bytes of rows in memory at once; further rows are spilled to temporary files."""
_SAMPLED_FILES = 256
_PIECES = 8
"""Number of pieces for each file, so that file sizes are close to the target."""
_FILE_SLACK = 0.25
"""Maximum deviation from the wanted number of rows of a file, as a fraction."""
_KEY_BITS = 64

WriteFile = Callable[[Iterable[pa.RecordBatch]], AddFile]


def write_in_order(
    snapshot: Snapshot,
    group: RewriteGroup,
    order: CurveOrder,
    write_file: WriteFile,
    names: Sequence[str],
    memory_bytes: int = MEMORY_BYTES,
) -> tuple[list[AddFile], int]:
    """Write the rows in curve order to new files; returns the files and the number of rows.

    Args:
        write_file: Writes rows of the group's partition to a file; called in threads.
        names: Columns of the files.
    """
    num_rows = num_live_rows(snapshot, group.files)
    size = sum(add.size for add in group.files)
    num_files = max(1, round(size / group.target_size_bytes))
    with all_or_none(snapshot.storage) as files:
        sorting = Sorting(order=order, memory_bytes=memory_bytes)
        pieces = sorted_pieces(
            read_kept(snapshot, group.files, names, ahead_bytes=memory_bytes // 4),
            sorting,
            num_rows,
            partial(_sample, snapshot, group.files, sorting, num_rows),
            num_files * _PIECES,
        )
        writer = _PieceWriter(files, write_file, snapshot, group, -(-num_rows // num_files))
        writes = (
            (_bytes_to_write(run, memory_bytes), partial(writer.write, run))
            for run in _runs(pieces, lambda: writer.file_rows, len(order.columns))
        )
        adds = [add for each in files.write_all(writes, memory_bytes, LOCAL_WRITES) for add in each]
    return adds, sum(piece.num_rows for piece in pieces)


class _PieceWriter:
    """Writes pieces to files of about the target size, for several threads."""

    def __init__(
        self,
        files: WrittenFiles,
        write_file: WriteFile,
        snapshot: Snapshot,
        group: RewriteGroup,
        file_rows: int,
    ) -> None:
        self._files, self._write_file = files, write_file
        self._target, self._expected = group.target_size_bytes, file_rows
        self._num_axes = len(group.order.columns) if group.order else 1
        self._split = _plan_split(snapshot, group)
        self._num_rows = self._num_bytes = 0
        self._lock = threading.Lock()

    @property
    def file_rows(self) -> int:
        """The number of rows for a file, based on the files written so far."""
        if 2 * self._num_bytes <= self._target:  # a file with few rows is mostly footer
            return max(1, self._expected)
        return max(1, self._num_rows * self._target // self._num_bytes)

    def write(self, pieces: Sequence[Piece]) -> list[AddFile]:
        """Write pieces to as many files as their rows need."""
        num_rows, file_rows = sum(piece.num_rows for piece in pieces), self.file_rows
        num_files = max(1, round(num_rows / file_rows))
        rows = (each for piece in pieces for each in piece.tables())
        adds: list[AddFile] = []
        for part in self._split(rows):
            for batches in _files(part, file_rows, num_files, self._num_axes):
                if self._files.is_over:
                    return adds
                add = self._write_file(batches)
                self._files.keep([add])
                adds.append(add)
        with self._lock:
            self._num_rows += num_rows
            self._num_bytes += sum(add.size for add in adds)
        return adds


def _plan_split(
    snapshot: Snapshot, group: RewriteGroup
) -> Callable[[Iterator[SortedRows]], Iterator[Iterator[SortedRows]]]:
    """Plan how to split sorted rows where the rows of `group.separate` start."""
    if group.separate is None:
        return lambda rows: iter([rows])
    is_separate = to_arrow(resolve(group.separate, snapshot.schema), snapshot.schema)

    def split(rows: Iterator[SortedRows]) -> Iterator[Iterator[SortedRows]]:
        rest: list[SortedRows] = []

        def first_part() -> Iterator[SortedRows]:
            for each in rows:
                cut = len(each.rows) - evaluate(is_separate, each.rows).true_count
                if cut:
                    yield SortedRows(rows=each.rows.slice(0, cut), places=each.places[:cut])
                if cut < len(each.rows):
                    rest.append(SortedRows(rows=each.rows.slice(cut), places=each.places[cut:]))
                    return

        yield first_part()
        if rest:
            yield chain(_giving_up(rest), rows)

    return split


def _giving_up(rows: list[SortedRows]) -> Iterator[SortedRows]:
    while rows:
        yield rows.pop()


def _runs(
    pieces: Sequence[Piece], file_rows: Callable[[], int], num_axes: int
) -> Iterator[Sequence[Piece]]:
    """Group neighbouring pieces into runs of about one file each."""
    first = 0
    while first < len(pieces):
        last = _end_of_file(pieces, first, file_rows(), num_axes)
        yield pieces[first:last]
        first = last


def _end_of_file(pieces: Sequence[Piece], first: int, wanted: int, num_axes: int) -> int:
    """Choose where a file ends: between large cells of the curve, near the wanted size."""
    ends: list[tuple[int, int]] = []
    num_rows = 0
    for end in range(first + 1, len(pieces) + 1):
        num_rows += pieces[end - 1].num_rows
        ends.append((end, abs(num_rows - wanted)))
        if num_rows > wanted * (1 + _FILE_SLACK):
            break
    near = [end for end, away in ends if away <= wanted * _FILE_SLACK]
    away_of = dict(ends)
    if not near:
        return min(away_of, key=away_of.__getitem__)

    def step(end: int) -> int:
        if end == len(pieces) or num_axes == 1:
            return _KEY_BITS
        return (pieces[end - 1].begins ^ pieces[end].begins).bit_length()

    return max(near, key=lambda end: (step(end), -away_of[end]))


def _files(
    rows: Iterator[SortedRows], file_rows: int, num_files: int, num_axes: int
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the rows of each file.

    A file ends between two large cells of the curve if possible. Then a read that looks for rows of
    one file need not open the next file.
    """
    rest: list[SortedRows] = []

    def batches(wanted: int | None) -> Iterator[pa.RecordBatch]:
        taken = 0
        while each := rest.pop() if rest else next(rows, None):
            if wanted is None or taken + len(each.places) <= wanted:
                taken += len(each.places)
                yield each.rows
                continue
            slack = int(wanted * _FILE_SLACK)
            cut = best_cut(each.places, wanted - taken, slack, num_axes)
            if cut < len(each.places):
                rest.append(SortedRows(rows=each.rows.slice(cut), places=each.places[cut:]))
            yield each.rows.slice(0, cut)
            return

    for number in range(num_files):
        is_last = number == num_files - 1
        own = batches(None if is_last else file_rows)
        first = list(islice(own, 1))
        if not first:
            return
        yield _chain(first, own)


def _chain(first: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while first:
        yield first.pop()
    yield from rest


def _bytes_to_write(pieces: Sequence[Piece], memory_bytes: int) -> int:
    """Return the bytes of rows that are held at a time to write pieces."""
    return min(sum(piece.num_bytes for piece in pieces), min(memory_bytes, MEMORY_BYTES) // 2)


def _sample(
    snapshot: Snapshot, files: Sequence[AddFile], sorting: Sorting, num_rows: int
) -> pa.RecordBatch:
    """Sample rows from evenly spread files of the group, with the columns of the order."""
    chosen = files[:: -(-len(files) // _SAMPLED_FILES)]
    share = num_live_rows(snapshot, chosen) or num_rows
    names = list(dict.fromkeys(path[0] for path in sorting.order.columns))
    ahead = sorting.memory_bytes // 4
    return sample_of(read_kept(snapshot, chosen, names, ahead_bytes=ahead), share, sorting)
