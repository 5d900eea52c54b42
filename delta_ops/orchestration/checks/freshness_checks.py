"""Freshness checks: the age of the last change of rows, by the table's log.

Dagster's own `FreshnessPolicy` uses materializations. It needs the daemon, and for tables of other
writers also `build_commit_sensor`. These checks read the log, so all writers count. Commits that
only rearrange rows, such as compactions, do not count.
"""

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.log.history.history import HistoryEntry
from delta_ops.orchestration.checks.check_ops import TableChecks, check_op, failed_result
from delta_ops.orchestration.table_versions import changes_rows
from delta_ops.orchestration.tables import TableRef
from delta_ops.protocol.values.wide_timestamps import utc_text

_NAME = "rows_are_fresh"


def build_freshness_checks(
    tables: Sequence[TableRef],
    *,
    fail_after: timedelta,
    warn_after: timedelta | None = None,
    automation_condition: dg.AutomationCondition[dg.AssetCheckKey] | None = None,
    clock: Clock = system_clock,
) -> list[dg.AssetChecksDefinition]:
    """Build the check `rows_are_fresh` for each table: a recent commit changed rows.

    Run these checks by a schedule or by `AutomationCondition.on_cron`: a table that nobody writes
    starts no run.

    Args:
        fail_after: The check fails with an error if no row changed for longer, or if the table
            cannot be read.
        warn_after: The check fails with a warning if no row changed for longer.
        automation_condition: The condition to run the checks automatically.
        clock: The clock that measures the age.

    Raises:
        InvalidRequestError: A time is not positive, or `warn_after` is not before `fail_after`.

    Examples:
        >>> from datetime import timedelta
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> build_freshness_checks([orders], fail_after=timedelta(days=1))
        [...]
    """
    validate_arguments(build_freshness_checks, locals())
    limits = [limit for limit in (warn_after, fail_after) if limit is not None]
    if min(limits) <= timedelta(0) or (warn_after is not None and warn_after >= fail_after):
        raise InvalidRequestError(
            f"a table cannot be stale after {' and '.join(map(str, limits))}; give times above "
            "zero, and a warn_after that is less than fail_after"
        )
    return [
        _freshness_check(t, fail_after, warn_after, automation_condition, clock) for t in tables
    ]


def _freshness_check(
    table: TableRef,
    fail_after: timedelta,
    warn_after: timedelta | None,
    automation_condition: dg.AutomationCondition[dg.AssetCheckKey] | None,
    clock: Clock,
) -> dg.AssetChecksDefinition:
    def find_result() -> dg.AssetCheckResult:
        now_ms = clock()
        try:
            change = _last_change(table.log(), now_ms - _ms(fail_after))
        except DeltaOpsError as error:
            return failed_result(error, _NAME)
        if change is None:
            return dg.AssetCheckResult(
                check_name=_NAME,
                passed=False,
                description=f"no commit of the last {fail_after} changed rows",
            )
        age = timedelta(milliseconds=now_ms - change.timestamp_ms)
        is_late = warn_after is not None and age > warn_after
        return dg.AssetCheckResult(
            check_name=_NAME,
            passed=not is_late,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"rows changed at {utc_text(change.timestamp_ms)}"
            + (f", more than {warn_after} ago" if is_late else ""),
            metadata={
                "delta/changed_in_version": change.version,
                "delta/changed_at": dg.MetadataValue.timestamp(change.timestamp_ms / 1000),
                "delta/hours_since_change": round(age / timedelta(hours=1), 3),
            },
        )

    spec = dg.AssetCheckSpec(
        _NAME,
        asset=table.asset_key,
        description=f"Rows changed within {fail_after}.",
        automation_condition=automation_condition,
    )
    return check_op(table, _NAME, TableChecks(specs=[spec], evaluate=lambda *_: [find_result()]))


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _last_change(log: DeltaLog, since_ms: int) -> HistoryEntry | None:
    """The newest commit that changed rows, unless it is older than `since_ms`."""
    for entry in log.history():
        if entry.timestamp_ms < since_ms:
            break
        if any(changes_rows(commit) for commit in log.commits(entry.version, entry.version)):
            return entry
    return None
