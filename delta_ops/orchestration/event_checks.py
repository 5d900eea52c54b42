"""Event checks: the latest materialization of an asset, compared with the one before it.

They read Dagster's events and neither the log nor data. An event that does not tell of columns or
rows, as one of another writer's commit, is passed over.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.tables import TableRef

_LOOKED_AT = 100
"""Materializations, from the newest on."""
_ROWS = ("dagster/row_count", "delta/rows_written")


def build_event_checks(
    tables: Sequence[TableRef], *, fewer_rows: float = 0.5
) -> list[dg.AssetChecksDefinition]:
    """For each table: its columns are those of the materialization before, and its rows are not
    fewer by more than a share; warnings if not.

    Args:
        fewer_rows: Share of the rows of the materialization before, from 0 to 1: 0.5 warns of less
            than half of them.

    Raises:
        InvalidRequestError: `fewer_rows` is no share.
    """
    validate_arguments(build_event_checks, locals())
    if not 0 <= fewer_rows <= 1:
        raise InvalidRequestError(f"fewer_rows is a share from 0 to 1, not {fewer_rows!r}")
    return [_event_checks(table, fewer_rows) for table in tables]


def _event_checks(table: TableRef, fewer_rows: float) -> dg.AssetChecksDefinition:
    names = ("columns_are_unchanged", "rows_are_not_fewer")
    specs = [dg.AssetCheckSpec(name, asset=table.asset_key) for name in names]

    @dg.multi_asset_check(
        name=f"{table.asset_key.to_python_identifier()}_events", specs=specs, can_subset=True
    )
    def event_checks(context: dg.AssetCheckExecutionContext) -> Iterable[dg.AssetCheckResult]:
        newest = context.instance.fetch_materializations(table.asset_key, limit=_LOOKED_AT).records
        told = [each.asset_materialization for each in newest if each.asset_materialization]
        wanted = {key.name for key in context.selected_asset_check_keys}
        if names[0] in wanted:
            columns, before = _last_two(told, _columns)
            yield _columns_result(names[0], columns, before)
        if names[1] in wanted:
            rows, before = _last_two(told, _rows)
            yield _rows_result(names[1], rows, before, fewer_rows)

    return event_checks


def _last_two(
    told: Sequence[dg.AssetMaterialization], value: Callable[[dg.AssetMaterialization], Any]
) -> tuple[Any, Any]:
    """The newest value and the one before it; None where events have none."""
    values = [each for each in map(value, told) if each is not None]
    return (*values[:2], None, None)[:2]


def _columns(event: dg.AssetMaterialization) -> dict[str, str] | None:
    schema = getattr(event.metadata.get("dagster/column_schema"), "schema", None)
    return {c.name: c.type for c in schema.columns} if schema is not None else None


def _rows(event: dg.AssetMaterialization) -> int | None:
    values = (getattr(event.metadata.get(name), "value", None) for name in _ROWS)
    return next((value for value in values if isinstance(value, int)), None)


def _columns_result(
    name: str, columns: dict[str, str] | None, before: dict[str, str] | None
) -> dg.AssetCheckResult:
    now, then = columns or {}, before if before is not None else columns or {}
    added = [each for each in now if each not in then]
    removed = [each for each in then if each not in now]
    changed = [f"{c}: {then[c]} to {now[c]}" for c in now if c in then and then[c] != now[c]]
    found = {"added": added, "removed": removed, "changed": changed}
    said = [f"{what} {', '.join(which)}" for what, which in found.items() if which]
    return dg.AssetCheckResult(
        check_name=name,
        passed=not said,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(said) or _nothing_found(columns, before),
        metadata={f"delta/columns_{what}": which for what, which in found.items()},
    )


def _rows_result(
    name: str, rows: int | None, before: int | None, fewer_rows: float
) -> dg.AssetCheckResult:
    least = 0 if before is None else before * (1 - fewer_rows)
    is_fewer = rows is not None and rows < least
    figures = {"delta/value": rows, "delta/before": before, "delta/limit": float(least)}
    return dg.AssetCheckResult(
        check_name=name,
        passed=not is_fewer,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{rows} rows after {before}" if is_fewer else _nothing_found(rows, before),
        metadata={each: value for each, value in figures.items() if value is not None},
    )


def _nothing_found(value: object, before: object) -> str:
    if value is None:
        return "no event tells of it yet"
    return "there is one event to go by" if before is None else "as before"
