"""Input reader: reads the rows of an input from a version of its table.

An input that is annotated with `dict[str, X]` is a dictionary of partition keys and values of type
X, each with the rows of one partition. A partition without rows has an empty value; with
`dict[str, Optional[X]]`, a partition without files is left out. `Optional[dict[str, X]]` is None if
there is no table. Any other input has the rows of all its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin

import dagster as dg

from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.column_lineage import remember_input
from delta_ops.orchestration.io_manager.input_settings import (
    InputSettings,
    require_partitions,
    validate_all_is_read,
)
from delta_ops.orchestration.io_manager.input_versions import (
    InputVersion,
    ReadVersion,
    input_version,
    read_metadata,
)
from delta_ops.orchestration.io_manager.output_partitions import require_expression
from delta_ops.orchestration.io_manager.output_settings import PartitionExpr
from delta_ops.orchestration.io_manager.partitions import partition_predicate
from delta_ops.orchestration.io_manager.type_handlers import (
    TableRead,
    drop_none,
    holds_rows,
    takes_none,
    value_of_table,
)
from delta_ops.protocol.predicate import Predicate, all_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReader:
    """Reads an input of a step."""

    context: dg.InputContext
    settings: InputSettings
    partition_expr: PartitionExpr | None
    """The `partition_expr` of the upstream."""
    spark_session: Callable[[], Any]
    """Returns the Spark session; raises an error without one."""
    default_type: type | None
    """The class of inputs without an annotation."""
    owns_tables: bool = False
    """Whether each partition of the upstream has a table of its own."""

    def read(self, log: DeltaLog) -> Any:
        """Read the table at the version that the settings choose, and report that version.

        Returns:
            None if the table does not exist and the annotation allows None.

        Raises:
            TableNotFoundError: The table does not exist.
        """
        wanted = self.wanted_type()
        each = partition_type(wanted)
        if not holds_rows(wanted if each is None else each):
            validate_all_is_read(self.context, self.settings)
        try:
            version = input_version(self.context, log, self.settings.read, self._all_rows)
        except TableNotFoundError as error:
            if takes_none(wanted):
                return None
            raise TableNotFoundError(error.table, self._cure_for_no_table(wanted)) from error
        if self.context.has_asset_key:
            compat.record_read(self.context, read_metadata(self.context.asset_key, version))
        return self.value(log, version)

    def reading(self, version: ReadVersion) -> InputReader:
        """Copy this reader, to read another version, such as "latest"."""
        return replace(self, settings=replace(self.settings, read=version))

    def read_tables(self, logs_by_key: Mapping[str, DeltaLog], *, may_miss: bool) -> Any:
        """Read partitions that have a table each.

        Args:
            logs_by_key: The table of each partition key.
            may_miss: Whether partitions without a table are left out.

        Raises:
            InvalidRequestError: There are several partitions, and the input is no dictionary.
            TableNotFoundError: The table of a partition does not exist.
        """
        wanted = self.wanted_type()
        each = partition_type(wanted)
        if each is None:
            if len(logs_by_key) != 1:
                raise InvalidRequestError(
                    f"the input {self.context.name} has {len(logs_by_key)} partitions, which are "
                    f"tables of their own; annotate it with dict[str, {_type_name(wanted)}], or "
                    "give the upstream a column for its partitions"
                )
            return self.read(*logs_by_key.values())
        may_miss = may_miss or takes_none(each)
        return {
            key: self.value_of_partition(each, log)
            for key, log in logs_by_key.items()
            if not may_miss or log.exists()
        }

    def value_of_partition(self, wanted: Any, log: DeltaLog) -> Any:
        """The rows of a partition that has a table of its own."""
        version = input_version(self.context, log, self.settings.read, self._all_rows)
        return self._value(wanted, log, version.snapshot, self._all_rows(version.snapshot))

    def value(self, log: DeltaLog, version: InputVersion) -> Any:
        """The rows of a version, as the annotation requires."""
        wanted, snapshot = self.wanted_type(), version.snapshot
        each = partition_type(wanted)
        if each is None:
            return self._value(wanted, log, snapshot, self._all_rows(snapshot))
        rows_by_key = {key: self._rows(snapshot, [key]) for key in self._require_keys()}
        if takes_none(each):
            rows_by_key = {key: r for key, r in rows_by_key.items() if has_files(snapshot, r)}
        return {
            key: self._value(each, log, snapshot, predicate)
            for key, predicate in rows_by_key.items()
        }

    def wanted_type(self) -> Any:
        """The annotation of the input, or else the default type."""
        wanted = compat.annotation(self.context)
        return self.default_type or Any if wanted is Any else wanted

    def _value(
        self, wanted: Any, log: DeltaLog, snapshot: Snapshot, predicate: Predicate | None
    ) -> Any:
        read = TableRead(
            log=log,
            snapshot=snapshot,
            columns=self.settings.columns,
            predicate=predicate,
            spark_session=self.spark_session,
        )
        value = value_of_table(wanted, read)
        remember_input(self.context, value)
        return value

    def rows_of(self, snapshot: Snapshot) -> Predicate | None:
        """The rows that the input reads of a version; None for all rows."""
        return self._all_rows(snapshot)

    def _all_rows(self, snapshot: Snapshot) -> Predicate | None:
        return self._rows(snapshot, None)

    def _rows(self, snapshot: Snapshot, keys: Sequence[str] | None) -> Predicate | None:
        """The rows of some partitions that match the input's predicate; None: all rows.

        Args:
            keys: Partition keys; None for all partitions of the input.
        """
        predicates = [self._rows_of_partitions(snapshot, keys), self.settings.predicate]
        parts = [each for each in predicates if each is not None]
        return all_of(parts) if parts else None

    def _rows_of_partitions(
        self, snapshot: Snapshot, keys: Sequence[str] | None
    ) -> Predicate | None:
        expression, context = self.settings.partition_expr, self.context
        if expression is not None:
            partitions, own = require_partitions(context)
            found = own if keys is None else keys
            return partition_predicate(expression, snapshot.schema, partitions, found)
        if not context.has_asset_partitions or context.upstream_output is None:
            return None
        if self.owns_tables:
            return None
        return partition_predicate(
            require_expression(context.asset_key, self.partition_expr),
            snapshot.schema,
            context.asset_partitions_def,
            context.asset_partition_keys if keys is None else keys,
        )

    def _require_keys(self) -> Sequence[str]:
        """The partition keys of an input that is a dictionary.

        Raises:
            InvalidRequestError: The upstream has no partitions.
        """
        if self.settings.partition_expr is not None:
            return require_partitions(self.context)[1]
        if self.context.has_asset_partitions:
            return self.context.asset_partition_keys
        raise InvalidRequestError(
            f"the input {self.context.name} is annotated with {self.wanted_type()}, a dictionary "
            "of partitions, and its upstream has no partitions; annotate it with "
            f"{_type_name(partition_type(self.wanted_type()))}"
        )

    def _cure_for_no_table(self, wanted: Any) -> str:
        if not self.context.has_asset_key:
            return ""
        key = self.context.asset_key.to_user_string()
        return (
            f"Materialize {key} first, or annotate the input with Optional[{_type_name(wanted)}] "
            "to take None, as the first run of an asset that reads itself must"
        )


def partition_type(annotation: Any) -> Any:
    """The type of each partition in an annotation `dict[str, X]`; None for another annotation."""
    wanted = drop_none(annotation)
    if get_origin(wanted) not in (dict, Mapping):
        return None
    return get_args(wanted)[1]


def has_files(snapshot: Snapshot, predicate: Predicate | None) -> bool:
    """Whether a file may hold rows that match the predicate."""
    return next(iter(snapshot.add_files(predicate)), None) is not None


def _type_name(annotation: Any) -> str:
    each = partition_type(annotation)
    if each is not None:
        return f"dict[str, {_type_name(each)}]"
    name: str = getattr(annotation, "__name__", str(annotation))
    return name
