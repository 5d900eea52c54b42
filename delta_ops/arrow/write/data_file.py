"""Data files written, with their statistics.

Source: PROTOCOL.md, "Data Files", "Per-file Statistics". Partition columns are never in the files
that we write.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count, islice
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.arrow.coded_texts import code_schema, decoded_bytes, drop_unused_texts, is_coded
from delta_ops.arrow.nesting import drop_hidden_nulls
from delta_ops.arrow.row_checks import has_required_values, validate_rows
from delta_ops.arrow.write.codec_choice import find_incompressible
from delta_ops.arrow.write.dictionary_choice import MANY_ROWS, choose_dictionaries
from delta_ops.arrow.write.stored_names import rename_stored, stored_schema
from delta_ops.error_texts import first_line
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.change_data import CHANGE_DATA_DIRECTORY
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.file_paths import canonical_path, encode_path
from delta_ops.protocol.schema import ColumnPath, StructField, drop_hidden
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.stats.from_footer import FileStatsMaker
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.partition_values import hive_directory, parse
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import run_behind

# The table property's names where Arrow has others.
_ARROW_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}
_CODEC_PROPERTY = "delta.parquet.compression.codec"
_QUICK_CODEC = "snappy"
_QUICK_COLUMN_BYTES = 1024
"""Columns of so many bytes are not worth what zstd takes to begin with each, as measured in
`benchmarks/large_tables.report.md`."""
_ENCODER_ERRORS = (pa.ArrowException, OSError)
ROW_GROUP_ROWS = 1_048_576
_ROW_GROUP_BYTES = 128 * 1024 * 1024
_ALIKE_FILES = 8
"""Files of one write for which a sample of rows is taken once."""
_LONG_BYTES = 4 * 1024 * 1024
"""Row groups from here on are encoded while the next one is read."""
_TINY_ROWS = 16
_FEW_AT_ONCE, _MANY_AT_ONCE, _MOST_AT_ONCE = 1024, 8192, 65_536
"""Values of a column that Arrow encodes before it looks at the size of the page. Each time it looks
for those in use among coded texts; plain texts of any length make a larger page."""


class _Form(NamedTuple):
    """How a file is encoded."""

    codec: str
    schema: pa.Schema
    """The columns as files call them; those are coded that are so in the rows."""
    at_once: int
    """See `_MOST_AT_ONCE`."""
    dictionaries: bool | Sequence[str] = True
    """The columns that get one, as files call them; True: all."""
    uncompressed: Collection[str] = ()
    """The columns that are not compressed, as files call them."""

    @property
    def codecs(self) -> str | dict[str, str]:
        """The codecs of all columns, as Arrow takes them."""
        codec = _ARROW_CODECS.get(self.codec, self.codec)
        if not self.uncompressed:
            return codec
        return {each: "none" if each in self.uncompressed else codec for each in self.schema.names}


class _Choice(NamedTuple):
    """Columns by their places."""

    dictionaries: list[int]
    uncompressed: list[int]


class DataFileWriter:
    """Writes new data files of one table, what they share prepared once.

    Args:
        file_schema: Columns of the rows, which are not those of the partitions.
        definition: The table as the commit will leave it.
        clustered_by: Columns that get statistics in any case, by physical names.
        is_of_changes: The files are those of the change data feed.
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
        self._codec = definition.properties.compression_codec
        self._is_chosen = _CODEC_PROPERTY in definition.metadata.configuration
        self._floats = dict(_float_columns(file_schema))
        self._has_rules = has_required_values(definition.schema)
        self._is_nested = any(pa.types.is_nested(each.type) for each in file_schema)
        is_plain = not definition.is_mapped and not definition.has("materializePartitionColumns")
        self._stored = file_schema if is_plain else stored_schema(definition)
        self._new_path = _new_change_path if is_of_changes else _new_path
        self._settings = replace(definition.stats_settings, always=clustered_by)
        # Rows come without the partition columns, which files of some tables have all the same.
        self._materialized = definition.partition_fields[: len(self._stored) - len(file_schema)]
        self._stats: FileStatsMaker | None = None
        self._large_files = count()
        self._choice: _Choice | None = None

    def write(
        self,
        tables: Iterable[pa.Table],
        partition_values: Mapping[str, str | None],
        *,
        data_change: bool,
        is_durable: bool = True,
    ) -> AddFile:
        """Write one file of a partition.

        Args:
            tables: Rows, each table a row group or several; texts may be coded, of a column in all
                tables or in none.
            partition_values: Serialised, by the name that users see, for every partition column,
                in the order of the directories.
            is_durable: False: it is not before `Storage.persist`, which is to be called before a
                commit names it.

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
        form = self._form_of(first[0] if first else self._schema.empty_table(), num_bytes)
        is_small = not is_long and len(first) < 2

        def write(sink: IO[bytes]) -> None:
            checked = map(self._validate_table, chain(_give_up(first), remaining))
            # Arrow writes a file in many small pieces, for each of which it would wait for Python.
            encoded = pa.BufferOutputStream() if is_small else None
            into = sink if encoded is None else encoded
            footers.append(
                self._encode(checked, into, form, free_of_nan, partition_values, is_long=is_long)
            )
            if encoded is not None:
                sink.write(encoded.getvalue())

        path = self._new_path(self._stored_values(partition_values), form.codec)
        info = self._storage.create_from_stream(path, write, is_durable=is_durable)
        return self._add(path, info, footers[0], free_of_nan, partition_values, data_change)

    def write_few(
        self,
        rows: pa.Table,
        partition_values: Mapping[str, str | None],
        free_of_nan: Collection[ColumnPath],
        num_bytes: int,
    ) -> AddFile:
        """Write one small file of new rows that keep the rules; it is not durable, see `write`.

        It is encoded in memory, as small ones of `write` are.

        Args:
            free_of_nan: Floating-point columns of which it is known.
            num_bytes: Size of the rows, about.
        """
        known = set(free_of_nan)
        unknown = set(self._floats) - known
        encoded = pa.BufferOutputStream()
        # A dictionary of a few values takes longer to write and to read, and no less room.
        has_dictionaries = len(rows) > _TINY_ROWS
        form = _Form(self._codec_of(num_bytes), self._stored, _FEW_AT_ONCE, has_dictionaries)
        footer = self._encode([rows], encoded, form, unknown, partition_values)
        content = encoded.getvalue()
        path = self._new_path(self._stored_values(partition_values), form.codec)

        def write(sink: IO[bytes]) -> None:
            sink.write(content)

        info = self._storage.create_from_stream(path, write, is_durable=False)
        return self._add(path, info, footer, known | unknown, partition_values, True)

    @property
    def floats(self) -> frozenset[ColumnPath]:
        """Floating-point columns, and fields of structs."""
        return frozenset(self._floats)

    def floats_without_nan(self, rows: pa.Table) -> frozenset[ColumnPath]:
        """Floating-point columns, and fields of structs, in which there is no NaN."""
        return self.floats - self._floats_with_nan(rows, self._floats)

    def _floats_with_nan(
        self, rows: pa.Table, paths: Collection[ColumnPath]
    ) -> frozenset[ColumnPath]:
        # Rows may have partition columns between these.
        return frozenset(path for path in paths if _has_nan(rows[path[0]], self._floats[path][1:]))

    def _validate_table(self, rows: pa.Table) -> pa.Table:
        if self._has_rules:
            validate_rows(rows, self._definition.schema, self._storage.uri)
        return rows

    def _codec_of(self, num_bytes: int) -> str:
        """The codec of a file whose first row group has so many bytes."""
        is_small = num_bytes < _QUICK_COLUMN_BYTES * len(self._schema)
        return _QUICK_CODEC if is_small and not self._is_chosen else self._codec

    def _add(
        self,
        path: str,
        info: FileInfo,
        footer: pq.FileMetaData,
        free_of_nan: Collection[ColumnPath],
        partition_values: Mapping[str, str | None],
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
            partition_values=self._stored_values(partition_values),
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

    def _form_of(self, rows: pa.Table, num_bytes: int) -> _Form:
        """The form of a file, by its first rows, of so many bytes."""
        # Those of one value come last.
        of_one_value = self._stored.types[len(self._schema) :]
        form = _Form(
            codec=self._codec_of(num_bytes),
            schema=code_schema(self._stored, [*rows.schema.types, *of_one_value]),
            at_once=_values_at_once(rows),
        )
        if self._is_nested or len(rows) < MANY_ROWS:
            return form
        choice = self._choose(rows, form.codec)
        last = range(len(self._schema), len(self._stored))
        coded = [i for i, each in enumerate(rows.schema.types) if is_coded(each)]
        chosen, names = {*choice.dictionaries, *coded, *last}, self._stored.names
        # Of another file each is asked again: one that does compress would be much larger.
        asked = (i for i in choice.uncompressed if i not in chosen)
        return form._replace(
            dictionaries=[names[i] for i in sorted(chosen)],
            uncompressed={names[i] for i in find_incompressible(rows, asked, form.codec)},
        )

    def _choose(self, rows: pa.Table, codec: str) -> _Choice:
        """The choice for a file, looked at anew for some only: a table's files are much alike."""
        number = next(self._large_files)
        if number % _ALIKE_FILES == 0 or self._choice is None:
            dictionaries = choose_dictionaries(rows)
            others = () if self._is_chosen else {*range(rows.num_columns)} - {*dictionaries}
            uncompressed = find_incompressible(rows, sorted(others), codec)
            self._choice = _Choice(dictionaries, uncompressed)
        return self._choice

    def _encode(
        self,
        tables: Iterable[pa.Table],
        sink: Any,
        form: _Form,
        free_of_nan: set[ColumnPath],
        partition_values: Mapping[str, str | None],
        *,
        is_long: bool = False,
    ) -> pq.FileMetaData:
        """The footer of what was written; columns with NaN are taken out of `free_of_nan`.

        Args:
            is_long: The tables are worth a thread that encodes while the next ones are read.
        """
        footers: list[pq.FileMetaData] = []

        def encode(held: list[pa.Table], writer: pq.ParquetWriter) -> None:
            rows = drop_unused_texts(held.pop())
            stored = _declare_columns(rows) if self._is_nested else rows
            for field in self._materialized:
                stored = _append_value(stored, field, partition_values[field.name])
            if self._definition.is_mapped:
                stored = rename_stored(stored, form.schema)
            writer.write_table(stored, row_group_size=ROW_GROUP_ROWS)
            if free_of_nan:
                free_of_nan.difference_update(self._floats_with_nan(rows, free_of_nan))

        try:
            writer = pq.ParquetWriter(
                sink,
                form.schema,
                compression=form.codecs,
                use_dictionary=form.dictionaries,
                store_schema=False,
                write_batch_size=form.at_once,
                metadata_collector=footers,
            )
            try:
                calls = (partial(encode, held, writer) for held in _hold_each(tables))
                if is_long:
                    run_behind(calls)
                else:
                    for call in calls:
                        call()
            except BaseException:
                with contextlib.suppress(Exception):  # closing what is broken hides why it broke
                    writer.close()
                raise
            writer.close()
        # The store's own errors come as StorageError already: what is left is the encoder's.
        except _ENCODER_ERRORS as error:
            raise _encoding_error(error, self._storage.uri) from error
        return footers[0]


