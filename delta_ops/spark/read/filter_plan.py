"""Filter plans: the files that can hold rows of a query, by the filters that Spark pushes down.

Spark plans a query when it runs, and calls the planner of each scan with the query's filters
(`java/delta_ops/files/FilterTree`). `plan_scan` then chooses files by statistics, scan cache and
inverted indexes. Spark evaluates all filters again for rows, so a filter that has no equal
predicate only leaves more files. Partitions are chosen by Spark too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log import Snapshot, plan_scan
from delta_ops.protocol.arrow_values import numpy_of
from delta_ops.protocol.predicate.nodes import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
)
from delta_ops.protocol.predicate.resolution import resolve
from delta_ops.protocol.schema import ColumnPath, StructType
from delta_ops.protocol.schema.char_types import char_lengths
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.file_columns import columns_by_stored_path
from delta_ops.spark.file_uris import file_locations
from delta_ops.spark.session.session import session_time_zone

logger = logging.getLogger(__name__)

KeepFiles = Callable[[str, str, pa.StringArray], bytes | None]
"""Selects files of a scan by filters, see `FilterPlanner.keep`."""
_EPOCH = datetime(1970, 1, 1)
_PLANS = 8
"""Plans that a planner keeps: the scans of a query have the same filters."""


class FilterPlanner:
    """Plans the scans of one snapshot."""

    def __init__(self, spark: SparkSession, snapshot: Snapshot) -> None:
        """Make a planner of a snapshot's files for queries of a session."""
        self._snapshot, self._time_zone = snapshot, session_time_zone(spark)
        self._location_of = file_locations(spark, snapshot)
        self._plan = lru_cache(maxsize=_PLANS)(self._plan_paths)

    def keep(self, filters: str, prefix: str, names: pa.StringArray) -> bytes | None:
        """Select files of a scan.

        Args:
            filters: JSON of `FilterTree`.
            prefix: Common prefix of the files' locations.
            names: The rest of each location.

        Returns:
            The positions of the files to read, as the bytes of a Java `BitSet`; None for all files.
        """
        paths = self._plan(filters)
        if paths is None:
            return None
        kept = paths if prefix else pa.array(map(self._location_of, paths.to_pylist()), pa.string())
        return np.packbits(numpy_of(pc.is_in(names, kept)), bitorder="little").tobytes()

    def _plan_paths(self, filters: str) -> pa.StringArray | None:
        """The canonical paths of the files to read; None for all files."""
        predicate = predicate_of_filters(filters, self._snapshot.definition)
        if predicate == Always(True):
            return None
        try:
            plan = plan_scan(
                self._snapshot,
                predicate,
                columns=["path", "size", "modification_time"],
                partition_time_zone=self._time_zone,
            )
            return plan.files(["path"])["path"].combine_chunks()
        except (DeltaOpsError, OSError) as error:
            # The log may be cleaned up since the snapshot was loaded, which has all files.
            logger.warning(
                "%s: a query opens all files of version %s, because they cannot be chosen by its "
                "filters: %s",
                self._snapshot.uri,
                self._snapshot.version,
                error,
            )
            return None


def predicate_of_filters(filters: str, definition: TableDefinition) -> Predicate:
    """Convert filters of Spark to a predicate that is true for every row that they select.

    Args:
        filters: JSON of `FilterTree`, with columns as files name them.
        definition: The table.
    """
    columns = {
        stored: path
        for stored, path in columns_by_stored_path(definition).items()
        if not _is_padded(path, definition.schema)
    }
    return _predicate(json.loads(filters), columns, definition.schema)


def _is_padded(path: ColumnPath, schema: StructType) -> bool:
    """Whether comparisons pad the column; Spark's filters compare it as it is stored."""
    return any(char_lengths(each) for each in schema.fields if each.name == path[0])


def _predicate(
    node: list[Any], columns: Mapping[ColumnPath, ColumnPath], schema: StructType
) -> Predicate:
    match node:
        case ["and", operands]:
            parts = [_predicate(each, columns, schema) for each in operands]
            known = tuple(each for each in parts if each != Always(True))
            if len(known) == 1:
                return known[0]
            return And(known) if known else Always(True)
        case ["or", operands]:
            either = tuple(_predicate(each, columns, schema) for each in operands)
            return Always(True) if Always(True) in either else Or(either)
        case [operator, names, *literals]:
            path = columns.get(tuple(names))
            if path is None:
                return Always(True)
            try:
                return resolve(_leaf(operator, path, *literals), schema)
            except (InvalidRequestError, OverflowError):
                return Always(True)  # a collation, or a time that Python cannot represent
    raise AssertionError(f"FilterTree has no node {node}")


def _leaf(operator: Any, path: ColumnPath, type_name: str = "", literal: Any = None) -> Predicate:
    match operator:
        case "null":
            return IsNull(path)
        case "not null":
            return Not(IsNull(path))
        case "in":
            values = tuple(_value(type_name, each) for each in literal)
            return In(path, values) if values else Always(False)
    return Comparison(path, operator, _value(type_name, literal))


def _value(type_name: str, text: str) -> object:
    """Read a literal of a Spark type.

    Raises:
        OverflowError: Python has no such date or time.
    """
    match type_name:
        case "string":
            return text
        case "boolean":
            return text == "true"
        case "float" | "double":
            return float(text)
        case "date":
            return _EPOCH.date() + timedelta(days=int(text))
        case "timestamp":
            return _EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=int(text))
        case "timestamp_ntz":
            return _EPOCH + timedelta(microseconds=int(text))
    return Decimal(text) if type_name.startswith("decimal") else int(text)
