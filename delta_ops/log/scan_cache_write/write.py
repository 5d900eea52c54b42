"""Scan cache written: the live files of a version, ordered, and the hint that names them.

1. The cache file and the copy of its footer get new names. Then the hint is replaced, then its tag
   in `_last_checkpoint`. A writer that dies before the hint leaves files that nobody reads, and
   `delete_unused` deletes them.
2. Two writers at a time write two files, and the later hint stays. Each hint fits its own file.
3. The hint of a later version of the same table stays.
4. Rows are ordered by partition values, then by the least values of clustering columns, then by
   time: files that are added together often hold neighboring values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import RawIOBase
from math import isqrt
from typing import IO, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.log.checksum import VersionChecksum
from delta_ops.log.checksum_write.write import encode_checksum
from delta_ops.log.last_checkpoint import tag_scan_cache
from delta_ops.log.replaced_table import is_same_file
from delta_ops.log.same_table import validate_same_table
from delta_ops.log.scan_cache.file import (
    BYTES,
    CHECKSUM_KEY,
    COLUMNS_KEY,
    DIGEST,
    END,
    FILES,
    INDEX_KEY,
    PARTITION_VALUES,
    START,
    IndexedColumn,
    compressed_footer,
    index_to_text,
    name_of_part,
    packed_text,
)
from delta_ops.log.scan_cache.hint import (
    HINT_PATH,
    PLANNING_DIRECTORY,
    CacheHint,
    DamagedHintError,
    cache_file_name,
    digest,
    digest_of_columns,
    load_cache_hint,
    text_of_hint,
)
from delta_ops.log.segment import list_log
from delta_ops.log.snapshot import Snapshot
from delta_ops.log.version import pruning
from delta_ops.log.version.files import may_repeat_files
from delta_ops.log.version.indexes.definitions import has_definitions
from delta_ops.log.version.repeated_files import drop_repeated
from delta_ops.protocol.arrow_schemas import ADD
from delta_ops.protocol.arrow_values import array_of, empty_table
from delta_ops.protocol.file_names import checksum_name
from delta_ops.protocol.parsed_stats import columns_with_stats
from delta_ops.protocol.schema import BOOLEAN, ColumnPath, DataType
from delta_ops.protocol.stats.file_domains import (
    Domain,
    domain_of_partitions,
    domains_at_once,
    domains_one_by_one,
)
from delta_ops.protocol.stats.indexed_columns import has_bounds

_GROUP_ROWS = 4096
"""Files of a row group in a table of up to a million files. In larger tables, both the groups and
the footer grow, by the root of the number of files."""
_MANY_FILES = 1 << 20
_OF_GROUP = {
    START: pa.int64(),
    END: pa.int64(),
    DIGEST: pa.string(),
    FILES: pa.int64(),
    BYTES: pa.int64(),
}
"""The columns of the index that are about no column of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCache:
    """A scan cache that was written."""

    version: int
    num_files: int
    """Live files in it."""
    size_bytes: int
    """Bytes of the cache file."""


def write_scan_cache(snapshot: Snapshot, *, group_rows: int | None = None) -> WrittenCache | None:
    """Write the scan cache of a snapshot's version, and point the hint at it.

    Args:
        group_rows: Files of a row group; by default, chosen by the number of files.

    Returns:
        None if the commit file of the version is gone, so that no reader could compare it.

    Raises:
        LogCorruptError: The version cannot be read in full.
        LogPathError: A partition value of a file does not fit its column's type.
        TableReplacedError: The table was deleted or replaced by another table.
        StorageError: The store failed.
    """
    storage, directory, version = snapshot.storage, snapshot.log_directory, snapshot.version
    commit = list_log(storage, directory, from_version=version).commits.get(version)
    if commit is None:
        return None
    content = _Content(snapshot, group_rows)
    path = f"{PLANNING_DIRECTORY}/{cache_file_name(version, str(uuid4()))}"
    sinks: list[_Sink] = []

    def write(stream: IO[bytes]) -> None:
        sink = _Sink(stream)
        sinks[:] = [sink]
        content.write(sink)

    info = storage.create_from_stream(path, write)
    validate_same_table(snapshot)
    footer_start, footer = sinks[0].last_part
    compressed = compressed_footer(footer)
    hint = CacheHint(
        table_id=snapshot.metadata.id,
        version=version,
        commit=commit,
        columns=digest_of_columns(snapshot.metadata),
        file=path.rpartition("/")[2],
        size=footer_start + len(footer),
        footer_size=len(compressed),
        footer_digest=digest(compressed),
    )
    storage.create(hint.footer_path, compressed)
    _point_at(snapshot, replace(hint, may_have_indexes=has_definitions(storage)))
    return WrittenCache(version=version, num_files=content.num_files, size_bytes=info.size)


