"""Checkpoint content: the rows of a snapshot, in the columns that the table requires.

Source: PROTOCOL.md, "Checkpoint Schema" and "Action Reconciliation". The content is the same for
each kind of checkpoint: non-file actions, unexpired tombstones, and live files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from delta_ops.lazy import lazy
from delta_ops.log.snapshot import Snapshot
from delta_ops.log.version import pruning
from delta_ops.log.version.reconciliation import is_unexpired
from delta_ops.protocol.actions import OtherAction, SetTransaction
from delta_ops.protocol.arrow_schemas import (
    ADD,
    DOMAIN_METADATA,
    METADATA,
    PROTOCOL,
    REMOVE,
    TXN,
)
from delta_ops.protocol.arrow_values import FALSE_SCALAR, array_of, empty_table
from delta_ops.protocol.json.codec import json_object
from delta_ops.protocol.parsed_stats import (
    Tree,
    arrow_type,
    parsed_stats,
    stats_shape,
)

# The reference leaves these fields out of a tombstone: no reader needs them after the removal.
REMOVE_ROW = pa.struct([field for field in REMOVE if field.name not in ("tags", "stats")])
BATCH_ROWS = 65_536
"""Rows per row group. A row group costs some milliseconds, and is held in memory until written."""


_BATCH_BYTES = 64 << 20
_SMALL_ROWS = 4_096


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of a checkpoint of one snapshot at one time."""

    snapshot: Snapshot
    now_ms: int
    """Milliseconds since the Unix epoch; tombstones and transactions expire by it."""

    @lazy
    def schema(self) -> pa.Schema:
        """The columns of a Parquet checkpoint, one per kind of action."""
        return pa.schema(
            [
                ("txn", TXN),
                ("add", self.add_type),
                ("remove", REMOVE_ROW),
                ("metaData", METADATA),
                ("protocol", PROTOCOL),
                ("domainMetadata", DOMAIN_METADATA),
            ]
        )

    @lazy
    def add_type(self) -> pa.StructType:
        """The fields of `add`, with statistics as JSON, as a struct, as both or as neither."""
        properties = self.snapshot.properties
        left_out = () if properties.write_stats_as_json else ("stats",)
        fields = [field for field in ADD if field.name not in left_out]
        if properties.write_stats_as_struct:
            if self.snapshot.partition_columns:
                empty = self._partition_values(empty_table(ADD))
                fields.append(pa.field("partitionValues_parsed", empty.type))
            fields.append(pa.field("stats_parsed", arrow_type(self._stats_shape)))
        return pa.struct(fields)

    @lazy
    def _stats_shape(self) -> Tree:
        return stats_shape(self.snapshot.definition)

    def _partition_values(self, adds: pa.Table) -> pa.StructArray:
        snapshot = self.snapshot
        return pruning.parsed_partition_values(adds, snapshot.definition, snapshot.uri)

    @lazy
    def state(self) -> tuple[OtherAction, ...]:
        """The non-file actions, always in the same order."""
        snapshot = self.snapshot
        transactions = live_transactions(snapshot, self.now_ms)
        domains = snapshot.domain_metadata()
        return (
            snapshot.protocol,
            snapshot.metadata,
            *sorted(transactions, key=lambda txn: txn.app_id),
            *(domains[name] for name in sorted(domains)),
        )

    def state_rows(self) -> pa.Table:
        """`state` as rows of `schema`."""
        rows = [_pair_maps(json_object(action)) for action in self.state]
        columns = [
            array_of([row.get(each.name) for row in rows], each.type) for each in self.schema
        ]
        return pa.table(columns, schema=self.schema)

    @lazy
    def tombstones(self) -> pa.Table:
        """Removed files within their retention; schema `REMOVE`."""
        known = self._known_tombstones
        retention_ms = self.snapshot.properties.deleted_file_retention_ms
        return known.filter(is_unexpired(known, now_ms=self.now_ms, retention_ms=retention_ms))

    @property
    def num_expired(self) -> int:
        """Number of expired tombstones that are left out."""
        return len(self._known_tombstones) - len(self.tombstones)

    @lazy
    def _known_tombstones(self) -> pa.Table:
        return self.snapshot.tombstones()

    def removes(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.StructArray]:
        """The tombstones in arrays of `batch_rows` rows; the last may have fewer."""
        for batch in cut_batches([self.tombstones], batch_rows):
            yield _struct([batch[field.name] for field in REMOVE_ROW], REMOVE_ROW)

    def adds(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.StructArray]:
        """The live files in arrays of `batch_rows` rows; the last may have fewer.

        Raises:
            LogCorruptError: A file of the previous checkpoint is gone or malformed.
            LogPathError: A partition value of a file does not fit its column's type.
        """
        for batch in cut_batches(self.snapshot.stream_live(ADD.names), batch_rows):
            yield _struct(
                [self._add_column(field, batch) for field in self.add_type], self.add_type
            )

    def _add_column(self, field: pa.Field, batch: pa.Table) -> pa.Array:
        match field.name:
            case "dataChange":
                # A checkpoint changes no data: the reference writes false for every file.
                return pa.repeat(FALSE_SCALAR, len(batch))
            case "partitionValues_parsed":
                return self._partition_values(batch)
            case "stats_parsed":
                return parsed_stats(batch["stats"], self._stats_shape)
        return batch[field.name]

    def all_rows(self) -> Iterator[pa.Table]:
        """All rows of the checkpoint, as rows of `schema`."""
        yield self.state_rows()
        yield from (self.rows("remove", structs) for structs in self.removes())
        yield from (self.rows("add", structs) for structs in self.adds())

    def rows(self, action: str, structs: pa.StructArray) -> pa.Table:
        """`add` or `remove` actions as rows of `schema`."""
        columns = [
            structs if field.name == action else pa.nulls(len(structs), field.type)
            for field in self.schema
        ]
        return pa.table(columns, schema=self.schema)


