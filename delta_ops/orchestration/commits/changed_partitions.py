"""Changed partitions: the partitions of an asset whose rows a commit added or removed.

The partition values of a file decide, or statistics that prove that all its rows belong to one
partition. For other files the columns of `partition_expr` are read, if these files are small
enough. A file that was rewritten for some of its rows counts with all its rows, because the log
does not record which rows changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.read.scan import read_files
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.commits.partition_keys import Dimension, dimension_of, keys_of_values
from delta_ops.orchestration.io_manager.delta_io_manager import DeltaIOManager
from delta_ops.orchestration.io_manager.output_settings import PartitionExpr, partition_expr_of
from delta_ops.orchestration.io_manager.partition_expression import parse_expression
from delta_ops.orchestration.tables import TableRef
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.schema import DataType, StructType, find_field
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.stats.file_bounds import lower_bound, null_count, upper_bound
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.protocol.values.partition_values import parse

MAX_KEYS = 1_000
"""A commit that changed more partitions is reported as a whole."""
_MAX_READ_BYTES = 64 << 20
"""Maximum total size of the files whose columns are read for one commit."""
_MAX_SHOWN, _MAX_TEXT = 10, 100
Path = tuple[str, ...]
Span = tuple[Any, Any]
"""The least and the greatest value of a column in a file; (None, None) if all are null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The partitions of an asset, and their partition expression."""

    partitions: dg.PartitionsDefinition[Any]
    expression: PartitionExpr

    def dimensions(self, instance: dg.DagsterInstance) -> dict[str, Dimension]:
        """The dimensions by name; the name of a single dimension is "".

        Raises:
            InvalidRequestError: The expression does not name exactly these dimensions.
        """
        if not isinstance(self.partitions, dg.MultiPartitionsDefinition):
            if not isinstance(self.expression, str):
                raise InvalidRequestError("partition_expr is a mapping; give one expression")
            return {"": dimension_of(self.partitions, self.expression, instance)}
        each = {one.name: one.partitions_def for one in self.partitions.partitions_defs}
        if isinstance(self.expression, str) or set(self.expression) != set(each):
            raise InvalidRequestError(f"partition_expr must be a mapping of {', '.join(each)}")
        return {n: dimension_of(each[n], self.expression[n], instance) for n in each}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPartitions:
    """The partitions that have rows in some files."""

    keys: tuple[str, ...] = ()
    """Partition keys, ascending."""
    upcoming: tuple[str, ...] = ()
    """Keys of time windows that Dagster lists as partitions after they have ended."""
    outside: tuple[str, ...] = ()
    """Examples of values that belong to no partition."""
    unknown: str | None = None
    """The reason why there may be more partitions; None if the keys are complete."""


def layout_of(table: TableRef, repository: dg.RepositoryDefinition | None) -> Layout | None:
    """The layout by the table reference, or else by the asset's definition; None if unknown."""
    partitions, expression = table.partitions_def, table.partition_expr
    key = table.asset_key
    if repository is not None and key in repository.assets_defs_by_key:
        assets = repository.assets_defs_by_key[key]
        spec = assets.get_asset_spec(key)
        partitions = partitions or spec.partitions_def
        expression = expression or _expression(assets, spec)
    if partitions is None or expression is None:
        return None
    return Layout(partitions=partitions, expression=expression)


def _expression(assets: dg.AssetsDefinition, spec: dg.AssetSpec) -> PartitionExpr | None:
    """The partition expression by the metadata of an asset, or else of its IO manager."""
    manager = compat.io_manager_of(assets, spec.key)
    if not isinstance(manager, DeltaIOManager):
        return partition_expr_of(spec.metadata, {}, spec.key)
    defaults = manager.default_metadata()
    return partition_expr_of(spec.metadata, defaults, spec.key, manager.read_metadata)


def find_changed_partitions(
    files: Iterable[AddFile], snapshot: Snapshot, layout: Layout, instance: dg.DagsterInstance
) -> ChangedPartitions:
    """Find the partitions that have rows in these files.

    Args:
        files: Live or removed files of the table.
        snapshot: Any version of the table. It provides the columns.
    """
    try:
        return _Search(snapshot, layout.dimensions(instance)).find_partitions(list(files))
    except DeltaOpsError as error:
        return ChangedPartitions(unknown=str(error))