def _point_at(snapshot: Snapshot, hint: CacheHint) -> None:
    """Replace the hint, unless it names a later version of this table."""
    storage, directory = snapshot.storage, snapshot.log_directory
    try:
        stored = load_cache_hint(storage, directory)
    except DamagedHintError:
        stored = None
    if stored is not None and stored.table_id == hint.table_id and stored.version > hint.version:
        listing = list_log(storage, directory, from_version=stored.version)
        if is_same_file(stored.commit, listing.commits.get(stored.version)):
            return
    text = text_of_hint(hint)
    storage.replace(HINT_PATH, text.encode())
    tag_scan_cache(storage, directory, text)


class _Sink(RawIOBase):
    """Passes bytes on, with their positions and digests."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._start = self._position = 0
        self._part: list[bytes] = []

    def writable(self) -> bool:
        """Return True, as for each stream that is written to."""
        return True

    def write(self, data: Any) -> int:
        """Pass the bytes on."""
        content = bytes(data)
        self._stream.write(content)
        self._part.append(content)
        self._position += len(content)
        return len(content)

    @property
    def last_part(self) -> tuple[int, bytes]:
        """Start and content of the part since the last call of `end_part`."""
        return self._start, b"".join(self._part)

    def end_part(self) -> tuple[int, int, str]:
        """Start, end and digest of the part since the last call."""
        start, content = self.last_part
        self._start, self._part = self._position, []
        return start, self._position, digest(content)


class _Content:
    """The rows and the index of a cache file."""

    def __init__(self, snapshot: Snapshot, group_rows: int | None) -> None:
        self._snapshot = snapshot
        self._definition = snapshot.definition
        rows = pa.concat_tables(
            [empty_table(ADD), *snapshot.stream_live(ADD.names)], promote_options="none"
        )
        if may_repeat_files(snapshot):
            rows = drop_repeated(rows, snapshot.uri)
        self.num_files = len(rows)
        self._group_rows = group_rows or _group_rows(len(rows))
        self._partition_types = {
            self._definition.partition_names[each.name]: each.data_type
            for each in self._definition.partition_fields
        }
        self._stats_types = {
            path: data_type if has_bounds(data_type) or data_type == BOOLEAN else None
            for path, data_type in columns_with_stats(self._definition)
        }
        self._columns = [
            *(IndexedColumn((name,), True) for name in self._partition_types),
            *(IndexedColumn(path, False) for path in self._stats_types),
        ]
        self._rows = self._sort_rows(rows)

    def write(self, sink: _Sink) -> None:
        """Write the file; the last part of the sink is then the footer."""
        schema = self._schema()
        typed = [f"{PARTITION_VALUES}.{name}" for name in self._partition_types]
        with pq.ParquetWriter(
            sink,
            schema,
            compression="zstd",
            write_statistics=typed or False,
            use_dictionary=[*_REPEATING, *typed],
            store_schema=False,
        ) as writer:
            index = [self._write_group(writer, sink, rows, schema) for rows in self._groups()]
            writer.add_key_value_metadata(self._footer_values(index))

    def _sort_rows(self, rows: pa.Table) -> pa.Table:
        """The rows in the order of the file; long texts have 64-bit offsets."""
        keys = self._sort_keys(rows)
        order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
        columns = {}
        for field in ADD:
            column = rows[field.name]
            if column.null_count == len(column) and field.name not in ("path", "size"):
                continue  # most tables lack tags, vectors and row ids
            if pa.types.is_string(field.type):
                column = column.cast(pa.large_string())  # `take` joins all chunks
            columns[field.name] = column.take(order)
        return pa.table(columns)

    def _sort_keys(self, rows: pa.Table) -> pa.Table:
        snapshot = self._snapshot
        keys: list[pa.Array | pa.ChunkedArray] = []
        if self._partition_types:
            typed = pruning.parsed_partition_values(rows, self._definition, snapshot.uri)
            keys += typed.flatten()
        keys += self._least_values(rows, snapshot.clustering_columns)
        keys += [rows["modificationTime"], rows["path"]]
        return pa.table(keys, names=[str(number) for number in range(len(keys))])

    def _least_values(
        self, rows: pa.Table, paths: Sequence[ColumnPath]
    ) -> Iterator[pa.ChunkedArray]:
        types = {path: t for path, t in self._stats_types.items() if path in paths}
        if not types or not len(rows):
            return
        batches = rows.select(["stats"]).to_batches(max_chunksize=_MANY_AT_ONCE)
        domains = [_domains_of_stats(batch.column("stats"), types) for batch in batches]
        for path in paths:
            lows = [each[path].low for each in domains if path in each]
            if len(lows) == len(domains) and not any(pa.types.is_null(low.type) for low in lows):
                yield pa.chunked_array(lows)

    def _groups(self) -> Iterator[pa.Table]:
        for start in range(0, self.num_files, self._group_rows):
            yield self._rows.slice(start, self._group_rows)

    def _schema(self) -> pa.Schema:
        fields = [ADD.field(name) for name in self._rows.column_names]
        if self._partition_types:
            empty = pruning.parsed_partition_values(
                empty_table(ADD), self._definition, self._snapshot.uri
            )
            fields.append(pa.field(PARTITION_VALUES, empty.type))
        return pa.schema(fields)

    def _write_group(
        self, writer: pq.ParquetWriter, sink: _Sink, rows: pa.Table, schema: pa.Schema
    ) -> pa.RecordBatch:
        """Write a row group; returns its row of the index."""
        stored = pa.Table.from_arrays(
            [rows[name].cast(schema.field(name).type) for name in rows.column_names],
            names=rows.column_names,
        ).combine_chunks()
        if self._partition_types:
            typed = pruning.parsed_partition_values(stored, self._definition, self._snapshot.uri)
            stored = stored.append_column(PARTITION_VALUES, typed)
        writer.write_table(stored.select(schema.names), row_group_size=len(stored))
        start, end, found = sink.end_part()
        (batch,) = stored.to_batches()
        size = pc.sum(batch["size"], min_count=0).as_py()
        values = (start, end, found, len(batch), size)
        parts: dict[str, pa.Array] = {
            name: array_of([value], data_type)
            for (name, data_type), value in zip(_OF_GROUP.items(), values, strict=True)
        }
        domains = self._domains(batch)
        for number, column in enumerate(self._columns):
            domain = _union(domains[column.path])
            for part, value in zip(("low", "high", "nulls", "values"), domain, strict=True):
                parts[name_of_part(number, part)] = value
        return pa.RecordBatch.from_arrays(list(parts.values()), names=list(parts))

    def _domains(self, batch: pa.RecordBatch) -> dict[ColumnPath, Domain]:
        uri = self._snapshot.uri
        domains: dict[ColumnPath, Domain] = {}
        for name, data_type in self._partition_types.items():
            column = pruning.partition_column(batch, name, data_type, uri, "UTC")
            domains[name,] = domain_of_partitions(column, data_type)
        has_stats = "stats" in batch.schema.names
        stats = batch.column("stats") if has_stats else pa.nulls(len(batch), pa.string())
        return domains | _domains_of_stats(stats, self._stats_types)

    def _footer_values(self, index: Sequence[pa.RecordBatch]) -> dict[str, str]:
        columns = [{"path": list(c.path), "partition": c.is_partition} for c in self._columns]
        groups = index or [
            pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in _OF_GROUP.values()], [*_OF_GROUP])
        ]
        (batch,) = pa.Table.from_batches(groups).combine_chunks().to_batches() or groups
        values = {INDEX_KEY: index_to_text(batch), COLUMNS_KEY: json.dumps(columns)}
        values[CHECKSUM_KEY] = packed_text(encode_checksum(self._checksum()))
        return values

    def _checksum(self) -> VersionChecksum:
        """The version's checksum; readers then need neither its file nor the checkpoint."""
        snapshot, definition = self._snapshot, self._definition
        known = snapshot.state_checksum.checksum
        if known is not None and known.version == snapshot.version:
            return known
        return VersionChecksum(
            path=f"{snapshot.log_directory}/{checksum_name(snapshot.version)}",
            version=snapshot.version,
            num_files=self.num_files,
            table_size_bytes=int(pc.sum(self._rows["size"], min_count=0).as_py()),
            protocol=definition.protocol,
            metadata=definition.metadata,
            txn_id=snapshot.txn_id,
        )


