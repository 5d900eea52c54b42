"""Change checks: compare columns and row count with the previous evaluation of the same check.

They read the log, so commits of all writers count, even without an event in Dagster. The metadata
of each evaluation hold the observed values for the next evaluation. They remain after the version
was cleaned up, or the table was created again.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.arrow import count_rows
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.orchestration.checks.check_ops import (
    Evaluation,
    TableChecks,
    check_op,
    failed_result,
)
from delta_ops.orchestration.dagster_compat import last_reported_value
from delta_ops.orchestration.markdown import code_text
from delta_ops.orchestration.metadata import column_schema, row_count
from delta_ops.orchestration.tables import TableRef
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.units import count_text

_Compare = Callable[[Evaluation, dg.AssetCheckKey, Snapshot], dg.AssetCheckResult | None]
COLUMNS, ROW_COUNT = "columns_are_unchanged", "row_count_is_plausible"
"""Names of the checks."""
_FIRST = "first result; the next result compares with it"


def build_column_checks(
    tables: Sequence[TableRef],
    *,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
    automation_condition: dg.AutomationCondition[dg.AssetCheckKey] | None = None,
) -> list[dg.AssetChecksDefinition]:
    """Build the check `columns_are_unchanged` for each table.

    It passes if names, types and nullability are the same as in the previous evaluation. Otherwise
    it lists added, removed and changed columns.

    Args:
        severity: Severity of a failure. A table that cannot be read is an error.
        automation_condition: The condition to run the checks automatically.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> build_column_checks([orders], severity=dg.AssetCheckSeverity.ERROR)
        [...]
    """
    validate_arguments(build_column_checks, locals())
    return [
        check_op(
            table,
            COLUMNS,
            column_check(table, severity=severity, automation_condition=automation_condition),
        )
        for table in tables
    ]


def column_check(
    table: TableRef,
    *,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
    automation_condition: dg.AutomationCondition[dg.AssetCheckKey] | None = None,
) -> TableChecks:
    """The check of a table's columns; see `build_column_checks` for the arguments."""
    spec = dg.AssetCheckSpec(
        COLUMNS,
        asset=table.asset_key,
        description="The columns are the same as in the previous evaluation of this check.",
        automation_condition=automation_condition,
    )
    return _comparison(table, spec, partial(_compare_columns, severity=severity))


def build_row_count_checks(
    tables: Sequence[TableRef],
    *,
    fewer_rows: float | None = 0.5,
    at_least: int = 0,
    at_most: int | None = None,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
    automation_condition: dg.AutomationCondition[dg.AssetCheckKey] | None = None,
) -> list[dg.AssetChecksDefinition]:
    """Build the check `row_count_is_plausible` for each table.

    It passes if the row count is within its bounds, and has not dropped too much since the previous
    evaluation. Rows are counted by the statistics of the log. Only files without statistics are
    opened.

    Args:
        fewer_rows: The share of its rows, from 0 to 1, that a table may lose between two
            evaluations; None: any share.
        at_least: Smallest row count.
        at_most: Greatest row count; None: no bound.
        severity: Severity of a failure. A table that cannot be read is an error.
        automation_condition: The condition to run the checks automatically.

    Raises:
        InvalidRequestError: `fewer_rows` is not a share, or `at_most` is less than `at_least`.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> build_row_count_checks([orders], fewer_rows=0.2, at_least=1)
        [...]
    """
    validate_arguments(build_row_count_checks, locals())
    if fewer_rows is not None and not 0 <= fewer_rows <= 1:
        raise InvalidRequestError(f"fewer_rows is a share from 0 to 1, not {fewer_rows!r}")
    if at_most is not None and at_most < at_least:
        raise InvalidRequestError(
            f"no number of rows is at least {at_least} and at most {at_most}; give an at_most that "
            "is not less than at_least"
        )
    check = partial(
        row_count_check,
        fewer_rows=1.0 if fewer_rows is None else fewer_rows,
        at_least=at_least,
        at_most=at_most,
        severity=severity,
        automation_condition=automation_condition,
    )
    return [check_op(table, ROW_COUNT, check(table)) for table in tables]


def row_count_check(
    table: TableRef,
    *,
    fewer_rows: float = 0.5,
    at_least: int = 0,
    at_most: int | None = None,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
    automation_condition: dg.AutomationCondition[dg.AssetCheckKey] | None = None,
) -> TableChecks:
    """The check of a table's row count; see `build_row_count_checks` for the arguments.

    Args:
        fewer_rows: 1 allows any drop.
    """
    spec = dg.AssetCheckSpec(
        ROW_COUNT,
        asset=table.asset_key,
        description="The number of rows is within its bounds and has not dropped.",
        automation_condition=automation_condition,
    )
    compare = partial(
        _compare_rows,
        fewer_rows=fewer_rows,
        at_least=at_least,
        at_most=at_most,
        severity=severity,
    )
    return _comparison(table, spec, compare)


