"""Entries of an index: the distinct values of data files, and the entries of existing runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.read.reading import AHEAD_BYTES, DECODED, ReadFiles, limits_of
from delta_ops.arrow.read.scan import plan_reading
from delta_ops.errors import DataFileError, OutsideFileError
from delta_ops.log import Snapshot
from delta_ops.log.version.indexes.run_file import normalize
from delta_ops.log.version.pruning import file_view
from delta_ops.maintenance.indexes.plan import RUN_ENTRIES
from delta_ops.maintenance.indexes.state import CoveringRun
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import add_files
from delta_ops.protocol.arrow_values import array_of, scalar
from delta_ops.protocol.schema import ColumnPath, DataType
from delta_ops.storage.concurrency import run_ahead

UnreadableFile = DataFileError | OutsideFileError
"""Errors of one data file, which stays without an index."""
_RUN_BYTES = 512 << 20
"""Maximum bytes of the values and file numbers of a run in memory, besides one file."""
_SHARE_OF_COLUMN = 4
"""One column takes at most one of so many bytes of a file, on average."""


@dataclass(slots=True, kw_only=True)
class Entries:
    """Values and the files that hold them, for one run."""

    values: list[pa.Array] = field(default_factory=list)
    files: list[pa.Array] = field(default_factory=list)
    covered: list[pa.Table] = field(default_factory=list)
    num_files: int = 0
    num_entries: int = 0
    num_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the entries are enough for a run."""
        return self.num_entries >= RUN_ENTRIES or self.num_bytes >= _RUN_BYTES

    def add(self, values: pa.Array, covered: pa.Table) -> None:
        """Add all values of one file.

        Args:
            covered: One row with `path`, `size` and `modification_time`.
        """
        self._append(values, pa.repeat(scalar(self.num_files, pa.int32()), len(values)))
        self.covered.append(covered)
        self.num_files += 1

    def add_run(self, run: CoveringRun, keep: npt.NDArray[np.bool_]) -> None:
        """Add the entries of some files of a run.

        Args:
            keep: Whether to keep each covered file.

        Raises:
            DamagedRunError: The run is damaged.
        """
        new_numbers = array_of(np.cumsum(keep) + (self.num_files - 1)).cast(pa.int32())
        keeps = array_of(keep)
        for table in run.opened.read_entries(range(len(run.opened.entries))):
            kept = table.filter(keeps.take(table["file"].combine_chunks()))
            if len(kept):
                numbers = new_numbers.take(kept["file"].combine_chunks())
                self._append(kept["value"].combine_chunks(), numbers)
        covered = run.covered.filter(keeps)
        self.covered.append(covered)
        self.num_files += len(covered)

    def _append(self, values: pa.Array, files: pa.Array) -> None:
        self.values.append(values)
        self.files.append(files)
        self.num_entries += len(values)
        self.num_bytes += values.nbytes + files.nbytes


def stream_values(
    snapshot: Snapshot, adds: pa.Table, column: ColumnPath, data_type: DataType
) -> Iterator[pa.Array | UnreadableFile]:
    """Yield the distinct values of a column in each file; an error for an unreadable file.

    Rows that a deletion vector marks count too: older versions of the table have them.

    Args:
        snapshot: The version.
        adds: Rows of `arrow_schemas.ADD`.
        column: As users see it.
        data_type: The type of the values in the index.
    """
    if column[0] in snapshot.definition.partition_columns:
        yield from _partition_values(snapshot, adds, column[0], data_type)
        return
    read = plan_reading(snapshot, [column[0]], encoded=[column[0]] if len(column) == 1 else ())
    calls = (
        (
            each.size * DECODED // _SHARE_OF_COLUMN,
            partial(_distinct_values, read, column, data_type, each),
        )
        for each in add_files(adds)
    )
    with closing(run_ahead(calls, AHEAD_BYTES, *limits_of(snapshot.storage))) as found:
        yield from found


def _partition_values(
    snapshot: Snapshot, adds: pa.Table, name: str, data_type: DataType
) -> Iterator[pa.Array]:
    view = file_view(adds, ["partition_values"], snapshot.definition, snapshot.uri)
    values = pc.struct_field(view["partition_values"].combine_chunks(), [name])
    for number in range(len(values)):
        yield normalize(values.slice(number, 1), data_type)


def _distinct_values(
    read: ReadFiles, column: ColumnPath, data_type: DataType, file: AddFile
) -> pa.Array | UnreadableFile:
    found: list[pa.Array] = []
    try:
        for batch in read([replace(file, deletion_vector=None)]):
            values = batch.column(0)
            if len(column) > 1:
                values = pc.struct_field(values, list(column[1:]))
            distinct = values.unique()
            if pt.is_dictionary(distinct.type):
                distinct = distinct.dictionary_decode()
            found.append(normalize(distinct, data_type))
    except (DataFileError, OutsideFileError) as error:
        return error
    return _unite(found, data_type)


def _unite(found: Sequence[pa.Array], data_type: DataType) -> pa.Array:
    if not found:
        return normalize(pa.nulls(0), data_type)
    return found[0] if len(found) == 1 else pa.concat_arrays(found).unique()
