"""Constraints: conditions that every row of a table must meet.

Source: PROTOCOL.md, "CHECK Constraints" and "Column Invariants".

An engine checks the existing rows before the commit. The commit depends on all rows, whatever the
table's isolation level: rows that another writer adds meanwhile are a conflict, because they were
not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.engine import ARROW
from delta_ops.ddl.alter import Alteration, alter
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace
from delta_ops.planning.definition import validate_constraint
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import TRUE, Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.row_rules import CONSTRAINTS, Check, NotNull
from delta_ops.transaction import CommitResult, Transaction, Txn
from delta_ops.transaction.engine import CheckRows, Engine


def add_constraint(
    target: TableOrPlace,
    name: str,
    condition: Predicate | Expression | str,
    *,
    engine: Engine | CheckRows | None = None,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Add a CHECK constraint.

    Args:
        name: Compared without case.
        condition: A condition over the table's columns, true for every row: from `col` or
            `parse_predicate`, an expression, or a string of Spark SQL. The table keeps its text.
        engine: Checks the existing rows; `delta_ops.arrow.check_rows` if None, and
            `delta_ops.spark.check_rows(spark)` for a condition that only Spark can evaluate.
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: A row breaks the constraint, the engine cannot evaluate it, or the
            table has another constraint with this name.
        CommitConflictError: Another writer added rows or changed the table meanwhile.

    Examples:
        >>> add_constraint("lake/orders", "positive", "price > 0").version
        1
        >>> add_constraint("lake/orders", "cheap", "price < 15")
        Traceback (most recent call last):
        ...
        delta_ops.errors.InvalidRequestError: ...
    """
    validate_arguments(add_constraint, locals())
    key, text = CONSTRAINTS + name.lower(), _sql_of(condition)
    if not name.strip() or not text.strip():
        raise InvalidRequestError("a constraint needs a name and a condition")

    def change(transaction: Transaction) -> Alteration | None:
        there = _find_constraint(transaction, name)
        if there is not None:
            if there[1] == text:
                return None
            raise InvalidRequestError(
                f"{transaction.log.uri} already has the constraint {name} ({there[1]}); drop it "
                "first, or choose another name",
                "DELTA_CONSTRAINT_ALREADY_EXISTS",
            )
        rule = Check(key[len(CONSTRAINTS) :], text)
        validate_constraint(transaction, rule)
        metadata = transaction.metadata
        configuration = {**metadata.configuration, key: text}
        transaction.set_metadata(
            replace(metadata, configuration=configuration), features=("checkConstraints",)
        )
        require_rows(transaction, rule, engine)
        return Alteration(operation="ADD CONSTRAINT", parameters={"name": name, "expr": text})

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def _sql_of(condition: Predicate | Expression | str) -> str:
    match condition:
        case str():
            return condition
        case Expression():
            return condition.text
    return predicate_text(condition)


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
        name: Compared without case.
        if_exists: Do nothing if the table has no such constraint.

    Raises:
        InvalidRequestError: The table has no such constraint.

    Examples:
        >>> _ = add_constraint("lake/orders", "positive", "price > 0")
        >>> drop_constraint("lake/orders", "positive").version
        2
        >>> drop_constraint("lake/orders", "positive", if_exists=True).version is None
        True
    """
    validate_arguments(drop_constraint, locals())

    def change(transaction: Transaction) -> Alteration | None:
        there = _find_constraint(transaction, name)
        if there is None:
            if if_exists:
                return None
            raise InvalidRequestError(
                f"{transaction.log.uri} has no constraint {name}", "DELTA_CONSTRAINT_DOES_NOT_EXIST"
            )
        key, condition = there
        metadata = transaction.metadata
        kept = {k: v for k, v in metadata.configuration.items() if k != key}
        transaction.set_metadata(replace(metadata, configuration=kept))
        return Alteration(
            operation="DROP CONSTRAINT",
            parameters={"name": name, "expr": condition, "existed": "true"},
        )

    return alter(target, change, txn, user_metadata, storage_options, dry_run)


def require_rows(
    transaction: Transaction, rule: Check | NotNull, engine: Engine | CheckRows | None
) -> None:
    """Check the existing rows, and depend on all of them.

    Args:
        engine: `delta_ops.arrow.check_rows` if None.

    Raises:
        InvalidRequestError: A row breaks the rule, or the engine cannot evaluate it.
    """
    assert transaction.snapshot
    transaction.read(TRUE, is_serial=True)
    engine = engine or ARROW
    check_rows = engine.check_rows if isinstance(engine, Engine) else engine
    check_rows(transaction.snapshot, transaction.definition, [rule])


def _find_constraint(transaction: Transaction, name: str) -> tuple[str, str] | None:
    """The property name of a constraint, as the table spells it, and its condition."""
    wanted = (CONSTRAINTS + name).lower()
    found = transaction.metadata.configuration.items()
    return next(((key, value) for key, value in found if key.lower() == wanted), None)