def _comparison(table: TableRef, spec: dg.AssetCheckSpec, compare: _Compare) -> TableChecks:
    def evaluate(
        scene: Evaluation, _: Collection[dg.AssetCheckKey]
    ) -> Iterable[dg.AssetCheckResult]:
        try:
            result = compare(scene, spec.key, table.log().snapshot())
        except DeltaOpsError as error:
            result = failed_result(error, spec.name)
        if result is not None:
            yield result

    return TableChecks(specs=[spec], evaluate=evaluate)


def _compare_columns(
    scene: Evaluation,
    key: dg.AssetCheckKey,
    snapshot: Snapshot,
    *,
    severity: dg.AssetCheckSeverity,
) -> dg.AssetCheckResult:
    now = {each.name: _type_text(each) for each in column_schema(snapshot).columns}
    before = _translate_types(last_reported_value(scene.instance, key, "delta/columns"), snapshot)
    changes = {} if before is None else _column_changes(before, now)
    changed = [f"{what} {', '.join(shown)}" for what, shown in changes.items() if shown]
    return dg.AssetCheckResult(
        check_name=key.name,
        passed=not changed,
        severity=severity,
        description="; ".join(changed) or (_FIRST if before is None else "as before"),
        metadata={
            "delta/version": snapshot.version,
            "delta/columns": dg.MetadataValue.json(now),
        },
    )


def _translate_types(columns: dict[str, str] | None, snapshot: Snapshot) -> dict[str, str] | None:
    """Translate the columns of an earlier result, in which types may have Arrow's names.

    A name is translated only if the type is unchanged.
    """
    if columns is None:
        return None
    earlier, now = {}, {}
    for column, field in zip(column_schema(snapshot).columns, snapshot.schema.fields, strict=True):
        with suppress(DeltaOpsError):  # a type that Arrow lacks never had Arrow's name
            arrow_type = str(arrow_type_from_type(field.data_type))
            earlier[column.name] = _type_and_nullability(arrow_type, column)
            now[column.name] = _type_text(column)
    return {n: now[n] if text == earlier.get(n) else text for n, text in columns.items()}


def _type_text(column: dg.TableColumn) -> str:
    return _type_and_nullability(column.type, column)


def _type_and_nullability(type_text: str, column: dg.TableColumn) -> str:
    return type_text if column.constraints.nullable else f"{type_text} not null"


def _column_changes(before: dict[str, str], now: dict[str, str]) -> dict[str, list[str]]:
    """Added, removed and changed columns, as Markdown."""
    kept = [name for name in now if name in before]
    return {
        "added": [code_text(name) for name in now if name not in before],
        "removed": [code_text(name) for name in before if name not in now],
        "changed": [
            f"{code_text(name)} from {code_text(before[name])} to {code_text(now[name])}"
            for name in kept
            if before[name] != now[name]
        ],
    }


def _compare_rows(
    scene: Evaluation,
    key: dg.AssetCheckKey,
    snapshot: Snapshot,
    *,
    fewer_rows: float,
    at_least: int,
    at_most: int | None,
    severity: dg.AssetCheckSeverity,
) -> dg.AssetCheckResult | None:
    rows = count_rows(snapshot) if scene.may_open_data else row_count(snapshot)
    if rows is None:
        return None
    before = last_reported_value(scene.instance, key, "delta/rows")
    kept_at_least = 0.0 if before is None else before * (1 - fewer_rows)
    faults = []
    if rows < kept_at_least:
        faults.append(
            f"{count_text(rows, 'row')} after {before:,}, a drop of {1 - rows / before:.0%}"
        )
    if rows < at_least:
        faults.append(f"{count_text(rows, 'row')}, which should be {at_least:,} at least")
    if at_most is not None and rows > at_most:
        faults.append(f"{count_text(rows, 'row')}, which should be {at_most:,} at most")
    figures = {"delta/before": before, "delta/at_most": at_most}
    return dg.AssetCheckResult(
        check_name=key.name,
        passed=not faults,
        severity=severity,
        description="; ".join(faults) or count_text(rows, "row"),
        metadata={
            "delta/version": snapshot.version,
            "delta/rows": rows,
            "delta/at_least": max(float(at_least), kept_at_least),
            **{name: value for name, value in figures.items() if value is not None},
        },
    )