def cut_batches(tables: Iterable[pa.Table], num_rows: int) -> Iterator[pa.Table]:
    """Split rows into tables of one chunk with `num_rows` rows, or fewer if rows are large."""
    pending: list[pa.Table] = []
    left_rows, left_bytes = num_rows, _BATCH_BYTES
    for table in tables:
        row_bytes = max(table.nbytes // max(len(table), 1), 1)
        start = 0
        while start < len(table):
            piece = table.slice(start, min(left_rows, max(left_bytes // row_bytes, 1)))
            pending.append(piece)
            start, left_rows = start + len(piece), left_rows - len(piece)
            left_bytes -= len(piece) * row_bytes
            if not left_rows or left_bytes < row_bytes:
                yield pa.concat_tables(pending).combine_chunks()
                pending, left_rows, left_bytes = [], num_rows, _BATCH_BYTES
    if pending:
        yield pa.concat_tables(pending).combine_chunks()


def join_small(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Concatenate small tables: each table becomes a row group, which is expensive."""
    pending: list[pa.Table] = []
    for table in tables:
        if sum(map(len, pending)) + len(table) > _SMALL_ROWS:
            if pending:
                yield pa.concat_tables(pending)
            pending = []
        pending.append(table)
    if pending:
        yield pa.concat_tables(pending)


def live_transactions(snapshot: Snapshot, now_ms: int) -> list[SetTransaction]:
    """Transaction identifiers that have not expired.

    They expire only if the table sets `delta.setTransactionRetentionDuration`. An identifier
    without `lastUpdated` never expires, because its age is unknown.
    """
    retention_ms = snapshot.properties.set_transaction_retention_ms
    return [
        txn
        for txn in snapshot.transactions().values()
        if retention_ms is None
        or txn.last_updated is None
        or txn.last_updated > now_ms - retention_ms
    ]


def _struct(columns: list[pa.Array], data_type: pa.StructType) -> pa.StructArray:
    arrays = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return pa.StructArray.from_arrays(arrays, fields=list(data_type))


def _pair_maps(row: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """The row with each map as a list of pairs, as Arrow requires."""
    ((name, body),) = row.items()
    if name != "metaData":
        return row
    stored = dict(body)
    stored["configuration"] = _pairs(stored["configuration"])
    stored["format"] = {
        **_dict(stored["format"]),
        "options": _pairs(_dict(stored["format"])["options"]),
    }
    return {name: stored}


def _dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _pairs(value: object) -> list[tuple[str, object]]:
    return list(_dict(value).items())
