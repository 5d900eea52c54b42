"""Constraints: what a table shall demand of every row, once the rows that are there keep it.

Source: PROTOCOL.md, "CHECK Constraints" and "Column Invariants".

An engine checks the rows before the commit. The commit says that it read all of them, whatever the
table's isolation level: rows that somebody adds meanwhile, which nobody has held against the rule,
are a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.existing_rows import check_rows
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace
from delta_ops.protocol.expression import parse_expression
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.expression.quotes import validate_condition, validate_rule
from delta_ops.protocol.expression.resolution import finder_of
from delta_ops.protocol.predicate import TRUE
from delta_ops.protocol.row_rules import CONSTRAINTS, Check, NotNull
from delta_ops.protocol.schema import ColumnPath, DataType, StructType, find_field, schema_to_json
from delta_ops.protocol.schema.changes import replace_field
from delta_ops.transaction import CommitResult, Transaction, Txn
from delta_ops.transaction.alter_table import Alteration, alter
from delta_ops.transaction.column_changes import field_json, find_column
from delta_ops.transaction.existing_rows import RowChecker


def add_constraint(
    target: TableOrPlace,
    name: str,
    condition: str,
    *,
    engine: RowChecker | None = None,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Add a CHECK constraint that all rows keep.

    Args:
        name: Case does not count.
        condition: A condition of Spark SQL over the table's columns, true for every row.
        engine: Checks the rows that are there; `delta_ops.arrow.check_rows` if None, and
            `delta_ops.spark.check_rows(spark)` for a condition that only Spark can evaluate.
        txn: Application id and version: a change that the table holds already is not made again.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: A row breaks it, the engine cannot evaluate it, or the table has
            another constraint of this name.
        CommitConflictError: Rows were added meanwhile, or somebody changed the table.
    """
    validate_arguments(add_constraint, locals())
    key = CONSTRAINTS + name.lower()
    if not name.strip() or not condition.strip():
        raise InvalidRequestError("a constraint needs a name and a condition")

    def change(transaction: Transaction) -> Alteration | None:
        there = _find_constraint(transaction, name)
        if there is not None:
            if there[1] == condition:
                return None
            raise InvalidRequestError(
                f"{transaction.log.uri} has the constraint {name} already ({there[1]}); drop it "
                "first, or choose another name"
            )
        rule = Check(key[len(CONSTRAINTS) :], condition)
        validate_constraint(transaction, rule)
        metadata = transaction.metadata
        configuration = {**metadata.configuration, key: condition}
        transaction.set_metadata(
            replace(metadata, configuration=configuration), features=("checkConstraints",)
        )
        _hold(transaction, rule, engine)
        return Alteration(operation="ADD CONSTRAINT", parameters={"name": name, "expr": condition})

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def drop_constraint(
    target: TableOrPlace,
    name: str,
    if_exists: bool = False,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Drop a CHECK constraint.

    Args:
        name: Case does not count.
        if_exists: Do nothing where there is none.

    Raises:
        InvalidRequestError: There is none.
    """
    validate_arguments(drop_constraint, locals())

    def change(transaction: Transaction) -> Alteration | None:
        there = _find_constraint(transaction, name)
        if there is None:
            if if_exists:
                return None
            raise InvalidRequestError(f"{transaction.log.uri} has no constraint {name}")
        key, condition = there
        metadata = transaction.metadata
        kept = {k: v for k, v in metadata.configuration.items() if k != key}
        transaction.set_metadata(replace(metadata, configuration=kept))
        return Alteration(
            operation="DROP CONSTRAINT",
            parameters={"name": name, "expr": condition, "existed": "true"},
        )

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def set_not_null(
    target: TableOrPlace,
    column: str,
    *,
    engine: RowChecker | None = None,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Demand that a column, or a field of a struct, is never null.

    Args:
        engine: Checks the rows that are there; `delta_ops.arrow.check_rows` if None.

    Raises:
        InvalidRequestError: It is null in a row, there is no such column, or it lies within an
            array or a map.
        CommitConflictError: Rows were added meanwhile, or somebody changed the table.
    """
    validate_arguments(set_not_null, locals())

    def change(transaction: Transaction) -> Alteration | None:
        path, field = find_column(transaction, column)
        if not field.nullable:
            return None
        _refuse_member(transaction, path)
        required = replace(field, nullable=False)
        schema = replace_field(transaction.schema, path, required)
        metadata = replace(transaction.metadata, schema_string=schema_to_json(schema))
        transaction.set_metadata(metadata, features=("invariants",))
        _hold(transaction, NotNull(".".join(path)), engine)
        return Alteration(
            operation="CHANGE COLUMN", parameters={"column": field_json(path[:-1], required)}
        )

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def _refuse_member(transaction: Transaction, path: ColumnPath) -> None:
    """Refuse a field within an array or a map, for which the reference enforces nothing."""
    data_type: DataType = transaction.schema
    for part in path:
        if not isinstance(data_type, StructType):
            raise InvalidRequestError(
                f"{transaction.log.uri}: {'.'.join(path)} lies within an array or a map, where "
                "other engines do not enforce NOT NULL; add a constraint on the column"
            )
        data_type = find_field(data_type, part).data_type


def validate_constraint(transaction: Transaction, rule: Check) -> None:
    """Refuse what no engine could check, or would check in vain.

    Of what our SQL cannot read, the engine judges.

    Raises:
        InvalidRequestError: It names a column that is not there, names one in double quotes, or
            looks at no column.
    """
    schema, name, condition = transaction.schema, rule.name, rule.expression
    validate_rule(rule, schema, transaction.log.uri)
    try:
        parsed = parse_expression(condition)
    except InvalidRequestError:
        return
    try:
        validate_condition(parsed, finder_of(schema))
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{transaction.log.uri}: {rule} checks nothing: {error}"
        ) from error
    known = schema.fields_by_lower_name
    for each in columns_of(parsed.root):
        if each.path[0].lower() not in known:
            raise InvalidRequestError(
                f"{transaction.log.uri}: the constraint {name} ({condition}) names the column "
                f"{each.path[0]}, which is not there; there are "
                f"{', '.join(field.name for field in schema.fields)}"
            )


def _hold(transaction: Transaction, rule: Check | NotNull, engine: RowChecker | None) -> None:
    assert transaction.snapshot
    transaction.read_serially(TRUE)
    (engine or check_rows)(transaction.snapshot, transaction.definition, [rule])


def _find_constraint(transaction: Transaction, name: str) -> tuple[str, str] | None:
    """The property of a constraint, as the table spells it, and its condition."""
    wanted = (CONSTRAINTS + name).lower()
    found = transaction.metadata.configuration.items()
    return next(((key, value) for key, value in found if key.lower() == wanted), None)
