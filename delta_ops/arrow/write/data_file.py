"""Write data files with their statistics.

Source: PROTOCOL.md, "Data Files", "Per-file Statistics". We write partition columns to files only
if the table feature `materializePartitionColumns` requires it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from math import isnan
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.arrow.dictionary_columns import decoded_bytes, drop_unused_strings
from delta_ops.arrow.nesting import drop_hidden_nulls
from delta_ops.arrow.row_checks import has_required_values, validate_rows
from delta_ops.arrow.sorting import footer_order, sort_rows
from delta_ops.arrow.write.file_form import CODEC_PROPERTY, FileForm, FormChooser
from delta_ops.arrow.write.stored_names import rename_stored, stored_schema
from delta_ops.error_texts import first_line
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.arrow_values import empty_table, repeat, scalar
from delta_ops.protocol.change_data import CHANGE_DATA_DIRECTORY
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.file_paths import canonical_path, encode_path
from delta_ops.protocol.schema import ColumnPath, StructField, drop_hidden
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.sort_key import SortColumn, sort_columns, sorted_tags
from delta_ops.protocol.stats.from_footer import FileStatsMaker
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.partition_values import hive_directory, parse
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import run_behind

_ENCODER_ERRORS = (pa.ArrowException, OSError)
ROW_GROUP_ROWS = 1_048_576
_ROW_GROUP_BYTES = 128 * 1024 * 1024
_UUID_MARKS, _UUID_4 = 0xF000C000 << 48, 0x40008000 << 48
"""Bits of a UUID that give its version and variant, and their values in random UUIDs."""
_LONG_BYTES = 4 * 1024 * 1024
"""Larger row groups are encoded while the next row group is read."""


class DataFileWriter:
    """Writes new data files of one table, with shared settings prepared once.

    Args:
        file_schema: Columns of the rows, without partition columns.
        definition: The table after the commit.
        clustered_by: Columns that always get statistics, by physical names.
        is_of_changes: Whether the files belong to the change data feed.
    """

    def __init__(
        self,
        storage: Storage,
        file_schema: pa.Schema,
        definition: TableDefinition,
        clustered_by: tuple[ColumnPath, ...] = (),
        *,
        is_of_changes: bool = False,
    ) -> None:
        self._storage, self._schema, self._definition = storage, file_schema, definition
        self._floats = dict(_float_columns(file_schema))
        self._has_rules = has_required_values(definition.schema)
        self._is_nested = any(pa.types.is_nested(each.type) for each in file_schema)
        is_plain = not definition.is_mapped and not definition.has("materializePartitionColumns")
        self._stored = file_schema if is_plain else stored_schema(definition)
        self._new_path = _new_change_path if is_of_changes else _new_path
        self._settings = replace(definition.stats_settings, always=clustered_by)
        # Rows lack the partition columns, but files of some tables must contain them.
        self._materialized = definition.partition_fields[: len(self._stored) - len(file_schema)]
        self._stats: FileStatsMaker | None = None
        self._forms = FormChooser(definition, file_schema, self._stored)
        self._sorted_by = () if is_of_changes else sort_columns(definition)
        self._sort_names = [each.name for each in self._sorted_by]
        self._sorted_tags = sorted_tags(definition)

    def write(
        self,
        tables: Iterable[pa.Table],
        partition_values: Mapping[str, str | None],
        *,
        data_change: bool,
        is_durable: bool = True,
        is_sorted: bool = False,
    ) -> AddFile:
        """Write one file of a partition.

        Args:
            tables: The rows; each table becomes at least one row group. A column may
                be dictionary-encoded, in all tables or in none.
            partition_values: Serialized values by the name that users see, for every partition
                column, in directory order.
            is_durable: If False, the caller must call `Storage.persist` before a commit names the
                file.
            is_sorted: Whether all rows come in the order of the sort key. The file then states so.

        Raises:
            InvalidRequestError: A row breaks a rule of the table, or the rows cannot be encoded.
            StorageError: The store failed.
        """
        free_of_nan = set(self._floats)
        footers: list[pq.FileMetaData] = []
        remaining = iter(tables)
        try:
            first = list(islice(remaining, 1))
            num_bytes = first[0].nbytes if first else 0
            is_long = num_bytes >= _LONG_BYTES
            if not is_long:
                first += islice(remaining, 1)
        except _ENCODER_ERRORS as error:
            raise _encoding_error(error, self._storage.uri) from error
        form = self._forms.form_of(first[0] if first else empty_table(self._schema), num_bytes)
        is_small = not is_long and len(first) < 2

        def write(sink: IO[bytes]) -> None:
            checked = map(self._validate_table, chain(_release(first), remaining))
            # Arrow writes a file in many small pieces, and would call Python for each of them.
            encoded = pa.BufferOutputStream() if is_small else None
            into = sink if encoded is None else encoded
            footers.append(
                self._encode(
                    checked,
                    into,
                    form,
                    free_of_nan,
                    partition_values,
                    is_long=is_long,
                    is_sorted=is_sorted,
                )
            )
            if encoded is not None:
                sink.write(encoded.getvalue())

        values = self._stored_values(partition_values)
        path = self._new_path(values, form.codec)
        info = self._storage.create_from_stream(path, write, is_durable=is_durable)
        add = self._add(path, info, footers[0], free_of_nan, values, data_change)
        return replace(add, tags=self._sorted_tags) if is_sorted else add

    def write_few(
        self,
        rows: pa.Table,
        partition_values: Mapping[str, str | None],
        free_of_nan: Collection[ColumnPath],
        num_bytes: int,
    ) -> AddFile:
        """Write one small file of new, already validated rows; it is not durable, see `write`.

        The file is encoded in memory, like small files of `write`.

        Args:
            free_of_nan: Floating-point columns that are known to have no NaN.
            num_bytes: Approximate size of the rows.
        """
        form = self._forms.form_of_few(len(rows), num_bytes)
        if len(free_of_nan) < len(self._floats):
            unknown = self._floats.keys() - free_of_nan
            free_of_nan = self._floats.keys() - self._floats_with_nan(rows, unknown)
        encoded = pa.BufferOutputStream()
        footers: list[pq.FileMetaData] = []
        try:
            with _open_writer(encoded, form, footers, self._sorted_by) as writer:
                stored = self._stored_rows(self._sort(rows), form.schema, partition_values)
                writer.write_table(stored, row_group_size=ROW_GROUP_ROWS)
        except _ENCODER_ERRORS as error:
            raise _encoding_error(error, self._storage.uri) from error
        content = encoded.getvalue()
        values = self._stored_values(partition_values)
        path = self._new_path(values, form.codec)

        def write(sink: IO[bytes]) -> None:
            sink.write(content)

        info = self._storage.create_from_stream(path, write, is_durable=False)
        return self._add(path, info, footers[0], free_of_nan, values, True)

    @property
    def floats(self) -> frozenset[ColumnPath]:
        """Floating-point columns and struct fields."""
        return frozenset(self._floats)

    def floats_without_nan(self, rows: pa.Table) -> frozenset[ColumnPath]:
        """Return the floating-point columns and struct fields without NaN."""
        return self.floats - self._floats_with_nan(rows, self._floats)

    def _floats_with_nan(
        self, rows: pa.Table, paths: Collection[ColumnPath]
    ) -> frozenset[ColumnPath]:
        # Use names: rows may contain partition columns in between.
        return frozenset(path for path in paths if _has_nan(rows[path[0]], self._floats[path][1:]))

    def _validate_table(self, rows: pa.Table) -> pa.Table:
        if self._has_rules:
            validate_rows(rows, self._definition.schema, self._storage.uri)
        return rows

    def _add(
        self,
        path: str,
        info: FileInfo,
        footer: pq.FileMetaData,
        free_of_nan: Collection[ColumnPath],
        stored_values: Mapping[str, str | None],
        data_change: bool,
    ) -> AddFile:
        if self._stats is None:
            definition = self._definition
            self._stats = FileStatsMaker(
                footer,
                drop_hidden(definition.physical_schema),
                list(definition.partition_names.values()),
                self._settings,
            )
        return AddFile(
            path=encode_path(path),
            size=info.size,
            partition_values=stored_values,
            modification_time=info.modified_ms,
            data_change=data_change,
            stats=self._stats.stats(footer, self._stored_paths(free_of_nan)),
        )

    def _stored_values(self, partition_values: Mapping[str, str | None]) -> dict[str, str | None]:
        names = self._definition.partition_names
        return {names[name]: value for name, value in partition_values.items()}

    def _stored_paths(self, paths: Collection[ColumnPath]) -> Collection[ColumnPath]:
        if not self._definition.is_mapped:
            return paths
        return {physical_path(path, self._definition.schema) for path in paths}

    def _encode(
        self,
        tables: Iterable[pa.Table],
        sink: Any,
        form: FileForm,
        free_of_nan: set[ColumnPath],
        partition_values: Mapping[str, str | None],
        *,
        is_long: bool = False,
        is_sorted: bool = False,
    ) -> pq.FileMetaData:
        """Encode rows and return the footer; removes columns with NaN from `free_of_nan`.

        Args:
            is_long: Whether a thread encodes each table while the next table is read.
            is_sorted: As for `write`.
        """
        footers: list[pq.FileMetaData] = []

        def encode(held: list[pa.Table], writer: pq.ParquetWriter) -> None:
            rows = drop_unused_strings(held.pop())
            rows = rows if is_sorted else self._sort(rows)
            stored = self._stored_rows(rows, form.schema, partition_values)
            writer.write_table(stored, row_group_size=ROW_GROUP_ROWS)
            if free_of_nan:
                free_of_nan.difference_update(self._floats_with_nan(rows, free_of_nan))

        try:
            with _open_writer(sink, form, footers, self._sorted_by) as writer:
                calls = (partial(encode, held, writer) for held in _hold_each(tables))
                if is_long:
                    run_behind(calls)
                else:
                    for call in calls:
                        call()
        # The store's own errors are already StorageError: the remaining errors are the encoder's.
        except _ENCODER_ERRORS as error:
            raise _encoding_error(error, self._storage.uri) from error
        return footers[0]

    def _sort(self, rows: pa.Table) -> pa.Table:
        """Sort the rows of a row group by the sort key of the table."""
        return sort_rows(rows, self._sort_names) if self._sort_names else rows

    def _stored_rows(
        self, rows: pa.Table, schema: pa.Schema, partition_values: Mapping[str, str | None]
    ) -> pa.Table:
        """Return the rows as a file has them."""
        stored = _declare_columns(rows) if self._is_nested else rows
        for field in self._materialized:
            stored = _append_value(stored, field, partition_values[field.name])
        return rename_stored(stored, schema) if self._definition.is_mapped else stored


class _open_writer:  # noqa: N801  (used as a function; a generator takes several times as long)
    """Open a Parquet writer for a file; appends the footer to `footers` when it closes."""

    __slots__ = ("_writer",)

    def __init__(
        self,
        sink: Any,
        form: FileForm,
        footers: list[pq.FileMetaData],
        sorted_by: Sequence[SortColumn],
    ) -> None:
        filters = {} if form.bloom_filters is None else {"bloom_filter_options": form.bloom_filters}
        self._writer = pq.ParquetWriter(
            sink,
            form.schema,
            compression=form.codecs,
            use_dictionary=form.dictionaries,
            store_schema=False,
            write_batch_size=form.at_once,
            metadata_collector=footers,
            sorting_columns=footer_order(form.schema, [each.stored_name for each in sorted_by]),
            **filters,
        )

    def __enter__(self) -> pq.ParquetWriter:
        return self._writer

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self._writer.close()
            return
        with contextlib.suppress(Exception):  # do not hide the first error
            self._writer.close()


def _append_value(rows: pa.Table, field: StructField, text: str | None) -> pa.Table:
    """Append a column with the partition's value."""
    data_type = arrow_type_from_type(field.data_type)
    value = scalar(parse(text, field.data_type), data_type)
    column = pa.field(field.name, data_type, nullable=field.nullable)
    return rows.append_column(column, repeat(value, len(rows)))