def _values_at_once(rows: pa.Table) -> int:
    """See `_MOST_AT_ONCE`."""
    types = rows.schema.types
    if not any(map(is_coded, types)):
        return _FEW_AT_ONCE
    has_others = any(not is_coded(each) and not pa.types.is_primitive(each) for each in types)
    return _MANY_AT_ONCE if has_others else _MOST_AT_ONCE


def _append_value(rows: pa.Table, field: StructField, text: str | None) -> pa.Table:
    """The rows with one value of a partition behind their columns."""
    data_type = arrow_type_from_type(field.data_type)
    value = pa.scalar(parse(text, field.data_type), data_type)
    column = pa.field(field.name, data_type, nullable=field.nullable)
    return rows.append_column(column, pa.repeat(value, len(rows)))


def discard(storage: Storage, adds: Iterable[AddFile | AddCdcFile]) -> None:
    """Delete staged files that no version can come to name; one that stays is vacuum's."""
    storage.delete_many(canonical_path(add.path, storage.uri) for add in adds)


def row_groups(
    batches: Iterable[pa.RecordBatch],
    max_bytes: int = _ROW_GROUP_BYTES,
    max_rows: int = ROW_GROUP_ROWS,
    least_bytes: int = 0,
) -> Iterator[pa.Table]:
    """Neighbouring batches together, so that many small ones do not make many small row groups.

    Args:
        max_bytes: A row group ends with the batch by which it reaches this size.
        max_rows: Or with the one by which it has so many rows.
        least_bytes: And this size, too: rows of few bytes come more to a group.
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
    """Each table in a list; once it is taken out, nobody holds it while the next one is made."""
    remaining = iter(tables)
    while held := list(islice(remaining, 1)):
        yield held


def _give_up(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Tables that nobody holds once they are taken."""
    while tables:
        yield tables.pop(0)


