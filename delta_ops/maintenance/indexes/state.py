"""State of an index: its runs, and the data files that they cover."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.error_texts import first_line
from delta_ops.errors import StorageError
from delta_ops.log import Snapshot
from delta_ops.log.version.indexes.definitions import IndexDefinition, key_type
from delta_ops.log.version.indexes.index_table import list_runs
from delta_ops.log.version.indexes.run_file import OpenRun, RunFile, numbers_of_covered, open_run
from delta_ops.log.version.reconciliation import file_rows
from delta_ops.protocol.arrow_values import numpy_of
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.schema import ColumnPath, DataType, leaves
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.storage.below import StorageBelow
from delta_ops.storage.concurrency import run_parallel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveFiles:
    """The live files of a table, as rows of `arrow_schemas.ADD` with their decoded paths."""

    adds: pa.Table
    paths: pa.ChunkedArray

    def numbers_in(self, covered: pa.Table) -> npt.NDArray[np.int64]:
        """See `numbers_of_covered`."""
        adds = self.adds
        return numbers_of_covered(covered, self.paths, adds["size"], adds["modificationTime"])

    def has(self, covered: pa.Table) -> npt.NDArray[np.bool_]:
        """For each covered file, whether a live file has its path."""
        found = pc.is_in(covered["path"], value_set=self.paths.combine_chunks())
        return numpy_of(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoveringRun:
    """A readable run."""

    opened: OpenRun
    covered: pa.Table
    """`path`, `size` and `modification_time` of the covered files."""

    @property
    def path(self) -> str:
        """The path in the log of the index."""
        return self.opened.run.file.path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexState:
    """An index at one moment."""

    definition: IndexDefinition
    version: int | None
    """The version of the index's own table; None: it has no table yet."""
    column: ColumnPath | None
    """As users see it; None if the table has lost the column."""
    data_type: DataType | None
    """The type of the values in the index."""
    runs: Sequence[CoveringRun]
    unusable: Sequence[str]
    """Paths of runs that are damaged, or belong to another column or type."""
    problems: Sequence[str]
    """A sentence for each unusable run."""

    def is_covered(self, live: LiveFiles) -> npt.NDArray[np.bool_]:
        """For each live file, whether a run covers it."""
        masks = [live.numbers_in(each.covered) >= 0 for each in self.runs]
        covered: npt.NDArray[np.bool_] = np.logical_or.reduce(
            [np.zeros(len(live.adds), dtype=bool), *masks]
        )
        return covered


def identities(adds: pa.Table, table_uri: str) -> pa.Table:
    """The columns of data files that identify them in an index.

    Args:
        adds: Rows of `arrow_schemas.ADD`.
        table_uri: The root of the table.
    """
    columns = {
        "path": file_rows(adds, table_uri).paths,
        "size": adds["size"],
        "modification_time": adds["modificationTime"],
    }
    return pa.table(columns).combine_chunks()


def live_files(snapshot: Snapshot) -> LiveFiles:
    """The live files of a version."""
    adds = snapshot.add_rows()
    rows = file_rows(adds, snapshot.uri)
    return LiveFiles(adds=rows.rows, paths=rows.paths)


def load_index(
    definition: IndexDefinition, snapshot: Snapshot, *, verify: bool = False
) -> IndexState:
    """Open all runs of an index.

    Args:
        verify: Read all entries, to find damaged runs.

    Raises:
        LogCorruptError: The log of the index is damaged.
        StorageError: The store failed.
    """
    column, data_type = _find_column(definition, snapshot)
    runs: list[CoveringRun] = []
    unusable: list[str] = []
    problems: list[str] = []
    version, listed = list_runs(definition, snapshot.storage)
    opened = run_parallel(partial(_open, definition, snapshot, data_type, verify), listed)
    for each, found in zip(listed, opened, strict=True):
        if isinstance(found, CoveringRun):
            runs.append(found)
            continue
        path = each.file.path if isinstance(each, RunFile) else each[0]
        unusable.append(path)
        problems.append(
            f"Index {definition.name} has a run {path} that cannot be used ({found}); a refresh "
            "replaces it."
        )
    return IndexState(
        definition=definition,
        version=version,
        column=column,
        data_type=data_type,
        runs=runs,
        unusable=unusable,
        problems=problems,
    )


def _open(
    definition: IndexDefinition,
    snapshot: Snapshot,
    data_type: DataType | None,
    verify: bool,
    run: RunFile | tuple[str, ValueError],
) -> CoveringRun | str:
    if not isinstance(run, RunFile):
        return str(run[1])
    if data_type is None:
        return "the table has lost its column"
    storage = StorageBelow(snapshot.storage, definition.directory)
    try:
        opened = open_run(run, storage, definition, data_type)
        covered = opened.read_coverage()
        if verify:
            deque(opened.read_entries(range(len(opened.entries))), maxlen=0)
    except FileNotFoundError:
        return "it is gone"
    except StorageError:
        if storage.stat(run.file.path).size != run.file.size:
            return "it is truncated"
        raise
    except (ValueError, OSError, pa.ArrowException) as error:
        return first_line(error)
    return CoveringRun(opened=opened, covered=covered)


def _find_column(
    definition: IndexDefinition, snapshot: Snapshot
) -> tuple[ColumnPath | None, DataType | None]:
    for path, data_type in leaves(snapshot.schema):
        if physical_path(path, snapshot.schema) == definition.column:
            return path, key_type(data_type)
    return None, None


def lost_column(state: IndexState) -> Sequence[str]:
    """A sentence if the table has lost the column."""
    if state.column is not None:
        return ()
    name = name_of_path(state.definition.column)
    return [
        f"Index {state.definition.name} is on {name}, which the table has lost; drop the index."
    ]


def shown_column(state: IndexState) -> str | None:
    """The column as users write it; None if the table has lost it."""
    return None if state.column is None else name_of_path(state.column)
