"""Layout trial: estimate, from a sample, the file statistics of a table sorted in some order.

The rows of the sample are sorted and split like the rows of the table, into row groups of a Parquet
file in memory. Its footer provides the statistics, like the footer of a data file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.arrow.read.count import num_live_rows
from delta_ops.arrow.read.scan import read_files
from delta_ops.arrow.rewrite.axis_ranks import axis_of_sample, field_of
from delta_ops.arrow.rewrite.curve import Ranks, axis_bits, places
from delta_ops.log import Snapshot
from delta_ops.planning.file_values import parse_partition_values
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of
from delta_ops.protocol.predicate import Predicate, might_match
from delta_ops.protocol.schema import DOUBLE, FLOAT, ColumnPath, StructType, leaves
from delta_ops.protocol.stats.file_domains import PartitionColumn
from delta_ops.protocol.stats.from_footer import FileStatsMaker
from delta_ops.protocol.stats.indexed_columns import StatsSettings
from delta_ops.transaction.rewrite_group import CurveOrder

_SAMPLE_ROWS = 1 << 17
_SAMPLED_FILES = 64
_MOST_PARTITIONS = 64
_MOST_FILES = 512
"""More files would take longer and not change which order is best."""
_LEAST_FILE_ROWS = 32
"""Fewer sampled rows would make a file's value range look narrower than it will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledPartition:
    """Sampled rows of a partition, or of the whole table if it has no partitions."""

    values: Mapping[str, Any]
    """Partition values by column name."""
    rows: pa.RecordBatch
    num_files: int
    """The number of files in the simulated layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFiles:
    """The files of a simulated layout."""

    partitions: Mapping[str, PartitionColumn]
    stats: pa.Array
    """Statistics in the format of `add.stats`, under the names that users see."""

    def __len__(self) -> int:
        return len(self.stats)

    def num_matching(self, predicate: Predicate) -> int:
        """Return the number of files that a read would open.

        Args:
            predicate: A predicate from `resolve`.
        """
        return pc.sum(might_match(predicate, self.partitions, self.stats)).as_py() or 0


def sample_partitions(
    snapshot: Snapshot,
    files: Sequence[AddFile],
    paths: Sequence[ColumnPath],
    target_size_bytes: int,
) -> list[SampledPartition]:
    """Sample rows from some partitions and files, spread evenly over both.

    Args:
        files: Live files.
        paths: The wanted columns or struct fields.
        target_size_bytes: Approximate file size of the layout.

    Raises:
        DataFileError: A file is missing or unreadable.
    """
    by_values: dict[tuple[str | None, ...], list[AddFile]] = {}
    for add in files:
        by_values.setdefault(tuple(add.partition_values.values()), []).append(add)
    partitions = list(by_values.values())
    partitions = partitions[:: -(-len(partitions) // _MOST_PARTITIONS) or 1]
    sizes = [sum(add.size for add in each) for each in partitions]
    wanted = [max(1.0, size / target_size_bytes) for size in sizes]
    scale = min(1.0, _MOST_FILES / max(sum(wanted), 1))
    chosen = [each[:: -(-len(each) * len(partitions) // _SAMPLED_FILES)] for each in partitions]
    step = -(-num_live_rows(snapshot, list(chain.from_iterable(chosen))) // _SAMPLE_ROWS)
    return [
        SampledPartition(
            values=_values_of(snapshot, each[0]),
            rows=rows,
            num_files=max(1, min(round(number * scale), len(rows) // _LEAST_FILE_ROWS)),
        )
        for each, number in zip(chosen, wanted, strict=True)
        if len(rows := _sample(snapshot, each, paths, max(1, step)))
    ]


def try_order(
    samples: Sequence[SampledPartition], schema: StructType, order: CurveOrder
) -> TrialFiles:
    """Simulate the files of a layout in this order.

    Args:
        samples: Samples with the columns of the order.
        schema: The columns of the samples, under the names that users see.
    """
    stats: list[str] = []
    codes: list[int] = []
    for code, sample in enumerate(samples):
        of_files = list(_file_stats(sample, schema, order))
        stats += of_files
        codes += [code] * len(of_files)
    names = samples[0].values if samples else ()
    partitions = {
        name: PartitionColumn(codes=array_of(codes), values=[each.values[name] for each in samples])
        for name in names
    }
    return TrialFiles(partitions=partitions, stats=array_of(stats, pa.string()))


def _values_of(snapshot: Snapshot, add: AddFile) -> Mapping[str, Any]:
    definition = snapshot.definition
    return parse_partition_values(
        definition.partition_fields,
        add.partition_values,
        is_mapped=definition.is_mapped,
        time_zone="UTC",
        table=snapshot.uri,
        path=add.path,
    )


def _sample(
    snapshot: Snapshot, files: Sequence[AddFile], paths: Sequence[ColumnPath], step: int
) -> pa.RecordBatch:
    names = list(dict.fromkeys(path[0] for path in paths))
    first, taken = 0, []
    for batch in read_files(snapshot, files, names):
        taken.append(batch.take(array_of(np.arange(-first % step, len(batch), step))))
        first += len(batch)
    return pa.concat_batches(taken) if taken else pa.record_batch({})


def _file_stats(sample: SampledPartition, schema: StructType, order: CurveOrder) -> Iterator[str]:
    """Yield the statistics of each simulated file of a partition."""
    rows = sample.rows.take(array_of(np.argsort(places(_ranks(sample, order), order.curve))))
    sink = io.BytesIO()
    # Write a table: a writer of batches would make a row group of each batch.
    pq.write_table(
        pa.table(rows),
        sink,
        row_group_size=-(-len(rows) // sample.num_files),
        compression="none",
        use_dictionary=False,
    )
    metadata = pq.read_metadata(sink)
    maker = FileStatsMaker(metadata, schema, (), StatsSettings(num_indexed_columns=-1))
    without_nan = _columns_without_nan(rows, schema)
    for number in range(metadata.num_row_groups):
        yield maker.stats(metadata, without_nan, [number])


def _columns_without_nan(rows: pa.RecordBatch, schema: StructType) -> list[ColumnPath]:
    floats = [path for path, data_type in leaves(schema) if data_type in (FLOAT, DOUBLE)]
    return [
        path for path in floats if not pc.any(pc.is_nan(field_of(rows, path)), min_count=0).as_py()
    ]


def _ranks(sample: SampledPartition, order: CurveOrder) -> list[Ranks]:
    bits = axis_bits(len(order.columns))
    columns = [field_of(sample.rows, path) for path in order.columns]
    return [axis_of_sample(column, bits).rank(column) for column in columns]