def _encoding_error(error: Exception, table: str) -> InvalidRequestError:
    reason = first_line(error)
    return InvalidRequestError(
        f"{table}: the rows cannot be written to a Parquet file ({reason}); change the column "
        f"or the table property {_CODEC_PROPERTY}, whichever that names"
    )


def _new_path(partition_values: Mapping[str, str | None], codec: str) -> str:
    """A path that no other file has, as Spark would name it."""
    directory = hive_directory(list(partition_values), partition_values)
    name = f"part-00000-{_new_uuid()}-c000.{codec}.parquet"
    return f"{directory}/{name}" if directory else name


def _new_change_path(partition_values: Mapping[str, str | None], codec: str) -> str:
    directory = hive_directory(list(partition_values), partition_values)
    name = f"cdc-00000-{_new_uuid()}.c000.{codec}.parquet"
    return "/".join(each for each in (CHANGE_DATA_DIRECTORY, directory, name) if each)


def _new_uuid() -> str:
    """What `uuid.uuid4` gives as text, in a fifth of the time."""
    given = os.urandom(16)
    digits = bytes((*given[:6], given[6] & 0x0F | 0x40, given[7], given[8] & 0x3F | 0x80)).hex()
    digits += given[9:].hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _float_columns(
    fields: Iterable[pa.Field], path: ColumnPath = (), places: tuple[int, ...] = ()
) -> Iterator[tuple[ColumnPath, tuple[int, ...]]]:
    """Floating-point columns and fields of structs, with their places among their neighbours."""
    for place, each in enumerate(fields):
        if pa.types.is_floating(each.type):
            yield (*path, each.name), (*places, place)
        elif pa.types.is_struct(each.type):
            yield from _float_columns(each.type, (*path, each.name), (*places, place))


def _has_nan(column: pa.ChunkedArray, places: tuple[int, ...]) -> bool:
    """Whether there is NaN in a column, or in the field of structs at these places."""
    values = pc.struct_field(column, places) if places else column
    return bool(pc.any(pc.is_nan(values), min_count=0).as_py())


def _declare_columns(rows: pa.Table) -> pa.Table:
    """Make rows as Parquet takes them: without nulls in fields that must not be null.

    Delta allows one where the field's parent is null, and Arrow puts one there.
    """
    columns = [_declared_column(rows[field.name], field) for field in rows.schema]
    return pa.table(columns, schema=rows.schema)


def _declared_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if not pa.types.is_nested(field.type):
        return column
    chunks = [drop_hidden_nulls(each, field.type, nullable=True) for each in column.chunks]
    return pa.chunked_array(chunks, type=field.type)
