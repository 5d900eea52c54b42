"""Output writer: commits the output of an asset, in one commit or in one for each source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import dagster as dg

from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.frames import settle_index
from delta_ops.orchestration.io_manager.output_merge import OutputMerge, merge_rows
from delta_ops.orchestration.io_manager.output_partitions import rows_of_partitions
from delta_ops.orchestration.io_manager.output_report import (
    WrittenOutput,
    known_version,
    newest_version_with,
)
from delta_ops.orchestration.io_manager.output_settings import OutputSettings
from delta_ops.orchestration.io_manager.output_txns import (
    forced_source_txn,
    source_txn,
    step_output,
    user_metadata,
    write_txns,
)
from delta_ops.orchestration.io_manager.partition_expression import partition_columns
from delta_ops.orchestration.io_manager.type_handlers import (
    has_handler,
    is_spark_data,
    rows_of,
    schema_of_rows,
)
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.properties.table_properties import ignored_properties
from delta_ops.protocol.schema import StructType
from delta_ops.transaction import CommitResult, Hook, Transaction, Txn, begin
from delta_ops.transaction.column_rules import odd_names
from delta_ops.transaction.idempotency import is_done, is_long
from delta_ops.transaction.requests import Mode as WriteMode

_MAPPING_MODE = "delta.columnMapping.mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePart:
    """The rows of one source up to a position, which are committed only once over all runs.

    Examples:
        >>> @dg.asset(metadata={"delta/mode": "append", "delta/idempotency": "source"})
        ... def visits() -> list[SourcePart]:
        ...     rows = pa.table({"page": ["/"]})
        ...     return [SourcePart(data=rows, source="visits.csv", position=1)]
        >>> resources = {"io_manager": DeltaIOManager(root="lake")}
        >>> [dg.materialize([visits], resources=resources).success for _ in range(2)]
        [True, True]
        >>> da.count_rows("lake/visits")  # the second run found the part in the table
        1
    """

    data: Any
    """Rows, of any type that an asset may return."""
    source: str
    """Name of the source within this asset, for example a file name."""
    position: int
    """Position of the source, for example a file's generation. It must only grow, from run to run
    and from part to part of a list: rows of any other position count as written."""
    replaces: Predicate | None = None
    """Matches the rows of earlier positions to replace; None: the part only adds rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputWriter:
    """Writes an output of a step to its table."""

    context: dg.OutputContext
    settings: OutputSettings
    log: DeltaLog
    on_event: OnEvent
    hooks: Sequence[Hook]
    """Run after each commit."""
    warnings: set[str] = field(default_factory=set)
    """Warnings that were already logged, so that each is logged once for all parts."""

    @property
    def _name(self) -> str:
        return compat.output_key(self.context).to_user_string()

    def create_table(self, value: Any) -> None:
        """Create the table with the columns and settings of an output, and without its rows."""
        is_parts = _is_parts(value)
        if is_parts and not value:
            return
        rows = self._rows_of(value[0].data if is_parts else value)
        transaction = begin(self.log, on_event=self.on_event)
        rows = self._settle_index(rows, transaction)
        nothing = rows.limit(0) if is_spark_data(rows) else rows.schema.empty_table()
        writer = replace(self, settings=replace(self.settings, overwrite_schema=False))
        writer._write(transaction, nothing, "ignore", None, ())

    def write(self, value: Any) -> WrittenOutput:
        """Commit the value of an asset: rows, source parts, or the asset's own table.

        Raises:
            InvalidRequestError: The value is a source part without a list; or as for `write_parts`
                and `write_rows`.
        """
        if isinstance(value, SourcePart):
            raise InvalidRequestError(
                f"asset {self._name} returned a SourcePart; return a list of SourceParts. Nothing "
                "was written"
            )
        if _is_parts(value):
            parts = self._drop_ignored(self.write_parts(value))
            return WrittenOutput(parts, is_replaced=False, mode=self.settings.mode)
        is_replaced = self.settings.mode == "overwrite"
        if isinstance(value, Snapshot | DeltaLog) and value.uri == self.log.uri:
            return WrittenOutput([], is_replaced)  # the asset has written the table itself
        rows = self._rows_of(value)
        results = self._drop_ignored([self.write_rows(rows)])
        merge = self.settings.merge
        has_table_columns = merge is None or merge.takes_columns_whole
        found = rows if has_table_columns else None
        return WrittenOutput(results, is_replaced, found, self.settings.mode)

    def _drop_ignored(self, results: list[CommitResult]) -> list[CommitResult]:
        """The results; empty if the mode is "ignore" and the table existed."""
        if not any(result.ignored for result in results):
            return results
        self.context.log.info(f"{self.log.uri}: there is a table, and delta/mode is 'ignore'")
        return []

    def write_rows(self, data: Any) -> CommitResult:
        """Commit rows that an asset returned.

        Raises:
            InvalidRequestError: The asset declares idempotency "source", and returned no sources.
        """
        context, settings, log = self.context, self.settings, self.log
        if settings.idempotency == "source":
            raise InvalidRequestError(
                f"asset {self._name} declares idempotency 'source'; return "
                "a list of SourcePart, each with its source and position"
            )
        output, repeats = step_output(context), settings.is_repeatable
        txns = write_txns(output, lambda: log, settings.idempotency, is_repeatable=repeats)
        transaction = begin(log, on_event=self.on_event)
        data = self._settle_index(data, transaction)
        mode = settings.mode
        if mode == "merge":
            return self._merge(transaction, data, txns)
        replaced = None
        if mode == "overwrite":
            replaced = self._rows_of_partitions(transaction, data)
        return self._write(transaction, data, mode, replaced, txns)

    def write_parts(self, parts: Sequence[object]) -> list[CommitResult]:
        """Commit each part that was not committed before.

        Returns:
            A result for each part. The results of earlier committed parts come last.

        Raises:
            InvalidRequestError: The mode is "error" or "ignore", or as for `_validated_parts`.
        """
        context, settings, log = self.context, self.settings, self.log
        if settings.mode in ("error", "ignore"):
            raise InvalidRequestError(
                f"asset {self._name} has the delta/mode {settings.mode!r}, "
                "which writes only a new table, but returned a list of SourcePart, which are added "
                "one by one; leave the mode out. Nothing was written"
            )
        if not parts:
            self._validate_no_parts_are_meant()
        results: list[CommitResult] = []
        found: list[Txn] = []
        known: Snapshot | None = None
        for part in _validated_parts(parts, self._name):
            txn = source_txn(compat.output_key(context), part.source, part.position)
            forced = forced_source_txn(context, part.source, part.position)
            transaction = begin(log, on_event=self.on_event, snapshot=known)
            known = transaction.snapshot
            stored = known.transactions() if known is not None else {}
            was_there = is_done(txn, stored, table=log.uri)
            if is_done(forced or txn, stored, table=log.uri):
                found.append(forced or txn)
                continue
            txns = [each for each in (None if was_there else txn, forced) if each is not None]
            result = self._write_part(transaction, part, txns)
            results.append(result)
            known = result.snapshot or known
        if found and known is not None:
            version = None
            if not results:
                version = newest_version_with(log, found, known_version(context, known), known)
            done = CommitResult(version=version, already_committed=True, attempts=0)
            results += [done] * len(found)
        return results

    def _validate_no_parts_are_meant(self) -> None:
        """Reject an empty list if the asset does not declare that it returns parts."""
        is_annotated = get_args(compat.annotation(self.context)) == (SourcePart,)
        if not is_annotated and self.settings.idempotency != "source":
            raise InvalidRequestError(
                f"asset {self._name} returned an empty list, which has no columns, so nothing was "
                "written; return a DataFrame or Arrow data, which may be without rows. If the "
                'asset returns SourceParts, give it metadata={"delta/idempotency": "source"} or '
                "the annotation list[SourcePart]"
            )
        self.context.log.info(f"asset {self._name} returned no SourcePart; nothing was written")

    def _write_part(
        self, transaction: Transaction, part: SourcePart, txns: Sequence[Txn]
    ) -> CommitResult:
        rows = self._settle_index(self._rows_of(part.data), transaction)
        if self.settings.mode != "merge":
            # Always replace, because the txn of an earlier part can expire. Without matching rows
            # this is cheap.
            mode: WriteMode = "append" if part.replaces is None else "overwrite"
            return self._write(transaction, rows, mode, part.replaces, txns)
        if part.replaces is not None:
            raise InvalidRequestError(
                f"asset {self._name} has the delta/mode 'merge', and "
                f"the SourcePart of {part.source} replaces rows; leave one of them out. No row of "
                "this SourcePart was written"
            )
        return self._merge(transaction, rows, txns)

    def _rows_of(self, value: Any) -> Any:
        with naming_table(self.log.uri):
            return rows_of(value)

    def _schema_of(self, rows: Any) -> StructType:
        with naming_table(self.log.uri):
            return schema_of_rows(rows)

    def _settle_index(self, rows: Any, transaction: Transaction) -> Any:
        """Store the index of a pandas frame as the table requires; see `frames`."""
        exists = transaction.snapshot is not None
        columns = transaction.schema.fields_by_lower_name if exists else ()
        settings = self.settings
        may_add = not exists or settings.merge_schema or settings.overwrite_schema
        return settle_index(rows, columns, self._warn, keep=settings.keep_index and may_add)

    def _warn(self, reason: str) -> None:
        if reason not in self.warnings:
            self.warnings.add(reason)
            self.context.log.warning(f"asset {self._name}: {reason}")

    def _configuration(self, rows: Any, transaction: Transaction) -> Mapping[str, str] | None:
        """The properties of a new table; column mapping is added for names that need it."""
        configuration = self.settings.configuration
        if transaction.snapshot is not None:
            definition = transaction.snapshot.definition
            known = definition.metadata.configuration
            for reason in ignored_properties(known, definition.features, configuration or {}):
                self._warn(reason)
            return None
        if _MAPPING_MODE in (configuration or {}):
            return configuration
        odd = odd_names(self._schema_of(rows))
        if not odd:
            return configuration
        self.context.log.info(
            f"{self.log.uri}: the new table has column mapping, because of the column "
            f"{', '.join(map(repr, odd))}; the property {_MAPPING_MODE}=none in "
            "delta/configuration turns it off"
        )
        return {**(configuration or {}), _MAPPING_MODE: "name"}

    def _partition_by(self, rows: Any, transaction: Transaction) -> Sequence[str] | None:
        """The partition columns of the table; None keeps them, and gives a new table none."""
        settings, expression = self.settings, self.settings.partition_expr
        is_chosen = settings.partition_by is not None or not settings.partitions_new_table
        if is_chosen or expression is None or transaction.snapshot is not None:
            return settings.partition_by
        by_dimension = {"": expression} if isinstance(expression, str) else expression
        texts = [by_dimension[dimension] for dimension in sorted(by_dimension)]
        return partition_columns(texts, self._schema_of(rows)) or None

    def _rows_of_partitions(self, transaction: Transaction, data: Any) -> Predicate | None:
        """The rows of the run's partitions; None for an asset without partitions."""
        context = self.context
        if not context.has_asset_partitions or self.settings.owns_table:
            return None
        schema = self._schema_of(data) if transaction.snapshot is None else transaction.schema
        return rows_of_partitions(context, self.settings, schema, context.asset_partition_keys)

    def _merge(self, transaction: Transaction, data: Any, txns: Sequence[Txn]) -> CommitResult:
        settings = self.settings
        assert settings.merge is not None
        transaction.commit_texts = settings.commit_info or {}
        merge = OutputMerge(
            settings=settings.merge,
            txns=txns,
            among=self._rows_of_partitions(transaction, data),
            merge_schema=settings.merge_schema,
            partition_by=self._partition_by(data, transaction),
            configuration=self._configuration(data, transaction),
            user_metadata=user_metadata(step_output(self.context), settings.user_metadata),
            hooks=self.hooks,
        )
        with naming_table(self.log.uri):
            return merge_rows(transaction, data, merge)

    def _write(
        self,
        transaction: Transaction,
        data: Any,
        mode: WriteMode,
        replaced: Predicate | None,
        txns: Sequence[Txn],
    ) -> CommitResult:
        settings = self.settings
        for txn in txns:
            transaction.set_transaction(txn)
        transaction.is_of_one_change = True
        transaction.commit_texts = settings.commit_info or {}
        options: dict[str, Any] = {
            "mode": mode,
            "partition_by": self._partition_by(data, transaction),
            "replace_where": replaced,
            "merge_schema": settings.merge_schema,
            "overwrite_schema": settings.overwrite_schema,
            "configuration": self._configuration(data, transaction),
            "user_metadata": user_metadata(step_output(self.context), settings.user_metadata),
            "hooks": self.hooks,
        }
        if is_spark_data(data):
            from delta_ops import spark

            return spark.write(data, transaction, **options)
        from delta_ops import arrow

        return arrow.write(transaction, data, **options)