class KeyState(Enum):
    """Whether a key names a partition."""

    LISTED = "Dagster lists it"
    UPCOMING = "Dagster will list it after its window has ended"
    NONE = "the layout has no such partition"


def key_states(
    keys: Collection[str], layout: Layout | None, instance: dg.DagsterInstance
) -> dict[str, KeyState]:
    """The states of keys that were found with this layout or an earlier layout.

    Raises:
        InvalidRequestError: As for `Layout.dimensions`, if there is any key.
    """
    if layout is None or not keys:
        return dict.fromkeys(keys, KeyState.NONE)
    dimensions = layout.dimensions(instance)
    return {key: _key_state(key, layout, dimensions) for key in keys}


def _key_state(key: str, layout: Layout, dimensions: Mapping[str, Dimension]) -> KeyState:
    if "" not in dimensions and key.count("|") != len(dimensions) - 1:
        return KeyState.NONE
    parts = _key_parts(key, layout).items()
    if all(dimensions[name].has(part) for name, part in parts):
        return KeyState.LISTED
    is_upcoming = all(dimensions[n].has(part) or dimensions[n].will_have(part) for n, part in parts)
    return KeyState.UPCOMING if is_upcoming else KeyState.NONE


def key_of_text(key: str, layout: Layout) -> str:
    """The partition key for an event: a `MultiPartitionKey` if the layout has dimensions."""
    parts = _key_parts(key, layout)
    return key if set(parts) == {""} else dg.MultiPartitionKey(parts)


def _key_parts(key: str, layout: Layout) -> Mapping[str, str]:
    if not isinstance(layout.partitions, dg.MultiPartitionsDefinition):
        return {"": key}
    return layout.partitions.get_partition_key_from_str(key).keys_by_dimension


