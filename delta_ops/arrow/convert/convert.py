"""Convert a directory of Parquet files into a table, in place.

Source: PROTOCOL.md, "Data Files", "Per-file Statistics"; the operation is the reference's CONVERT.

Only footers are read: they contain columns, row counts and bounds. One commit, the table's first,
adds all files. Until then there is no table, so a killed call can simply be repeated. Footers are
released after reading; only an action for each file stays in memory.

Any file that cannot become part of the table as it is causes an error. It is not skipped, because
vacuum would later delete it. Hidden files are not part of the table: their name or a directory
begins with `_` or `.`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.convert.hive_partitions import (
    FoundFile,
    find_partitions,
    partition_fields,
    values_of,
)
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.ids import name_as_stored
from delta_ops.protocol.file_paths import encode_path
from delta_ops.protocol.properties.known import COLUMN_MAPPING_MODE
from delta_ops.protocol.properties.table_properties import table_properties_from_configuration
from delta_ops.protocol.schema import NO_COLUMNS, DataType, StructField, StructType
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from delta_ops.protocol.schema.column_names import name_of_column, unquote
from delta_ops.protocol.schema.evolution import merge_schemas, validate_alike
from delta_ops.protocol.schema.type_text import parse_type
from delta_ops.protocol.stats.from_footer import stats_from_footer
from delta_ops.protocol.stats.indexed_columns import StatsSettings
from delta_ops.storage import FileInfo
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.parquet_ranges import read_footer, stored_schema
from delta_ops.transaction import CommitResult, Staged, begin

PartitionTypes = Mapping[str, DataType | str]
_BATCH = 1000
"""Number of files whose footers are in memory at a time."""
_HIDING = ("_", ".")


def convert(
    target: TableOrPlace,
    *,
    partition_by: PartitionTypes | Sequence[str] | None = None,
    configuration: Mapping[str, str] | None = None,
    name: str | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    on_event: OnEvent = ignore,
) -> CommitResult:
    """Convert a directory of Parquet files into a table; do nothing if it already is a table.

    Args:
        partition_by: The partition columns in the directory names, if any, with types in Spark SQL.
            Without a type, a column is a long, a date or a string, depending on its values.
        configuration: Table properties.
        name: The table's name in its metadata.
        user_metadata: Any text, recorded in commitInfo.

    Raises:
        InvalidRequestError: A file is not a Parquet file, has a type that tables lack, or does not
            fit the other files; or there are no files.
        TableExistsError: Another writer has created a table there meanwhile.

    Examples:
        >>> import pathlib, pyarrow.parquet as pq
        >>> pathlib.Path("lake/visits/day=2026-01-31").mkdir(parents=True)
        >>> pq.write_table(pa.table({"id": [1]}), "lake/visits/day=2026-01-31/a.parquet")
        >>> da.convert("lake/visits").version
        0
        >>> da.to_table("lake/visits").to_pylist()
        [{'id': 1, 'day': datetime.date(2026, 1, 31)}]
    """
    validate_arguments(convert, locals())
    log = log_of(target, storage_options)
    transaction = begin(log, on_event=on_event)
    if transaction.snapshot is not None:
        return CommitResult(version=None, already_committed=False, attempts=0, ignored=True)
    partitions = find_partitions(_list_files(log), log.uri)
    if not partitions.files:
        raise InvalidRequestError(f"{log.uri}: there is no Parquet file to convert")
    types = _partition_types(partition_by, partitions.names, log.uri)
    fields = partition_fields(partitions, types)
    mapping = COLUMN_MAPPING_MODE.value_in(configuration or {})
    if mapping == "id":
        raise InvalidRequestError(
            f"{log.uri}: columns of existing files are matched by name, so "
            "delta.columnMapping.mode cannot be id; set it to name"
        )
    found = _read_footers(log, partitions.files, fields, configuration or {}, on_event)
    schema = StructType((*found.schema.fields, *fields))
    transaction.require_new_table()
    transaction.create_table(
        schema if mapping == "none" else name_as_stored(schema),
        partition_by=tuple(map(name_of_column, partitions.names)),
        configuration=configuration,
        name=name,
    )
    transaction.stage(
        Staged(
            adds=tuple(found.adds),
            schema=transaction.schema,
            partition_columns=partitions.names,
            num_rows=found.num_rows,
        )
    )
    metrics = {"numConvertedFiles": len(found.adds)}
    if dry_run:
        transaction.validate()
        return CommitResult(version=None, already_committed=False, attempts=0, metrics=metrics)
    return transaction.commit(
        operation="CONVERT",
        parameters={
            "numFiles": len(found.adds),
            "partitionedBy": list(partitions.names),
            "collectStats": True,
            "sourceFormat": "parquet",
        },
        metrics=metrics,
        counts_files=False,
        user_metadata=user_metadata,
    )


@dataclass
class _Found:
    """The combined contents of the footers read so far."""

    schema: StructType = NO_COLUMNS
    adds: list[AddFile] = field(default_factory=list)
    num_rows: int = 0
    known: dict[bytes, StructType] = field(default_factory=dict)
    """Columns of files by Arrow schema: most files share one schema."""


def _list_files(log: DeltaLog) -> list[FileInfo]:
    files, links = [], []
    for info in log.storage.list_tree("", on_link=lambda link, _: links.append(link)):
        parts = info.path.split("/")
        if log.log_directory in parts:
            raise InvalidRequestError(
                f"{log.uri}: it contains another table, in "
                f"{'/'.join(parts[: parts.index(log.log_directory)]) or 'the directory itself'}; "
                "move that table away, or convert another directory"
            )
        if _is_hidden(parts):
            continue
        if not parts[-1].lower().endswith((".parquet", ".parq")):
            raise InvalidRequestError(
                f"{log.uri}: {info.path} does not have the name of a Parquet file; move it away, "
                "because vacuum would delete it as an unknown file"
            )
        files.append(info)
    for link in sorted(links):
        if not _is_hidden(link.split("/")):
            raise InvalidRequestError(
                f"{log.uri}: {link} is a link, which readers of the table do not follow; replace "
                "it by the files, or delete it"
            )
    return sorted(files, key=lambda info: info.path)


def _is_hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith(_HIDING) and "=" not in part for part in parts)


def _partition_types(
    requested: PartitionTypes | Sequence[str] | None, names: tuple[str, ...], table: str
) -> dict[str, DataType | None]:
    if requested is None:
        return {}
    if tuple(map(unquote, requested)) != names:
        raise InvalidRequestError(
            f"{table}: {option('partition_by')} is {', '.join(requested) or 'nothing'}, but the "
            f"directories have {', '.join(names) or 'nothing'}; give the same columns, or leave "
            "it out"
        )
    if not isinstance(requested, Mapping):
        return {}
    return {
        unquote(name): parse_type(each) if isinstance(each, str) else each
        for name, each in requested.items()
    }


def _read_footers(
    log: DeltaLog,
    files: Sequence[FoundFile],
    fields: Sequence[StructField],
    configuration: Mapping[str, str],
    on_event: OnEvent,
) -> _Found:
    settings = table_properties_from_configuration(configuration).stats
    found = _Found()
    remaining = iter(files)
    while batch := list(islice(remaining, _BATCH)):
        footers = run_parallel(partial(_footer, log), [file.info for file in batch])
        for file, footer in zip(batch, footers, strict=True):
            _take_in(found, file, footer, fields, settings, log.uri)
        on_event(
            Progress(table=log.uri, operation="convert", done=len(found.adds), total=len(files))
        )
    return found


def _take_in(
    found: _Found,
    file: FoundFile,
    footer: pq.FileMetaData,
    fields: Sequence[StructField],
    settings: StatsSettings,
    table: str,
) -> None:
    names = [each.name for each in fields]
    try:
        arrow_schema = stored_schema(footer).remove_metadata()
    except ValueError as error:
        raise _read_error(table, file.info.path, error) from error
    _refuse_uuids(footer, f"{table}: {file.info.path}")
    instants = sorted(set(_legacy_instants(footer)))
    key = arrow_schema.serialize().to_pybytes() + repr(instants).encode()
    if key not in found.known:
        place = f"{table}: {file.info.path}"
        found.known[key] = _columns_of(arrow_schema, instants, names, place)
        _unite(found, found.known[key], place)
    own = found.known[key]
    found.num_rows += footer.num_rows
    found.adds.append(
        AddFile(
            path=encode_path(file.info.path),
            size=file.info.size,
            partition_values=values_of(file, fields, table),
            modification_time=file.info.modified_ms,
            data_change=True,
            stats=stats_from_footer(footer, own, names, settings),
        )
    )


def _unite(found: _Found, own: StructType, place: str) -> None:
    try:
        validate_alike(found.schema, own)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{place} does not fit the files before it: {error} Rewrite one of them"
        ) from error
    found.schema = merge_schemas(found.schema, own)


def _columns_of(
    schema: pa.Schema, instants: Collection[str], partition_columns: Sequence[str], place: str
) -> StructType:
    """Return the columns of a file without the columns in its directory names.

    Args:
        instants: Columns with times of Parquet's old type INT96.
    """
    partition_names = {name.lower() for name in partition_columns}
    kept = [each for each in schema if each.name.lower() not in partition_names]
    table_fields = [
        _instant_column(each, place) if each.name in instants else each for each in kept
    ]
    for each in table_fields:
        _refuse_type(each.type, each.name, place)
    try:
        return schema_from_arrow(pa.schema(table_fields))
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{place}: {error}") from error


def _legacy_instants(footer: pq.FileMetaData) -> Iterator[str]:
    """Yield the INT96 columns, in which Spark and Impala store instants."""
    for number in range(len(footer.schema)):
        column = footer.schema.column(number)
        if column.physical_type == "INT96":
            yield column.path.partition(".")[0]


def _refuse_uuids(footer: pq.FileMetaData, place: str) -> None:
    """Reject UUIDs; their Arrow type is that of other bytes of a fixed size."""
    for number in range(len(footer.schema)):
        column = footer.schema.column(number)
        if column.logical_type.type == "UUID":
            raise InvalidRequestError(
                f"{place}: column {column.path} has UUIDs, which Spark cannot read; rewrite the "
                "file with strings"
            )


def _instant_column(column: pa.Field, place: str) -> pa.Field:
    if pt.is_timestamp(column.type):
        return column.with_type(pa.timestamp("us", "UTC"))
    raise InvalidRequestError(
        f"{place}: column {column.name} has times of type INT96 within a {column.type}; rewrite "
        "the file"
    )


def _refuse_type(data_type: pa.DataType, name: str, place: str) -> None:
    if pt.is_unsigned_integer(data_type) or pt.is_float16(data_type):
        raise InvalidRequestError(
            f"{place}: column {name} is of type {data_type}, which Delta tables do not have; "
            "rewrite the file with another type"
        )
    if pt.is_timestamp(data_type) and data_type.unit == "ns":
        raise InvalidRequestError(
            f"{place}: column {name} has times in nanoseconds, which Delta tables do not have and "
            "other engines reject; rewrite the file with microseconds"
        )
    if pt.is_nested(data_type):
        for number in range(data_type.num_fields):
            _refuse_type(data_type.field(number).type, name, place)


def _footer(log: DeltaLog, info: FileInfo) -> pq.FileMetaData:
    try:
        return read_footer(log.storage, info).metadata
    except (FileNotFoundError, ValueError) as error:
        raise _read_error(log.uri, info.path, error) from error


def _read_error(table: str, path: str, error: Exception) -> InvalidRequestError:
    return InvalidRequestError(f"{table}: {path} cannot be read as Parquet ({error}); move it away")
