"""Cache file: the live files of one version as Parquet, in groups with bounds.

A row is a live file: the columns of `arrow_schemas.ADD`, as in the log, and its typed partition
values. The rows are ordered, so that files with similar values are in the same row groups. The
footer has an index of the row groups: for each column, the domain of all files of the group. A plan
reads the footer, then only the groups that can hold a matching row.

A file beside the cache file has a compressed copy of its footer, a fifth of the bytes.

1. The hint has a digest of the copy, and the footer a digest of each group. Nothing is decoded
   before its digest was compared, so damage is found, and never becomes a wrong row.
2. A group is one range of bytes. It is read as a whole, since its digest covers all of it.
3. Files are judged as in the log, from the same statistics. The index only leaves out groups.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.errors import DeltaOpsError
from delta_ops.log.scan_cache.hint import MAX_FOOTER_BYTES, CacheHint, digest
from delta_ops.protocol.arrow_schemas import ADD
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.files import leaf_types, might_match_domains
from delta_ops.protocol.schema import DOUBLE, FLOAT, TIMESTAMP, ColumnPath, DataType
from delta_ops.protocol.stats.file_domains import Domain, sort_keys
from delta_ops.storage import FileInfo, Readable
from delta_ops.storage.parquet_ranges import (
    WINDOW_BYTES,
    Footer,
    Window,
    leaves_among,
    open_window,
    read_window,
    validate_chunks,
)
from delta_ops.storage.unchanging import forget_unchanging, read_unchanging_whole

INDEX_KEY = "delta_ops.groups"
"""Footer metadata: the index of the row groups, as a record batch."""
COLUMNS_KEY = "delta_ops.columns"
"""Footer metadata: the columns of the index, as JSON."""
CHECKSUM_KEY = "delta_ops.checksum"
"""Footer metadata: the version's checksum, as in its `.crc` file."""
PARTITION_VALUES = "partitionValues_parsed"
_SIZE = struct.Struct("<q")
"""Bytes of the footer, before its compressed copy."""
START, END, DIGEST, FILES, BYTES = "start", "end", "digest", "files", "bytes"
"""Columns of the index, beside four for each column of the table."""


class UnusableCacheError(Exception):
    """The scan cache cannot be used; the text says why, as part of a sentence."""


