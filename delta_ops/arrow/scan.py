"""Read a table's rows in this process.

Files that cannot hold a matching row are left out by the log's statistics; of the others, the rows
for which the predicate is true are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from delta_ops.arrow.data_file import read_data_file
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.features import validate_readable
from delta_ops.protocol.predicate import Predicate, resolve, to_arrow
from delta_ops.protocol.predicate import columns as predicate_columns
from delta_ops.protocol.schema import find_field

MAX_CONCURRENCY = 4


def to_table(
    source: DeltaLog | Snapshot,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
) -> pa.Table:
    """The rows of the latest version, or of a snapshot.

    Args:
        columns: Names, in the order wanted; all of them if None.
        predicate: Keeps the rows for which it is true.

    Raises:
        InvalidRequestError: A column is not there, or the predicate does not fit the table.
        DataFileError: A data file is gone or cannot be read.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    snapshot = _readable(source)
    wanted = _resolved_columns(snapshot, columns)
    schema = pa.schema([snapshot.arrow_schema.field(name) for name in wanted])
    return pa.concat_tables([schema.empty_table(), *_tables(snapshot, wanted, predicate)])


def to_batches(
    source: DeltaLog | Snapshot,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
) -> Iterator[pa.RecordBatch]:
    """The same rows as `to_table`, as batches; a few files are in memory at a time."""
    snapshot = _readable(source)
    for table in _tables(snapshot, _resolved_columns(snapshot, columns), predicate):
        yield from table.to_batches()


def read_files(
    snapshot: Snapshot,
    files: Iterable[AddFile],
    columns: Sequence[str],
    predicate: Predicate | None = None,
) -> Iterator[pa.Table]:
    """The matching rows of these live files, a table each, in the order of the files.

    Raises:
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    _readable(snapshot)
    expression, read_columns = None, list(columns)
    if predicate is not None:
        resolved = resolve(predicate, snapshot.schema)
        expression = to_arrow(resolved, snapshot.schema)
        read_columns += sorted(predicate_columns(resolved) - set(columns))
    pending: deque[Future[pa.Table]] = deque()
    with ThreadPoolExecutor(MAX_CONCURRENCY, thread_name_prefix="delta_ops") as pool:
        for add in files:
            pending.append(pool.submit(read_data_file, snapshot, add, read_columns))
            if len(pending) > MAX_CONCURRENCY:
                yield _matching(pending.popleft().result(), expression, columns)
        while pending:
            yield _matching(pending.popleft().result(), expression, columns)


def _readable(source: DeltaLog | Snapshot) -> Snapshot:
    """Before its schema is asked for, which may have types that Arrow lacks."""
    snapshot = source.snapshot() if isinstance(source, DeltaLog) else source
    validate_readable(snapshot.protocol, snapshot.metadata, table=snapshot.uri)
    return snapshot


def _tables(
    snapshot: Snapshot, columns: Sequence[str], predicate: Predicate | None
) -> Iterator[pa.Table]:
    return read_files(snapshot, snapshot.add_files(predicate), columns, predicate)


def _matching(rows: pa.Table, expression: object, columns: Sequence[str]) -> pa.Table:
    matching = rows if expression is None else rows.filter(expression)
    return matching.select(list(columns))


def _resolved_columns(snapshot: Snapshot, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(snapshot.arrow_schema.names)
    if isinstance(columns, str):
        raise InvalidRequestError(f"columns is a list of names; write columns=[{columns!r}]")
    return [find_field(snapshot.schema, name).name for name in columns]