def discard(storage: Storage, adds: Iterable[AddFile | AddCdcFile]) -> None:
    """Delete staged files that no version can name; vacuum deletes any that remain."""
    storage.delete_many(canonical_path(add.path, storage.uri) for add in adds)


def row_groups(
    batches: Iterable[pa.RecordBatch],
    max_bytes: int = _ROW_GROUP_BYTES,
    max_rows: int = ROW_GROUP_ROWS,
    least_bytes: int = 0,
) -> Iterator[pa.Table]:
    """Combine neighbouring batches, so that many small batches do not make many small row groups.

    Args:
        max_bytes: A row group ends with the batch that reaches this size.
        max_rows: A row group also ends with the batch that reaches this number of rows.
        least_bytes: `max_rows` ends only row groups of at least this size.
    """
    most = min(max_bytes, _ROW_GROUP_BYTES)
    pending: list[pa.RecordBatch] = []
    num_rows = num_bytes = 0
    for batch in batches:
        pending.append(batch)
        num_rows += len(batch)
        num_bytes += decoded_bytes(batch)
        if num_bytes >= most or (num_rows >= max_rows and num_bytes >= least_bytes):
            yield pa.Table.from_batches(pending)
            pending, num_rows, num_bytes = [], 0, 0
    if pending:
        yield pa.Table.from_batches(pending)