class IndexedColumn(NamedTuple):
    """A column of the table in the index."""

    path: ColumnPath
    """By physical names."""
    is_partition: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class CacheFile:
    """An opened cache file."""

    hint: CacheHint
    metadata: pq.FileMetaData
    index: pa.RecordBatch
    """A row for each row group."""
    columns: tuple[IndexedColumn, ...]
    checksum: bytes
    """The version's checksum, in the form of a checksum file."""

    @property
    def num_files(self) -> int:
        """Number of live files."""
        return int(pc.sum(self.index[FILES], min_count=0).as_py())

    @property
    def size_bytes(self) -> int:
        """Bytes of the live files."""
        return int(pc.sum(self.index[BYTES], min_count=0).as_py())

    def matching_groups(self, predicate: Predicate, partition_time_zone: str) -> list[int]:
        """The row groups that may hold a file with a matching row.

        Args:
            predicate: Resolved, by physical names.
            partition_time_zone: Time zone for partition timestamps without one.
        """
        if not len(self.index):
            return []  # an index without groups has no domains either
        domains: dict[ColumnPath, Domain] = {}
        types = leaf_types(predicate)
        for number, (path, is_partition) in enumerate(self.columns):
            if path in types:
                domain = self._domain(number, types[path], is_partition, partition_time_zone)
                if domain is not None:
                    domains[path] = domain
        if not domains:
            return list(range(len(self.index)))
        kept = might_match_domains(predicate, domains, len(self.index))
        return [int(each) for each in pc.indices_nonzero(kept).to_pylist()]

    def _domain(
        self, number: int, data_type: DataType | None, is_partition: bool, time_zone: str
    ) -> Domain | None:
        if is_partition and data_type == TIMESTAMP and time_zone != "UTC":
            return None  # the index has the bounds in UTC
        low, high, has_nulls, has_values = (
            self.index[name_of_part(number, part)] for part in ("low", "high", "nulls", "values")
        )
        if data_type is not None and low.type != sort_keys([], data_type).type:
            return None
        hides_nan = not is_partition and data_type in (FLOAT, DOUBLE)
        return Domain(has_nulls, has_values, low, high, hides_nan=hides_nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCache:
    """The scan cache of a version in the listed log."""

    hint: CacheHint
    commits: tuple[FileInfo, ...] = ()
    """The commits after the cache's version, up to the checkpoint; ascending, without a gap."""
    footer: bytes | None = field(default=None, repr=False)
    """The footer of the cache file, if it was read and not yet decoded."""
    file: CacheFile | None = field(default=None, repr=False)
    """The cache file, if it was opened."""
    reason: str | None = None
    """Why the cache cannot be used, as part of a sentence; None if nothing speaks against it."""


def name_of_part(number: int, part: str) -> str:
    """The column of the index with a part of a domain: low, high, nulls or values."""
    return f"{number}.{part}"


def read_footer_bytes(storage: Readable, hint: CacheHint) -> bytes:
    """Read the compressed footer of a cache file, in one call.

    Raises:
        FileNotFoundError: The file is gone.
        StorageError: The store failed.
    """
    return read_unchanging_whole(storage, _footer_info(hint))


def open_cache_file(storage: Readable, hint: CacheHint, footer: bytes | None = None) -> CacheFile:
    """Open a cache file.

    Args:
        footer: From `read_footer_bytes`, if it was read before.

    Raises:
        UnusableCacheError: The file is gone or damaged, or the store failed.
    """
    try:
        content = read_footer_bytes(storage, hint) if footer is None else footer
    except FileNotFoundError as error:
        raise UnusableCacheError("its file is gone") from error
    except DeltaOpsError as error:
        raise UnusableCacheError(f"its footer cannot be read: {error}".rstrip(".")) from error
    if digest(content) != hint.footer_digest:
        forget_unchanging(storage, _footer_info(hint))
        raise UnusableCacheError("its footer is damaged")
    with _rejecting_malformed():
        metadata = pq.read_metadata(pa.BufferReader(decompressed_footer(content)))
        stored: Mapping[bytes, bytes] = metadata.metadata or {}
        columns = json.loads(stored[COLUMNS_KEY.encode()])
        return CacheFile(
            hint=hint,
            metadata=metadata,
            index=_index_from_bytes(stored[INDEX_KEY.encode()]),
            columns=tuple(
                IndexedColumn(tuple(each["path"]), each["partition"]) for each in columns
            ),
            checksum=_unpack(stored[CHECKSUM_KEY.encode()]),
        )


def read_groups(
    storage: Readable, file: CacheFile, groups: Sequence[int], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the live files of some row groups, with these columns of `arrow_schemas.ADD`.

    Raises:
        UnusableCacheError: The file is gone or damaged, or the store failed.
    """
    schema = pa.schema([ADD.field(name) for name in columns])
    metadata = file.metadata
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    stored = [name for name in columns if any(p.partition(".")[0] == name for p in paths)]
    with _rejecting_malformed():
        validate_chunks(metadata, file.hint.size, leaves_among(metadata, stored), groups)
    for window in _windows(file, groups):
        content = _read(storage, file, window)
        with _rejecting_malformed():
            with open_window(_footer(file), content) as opened:
                rows = opened.read_row_groups(list(window.row_groups), columns=stored)
            arrays = [
                rows[field.name] if field.name in stored else pa.nulls(len(rows), field.type)
                for field in schema
            ]
            found = pa.Table.from_arrays(arrays, schema=schema)
        yield found


def verify_groups(storage: Readable, file: CacheFile) -> None:
    """Read all row groups and compare their digests.

    Raises:
        UnusableCacheError: The file is gone or damaged, or the store failed.
    """
    for window in _windows(file, range(len(file.index))):
        _read(storage, file, window)


def compressed_footer(footer: bytes) -> bytes:
    """The content of the file with the compressed footer."""
    compressed: bytes = pa.compress(footer, codec="zstd", asbytes=True)
    return _SIZE.pack(len(footer)) + compressed


def decompressed_footer(content: bytes) -> bytes:
    """The footer; raises ValueError, `struct.error` or an Arrow error for other content."""
    (size,) = _SIZE.unpack_from(content)
    if size > MAX_FOOTER_BYTES:
        raise ValueError("too long")
    body = content[_SIZE.size :]
    footer: bytes = pa.decompress(body, decompressed_size=size, codec="zstd", asbytes=True)
    return footer


def index_to_text(index: pa.RecordBatch) -> str:
    """The index as text, for the footer."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, index.schema) as writer:
        writer.write_batch(index)
    return packed_text(sink.getvalue().to_pybytes())


def packed_text(content: bytes) -> str:
    """Compressed content as text, for the footer."""
    body = pa.compress(content, codec="zstd", asbytes=True)
    return f"{len(content)}:{base64.b85encode(body).decode()}"


def _unpack(text: bytes) -> bytes:
    size, _, body = text.partition(b":")
    content: bytes = pa.decompress(
        base64.b85decode(body), decompressed_size=int(size), codec="zstd", asbytes=True
    )
    return content


def _index_from_bytes(text: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.BufferReader(_unpack(text))) as reader:
        return reader.read_next_batch()


def _footer_info(hint: CacheHint) -> FileInfo:
    return FileInfo(hint.footer_path, hint.footer_size, 0, hint.footer_digest)


def _info(hint: CacheHint) -> FileInfo:
    # The name is unique, so size and name identify the content.
    return FileInfo(hint.path, hint.size, 0, hint.footer_digest)


@contextmanager
def _rejecting_malformed() -> Iterator[None]:
    """Reject content that was not written here, although its digest matches."""
    try:
        yield
    except (
        pa.ArrowException,
        struct.error,
        ValueError,
        LookupError,
        TypeError,
        OSError,
        OverflowError,
    ) as error:
        raise UnusableCacheError("its file is malformed") from error


def _windows(file: CacheFile, groups: Sequence[int]) -> Iterator[Window]:
    """Group row groups into windows of bounded size; neighbors become one range."""
    starts, ends = file.index[START].to_pylist(), file.index[END].to_pylist()
    numbers: list[int] = []
    ranges: list[tuple[int, int]] = []
    for group in groups:
        start, end = starts[group], ends[group]
        if numbers and sum(e - s for s, e in ranges) + end - start > WINDOW_BYTES // 2:
            yield Window(row_groups=tuple(numbers), ranges=tuple(ranges))
            numbers, ranges = [], []
        if ranges and ranges[-1][1] == start:
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((start, end))
        numbers.append(group)
    if numbers:
        yield Window(row_groups=tuple(numbers), ranges=tuple(ranges))


def _footer(file: CacheFile) -> Footer:
    return Footer(metadata=file.metadata, size=file.hint.size, content=b"")


def _read(storage: Readable, file: CacheFile, window: Window) -> pa.Buffer:
    """Read a window, and compare the digests of its row groups."""
    try:
        content = read_window(storage, _info(file.hint), _footer(file), window)
    except FileNotFoundError as error:
        raise UnusableCacheError("its file is gone") from error
    except DeltaOpsError as error:
        raise UnusableCacheError(f"its file cannot be read: {error}".rstrip(".")) from error
    view = memoryview(content)
    for group in window.row_groups:
        start, end = (file.index[name][group].as_py() for name in (START, END))
        if digest(view[start:end]) != file.index[DIGEST][group].as_py():
            forget_unchanging(storage, _info(file.hint))
            raise UnusableCacheError("its file is damaged")
    return content
