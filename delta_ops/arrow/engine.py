"""The Arrow engine reads, writes and changes rows in this process, without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from delta_ops.arrow.arrow_data import ArrowData
from delta_ops.arrow.dml.delete import plan_delete
from delta_ops.arrow.dml.merge import PlannedMerge
from delta_ops.arrow.dml.update import plan_update
from delta_ops.arrow.existing_rows import check_rows
from delta_ops.arrow.rewrite.rewrite import rewrite
from delta_ops.arrow.write.data_file import discard
from delta_ops.arrow.write.staging import (
    schema_of,
    stage_rows,
    stage_survivors,
    write_replacement,
)
from delta_ops.arrow.write.written_files import LOCAL_WRITES
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.expression import Expression, parse_expression
from delta_ops.protocol.features import Engine as EngineName
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.row_rules import Check, NotNull
from delta_ops.protocol.schema import NO_COLUMNS, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import Storage
from delta_ops.transaction import RewriteGroup, Staged, Transaction
from delta_ops.transaction.engine import PlannedChange
from delta_ops.transaction.replacement import ReplacedRows
from delta_ops.transaction.requests import DeleteRequest, MergeRequest, UpdateRequest
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.staging import WriteTarget


class ArrowEngine:
    """See `Engine`."""

    name: EngineName = "arrow"

    def attach(self, transaction: Transaction) -> None:
        """See `Engine`."""

    def schema_of(self, data: ArrowData, known: StructType = NO_COLUMNS) -> StructType:
        """See `Engine`."""
        return schema_of(data, known)

    def write_rows(
        self, data: ArrowData, target: WriteTarget, rules: Sequence[SourceRule] = ()
    ) -> Staged:
        """See `Engine`."""
        return stage_rows(data, target, rules)

    def write_survivors(self, replaced: ReplacedRows, target: WriteTarget) -> Staged:
        """See `Engine`."""
        return stage_survivors(replaced, target)

    def write_replacement(
        self, replaced: ReplacedRows, added: Sequence[AddFile], target: WriteTarget
    ) -> tuple[AddCdcFile, ...]:
        """See `Engine`."""
        return write_replacement(replaced, added, target)

    def parse_condition(self, condition: Any) -> Expression:
        """See `Engine`."""
        if isinstance(condition, str):
            return parse_expression(condition)
        if isinstance(condition, Expression):
            return condition
        if isinstance(condition, Predicate):
            return parse_expression(predicate_text(condition))
        raise InvalidRequestError(
            f"a condition of a merge is of type {type(condition).__name__}; give a SQL string, "
            "such as 'target.id = source.id', a predicate, or an expression"
        )

    def join_conditions(self, conditions: Sequence[Expression]) -> Expression:
        """See `Engine`."""
        return parse_expression(" AND ".join(each.text for each in conditions))

    def plan_change(
        self, request: DeleteRequest | UpdateRequest | MergeRequest, transaction: Transaction
    ) -> PlannedChange:
        """See `Engine`."""
        match request:
            case DeleteRequest():
                return plan_delete(request, transaction)
            case UpdateRequest():
                return plan_update(request, transaction)
        return PlannedMerge(request)

    def rewrite(self, snapshot: Snapshot, group: RewriteGroup) -> Staged:
        """See `Engine`."""
        return rewrite(snapshot, group)

    def num_rewrites_at_once(self) -> int:
        """See `Engine`."""
        return LOCAL_WRITES

    def together(self) -> AbstractContextManager[None]:
        """See `Engine`."""
        return nullcontext()

    def check_rows(
        self, snapshot: Snapshot, definition: TableDefinition, rules: Sequence[Check | NotNull]
    ) -> None:
        """See `Engine`."""
        check_rows(snapshot, definition, rules)

    def discard(self, storage: Storage, files: Sequence[AddFile | AddCdcFile]) -> None:
        """See `Engine`."""
        discard(storage, files)


ARROW = ArrowEngine()