class _Search:
    """A search for the partitions of files."""

    def __init__(self, snapshot: Snapshot, dimensions: Mapping[str, Dimension]) -> None:
        self._snapshot, self._dimensions = snapshot, dimensions
        schema = snapshot.schema
        self._paths = {
            name: parse_expression(each.expression, schema).path
            for name, each in dimensions.items()
        }
        self._types = {name: _leaf_type(schema, path) for name, path in self._paths.items()}

    def find_partitions(self, files: Sequence[AddFile]) -> ChangedPartitions:
        unread, described, spans = list[AddFile](), list[AddFile](), list[list[Span]]()
        for file in files:
            of_file = [self._span(file, name) for name in self._dimensions]
            known = [span for span in of_file if span is not None]
            if len(known) < len(of_file):
                unread.append(file)
            else:
                described.append(file)
                spans.append(known)
        found, mixed = self._combinations_in_spans(spans)
        unread += [described[n] for n in mixed]
        unknown = None
        size = sum(file.size for file in unread)
        if size > _MAX_READ_BYTES:
            unknown = f"{len(unread)} files of {size:,} bytes would have to be read"
        elif unread:
            try:
                found |= self._combinations_in_rows(unread)
            except DeltaOpsError as error:  # a removed file may have been vacuumed
                unknown = str(error)
        return self._sort(found, unknown)

    def _span(self, file: AddFile, name: str) -> Span | None:
        """The range of a dimension's column in a file; None if the log does not record it."""
        path, data_type, definition = (
            self._paths[name],
            self._types[name],
            self._snapshot.definition,
        )
        if len(path) == 1 and path[0] in definition.partition_columns:
            stored = definition.partition_names[path[0]]
            if stored not in file.partition_values:
                return None
            value = parse(file.partition_values[stored], data_type)
            return value, value
        stats = None if definition.is_mapped else parse_stats(file.stats)
        if stats is None:
            return None
        nulls = null_count(stats, path)
        if nulls is not None and nulls == stats.num_records:
            return None, None
        low, high = lower_bound(stats, path, data_type), upper_bound(stats, path, data_type)
        return None if nulls != 0 or low is None or high is None else (low, high)

    def _combinations_in_spans(self, spans: Sequence[Sequence[Span]]) -> tuple[set[Any], list[int]]:
        """Combinations of keys or outside values, and indexes of files that may have several.

        Args:
            spans: One span of each dimension for each file.
        """
        labels = []
        for number, name in enumerate(self._dimensions):
            ends = [of_file[number][end] for end in (0, 1) for of_file in spans]
            of_ends = self._labels(name, pa.array(ends, arrow_type_from_type(self._types[name])))
            labels.append(zip(of_ends[: len(spans)], of_ends[len(spans) :], strict=True))
        found, mixed = set(), []
        for n, of_file in enumerate(zip(*labels, strict=True)):
            if all(low == high for low, high in of_file):
                found.add(tuple(low for low, _ in of_file))
            else:
                mixed.append(n)
        return found, mixed

    def _combinations_in_rows(self, files: Sequence[AddFile]) -> set[Any]:
        """Combinations of keys or outside values in the rows of files."""
        columns = list(dict.fromkeys(path[0] for path in self._paths.values()))
        distinct: set[tuple[Any, ...]] = set()
        for rows in read_files(self._snapshot, files, columns):
            leaves = [self._leaf(rows, name) for name in self._dimensions]
            table = pa.table(leaves, names=[str(n) for n in range(len(leaves))])
            unique = table.group_by(table.column_names).aggregate([])
            distinct.update(zip(*(column.to_pylist() for column in unique.columns), strict=True))
        values = list(zip(*distinct, strict=True)) or [()] * len(self._dimensions)
        labels = [
            self._labels(name, pa.array(each, arrow_type_from_type(self._types[name])))
            for name, each in zip(self._dimensions, values, strict=True)
        ]
        return set(zip(*labels, strict=True))

    def _leaf(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        path = self._paths[name]
        leaf = rows[path[0]]
        for each in path[1:]:
            leaf = pc.struct_field(leaf, each)
        is_window = isinstance(self._dimensions[name].partitions, dg.TimeWindowPartitionsDefinition)
        if is_window and pa.types.is_timestamp(leaf.type):
            leaf = pc.floor_temporal(leaf, unit="minute")  # no window begins within one
        return leaf

    def _labels(self, name: str, values: pa.Array) -> list[tuple[str | None, Any]]:
        """For each value its key, or the value itself if it has no key."""
        keys = keys_of_values(values, self._dimensions[name], self._snapshot.schema)
        return [
            (key, None if key is not None else value)
            for key, value in zip(keys, values.to_pylist(), strict=True)
        ]

    def _sort(self, found: Iterable[tuple[Any, ...]], unknown: str | None) -> ChangedPartitions:
        keys, upcoming, outside = set[str](), set[str](), set[str]()
        for combination in found:
            parts = dict(zip(self._dimensions, combination, strict=True))
            known = {n: k for n, (k, _) in parts.items() if k is not None}
            if len(known) < len(parts):
                outside.add(_text({n: v if k is None else k for n, (k, v) in parts.items()}))
            elif all(self._dimensions[n].has(k) for n, k in known.items()):
                keys.add(_join(known))
            elif all(
                self._dimensions[n].has(k) or self._dimensions[n].will_have(k)
                for n, k in known.items()
            ):
                upcoming.add(_join(known))
            else:
                outside.add(_text(known))
        changed = ChangedPartitions(
            keys=tuple(sorted(keys)),
            upcoming=tuple(sorted(upcoming)),
            outside=tuple(sorted(outside)[:_MAX_SHOWN]),
            unknown=unknown,
        )
        if len(keys) + len(upcoming) <= MAX_KEYS:
            return changed
        few = f"they are {len(keys) + len(upcoming):,}, more than {MAX_KEYS:,}"
        return replace(changed, keys=(), upcoming=(), unknown=few)


def _leaf_type(schema: StructType, path: Path) -> DataType:
    data_type: DataType = schema
    for name in path:
        assert isinstance(data_type, StructType)  # checked by `parse_expression`
        data_type = find_field(data_type, name).data_type
    return data_type


def _join(parts: Mapping[str, str]) -> str:
    return parts[""] if set(parts) == {""} else str(dg.MultiPartitionKey(parts))


def _text(parts: Mapping[str, Any]) -> str:
    texts = ("null" if value is None else str(value)[:_MAX_TEXT] for value in parts.values())
    return " | ".join(texts)