def _validated_parts(parts: Sequence[object], asset: str) -> list[SourcePart]:
    """The parts of an output, which are all validated before the first of them is committed.

    Raises:
        InvalidRequestError: A part is not a `SourcePart`, a position is not a whole number, or a
            later part of a source has no greater position, so that its rows would be skipped.
    """
    valid: list[SourcePart] = []
    positions: dict[str, int] = {}
    for part in parts:
        if not isinstance(part, SourcePart):
            raise InvalidRequestError(
                f"asset {asset} returned a list of {type(part).__name__}; return a DataFrame, "
                "Arrow data, or SourceParts. Nothing was written"
            )
        position, before = part.position, positions.get(part.source)
        place = f"asset {asset} returned a SourcePart of {part.source} with the position"
        if not is_long(position):
            raise InvalidRequestError(
                f"{place} {position!r}; give a whole number that fits 64 bits. Nothing was written"
            )
        if before is not None and position <= before:
            raise InvalidRequestError(
                f"{place} {position} after the position {before}, so its rows would count as "
                "written; give each part of a source a greater position than the part before, or "
                "join the rows in one part. Nothing was written"
            )
        positions[part.source] = position
        valid.append(part)
    return valid


def _is_parts(value: Any) -> bool:
    """Whether a value is a list of source parts; a type handler may support other lists."""
    if not isinstance(value, list):
        return False
    return any(isinstance(each, SourcePart) for each in value) or not has_handler(type(value))