_MANY_AT_ONCE = 65_536
_REPEATING = [
    f"{name}.key_value.{part}" for name in ("partitionValues", "tags") for part in ("key", "value")
]
"""Columns whose values repeat, beside the typed partition values."""


def _group_rows(num_files: int) -> int:
    return _GROUP_ROWS * max(1, isqrt(num_files // _MANY_FILES))


def _domains_of_stats(
    stats: pa.Array, types: Mapping[ColumnPath, DataType | None]
) -> dict[ColumnPath, Domain]:
    found = dict(domains_at_once(stats, types))
    left = {path: data_type for path, data_type in types.items() if path not in found}
    return found | dict(domains_one_by_one(stats, left)) if left else found


def _union(domain: Domain) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """Low, high, nulls and values of all files together, as arrays of one value each."""
    has_values = domain.has_values
    bounds = []
    for keys, name in ((domain.low, "min"), (domain.high, "max")):
        is_open = pc.any(pc.and_(has_values, keys.is_null()), min_count=0).as_py()
        has_order = not pa.types.is_null(keys.type) and not pa.types.is_nested(keys.type)
        is_bounded = has_order and not is_open
        bounds.append(
            pa.repeat(pc.min_max(keys)[name], 1) if is_bounded else pa.nulls(1, keys.type)
        )
    nulls, values = (
        array_of([pc.any(each, min_count=0).as_py()], pa.bool_())
        for each in (domain.has_nulls, has_values)
    )
    return bounds[0], bounds[1], nulls, values