def _hold_each(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    """Yield each table in a list; the consumer empties the list to free the memory."""
    remaining = iter(tables)
    while held := list(islice(remaining, 1)):
        yield held


def _release(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables without keeping references to them."""
    while tables:
        yield tables.pop(0)


def _encoding_error(error: Exception, table: str) -> InvalidRequestError:
    reason = first_line(error)
    return InvalidRequestError(
        f"{table}: the rows cannot be written to a Parquet file ({reason}); change that column, "
        f"or the table property {CODEC_PROPERTY} if the codec is the problem"
    )


def _new_path(partition_values: Mapping[str, str | None], codec: str) -> str:
    """Return a unique path in Spark's naming scheme."""
    directory = hive_directory(list(partition_values), partition_values)
    name = f"part-00000-{_new_uuid()}-c000.{codec}.parquet"
    return f"{directory}/{name}" if directory else name


def _new_change_path(partition_values: Mapping[str, str | None], codec: str) -> str:
    directory = hive_directory(list(partition_values), partition_values)
    name = f"cdc-00000-{_new_uuid()}.c000.{codec}.parquet"
    return "/".join(each for each in (CHANGE_DATA_DIRECTORY, directory, name) if each)


def _new_uuid() -> str:
    """Return a string like `uuid.uuid4`, in a fifth of the time."""
    number = int.from_bytes(os.urandom(16))
    digits = f"{number & ~_UUID_MARKS | _UUID_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _float_columns(
    fields: Iterable[pa.Field], path: ColumnPath = (), places: tuple[int, ...] = ()
) -> Iterator[tuple[ColumnPath, tuple[int, ...]]]:
    """Yield floating-point columns and struct fields, with their positions at each level."""
    for place, each in enumerate(fields):
        if pa.types.is_floating(each.type):
            yield (*path, each.name), (*places, place)
        elif pa.types.is_struct(each.type):
            yield from _float_columns(each.type, (*path, each.name), (*places, place))


def _has_nan(column: pa.ChunkedArray, places: tuple[int, ...]) -> bool:
    """Return whether there is NaN in a column, or in the struct field at these positions."""
    values = pc.struct_field(column, places) if places else column
    total = pc.sum(values).as_py()
    if total is None or not isnan(total):
        return False
    # Numbers may add up to infinity, and infinities of both signs to NaN.
    return bool(pc.any(pc.is_nan(values), min_count=0).as_py())


def _declare_columns(rows: pa.Table) -> pa.Table:
    """Remove nulls from fields that must not be null, as Parquet requires.

    Delta allows such a null below a null parent, and Arrow creates it there.
    """
    columns = [_declared_column(rows[field.name], field) for field in rows.schema]
    return pa.table(columns, schema=rows.schema)


def _declared_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if not pa.types.is_nested(field.type):
        return column
    chunks = [drop_hidden_nulls(each, field.type, nullable=True) for each in column.chunks]
    return pa.chunked_array(chunks, type=field.type)
