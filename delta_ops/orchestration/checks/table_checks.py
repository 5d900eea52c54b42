"""Asset checks that read the log and no data.

If a table needs maintenance, the failed check names the operation that cures it, and links to the
launchpad of the maintenance job with a config for the table and the operation.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import get_args

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.maintenance import (
    HealthReport,
    HealthThresholds,
    MaintenancePlan,
    plan_maintenance,
)
from delta_ops.maintenance.health.figures import load_figures
from delta_ops.maintenance.health.report import assess_table
from delta_ops.maintenance.thresholds import Measure
from delta_ops.orchestration.card.table_card import table_card
from delta_ops.orchestration.checks.check_ops import (
    Evaluation,
    TableChecks,
    check_op,
    failed_result,
)
from delta_ops.orchestration.checks.check_results import HEALTH, LOST, Cure, health_results
from delta_ops.orchestration.policies.choice import PolicyJobs, choose_policy, jobs_of
from delta_ops.orchestration.tables import TableRef

MAINTENANCE_JOB = "delta_maintenance"
"""The default job name of `build_maintenance_job`."""
MEASURES: tuple[Measure, ...] = get_args(Measure)
"""The names of the checks of single measures."""
_DESCRIPTIONS: Mapping[str, str] = {
    HEALTH: "The log is readable and complete, and no maintenance is due.",
    "small_files": "Small files that optimize can compact.",
    "commits_since_checkpoint": "Commits since the checkpoint, which every reader replays.",
    "commit_bytes_since_checkpoint": "Bytes of the commits since the checkpoint.",
    "expired_tombstones": "Removed files past their retention that no vacuum has deleted.",
    "expired_log_files": "Log files past their retention.",
    "incomplete_checkpoints": "Files of unfinished checkpoints.",
    "commits_since_scan_cache": "Commits since the scan cache, which reads with a condition use.",
    "deleted_rows": "Share of the rows that deletion vectors delete.",
    "partition_skew": "Size of the largest partition, relative to the mean.",
    "file_size_skew": "Size of the largest file, relative to the target size.",
    "stats_coverage": "Share of the files with statistics, which readers need to skip files.",
    "clustering_depth": "Overlapping files of a table with clustering columns or a sort key.",
    "unindexed_files": "Files that an inverted index does not cover.",
    "index_selectivity": "Share of the files that hold one value of an inverted index.",
    "promised_time_travel": "Time travel that the table's properties promise.",
    "readable_time_travel": "Time travel that is possible, compared with the promised time travel.",
    "unreachable_files": "Removed files that are kept longer than the versions that use them.",
    "lost_commits": "Commits that another writer has replaced.",
    "damaged_checkpoints": "Checkpoints that cannot be read.",
    "refs_at_risk": "Tags and branches that expired or may have lost files.",
    "features": "Table features that prevent some maintenance by delta_ops.",
}


def build_table_checks(
    tables: Sequence[TableRef],
    *,
    job: dg.JobDefinition | str = MAINTENANCE_JOB,
    card: bool = True,
) -> list[dg.AssetChecksDefinition]:
    """Build the checks `log_is_readable` and `maintenance_is_not_overdue` for each table.

    The first check fails with an error if the log cannot be read or contradicts its version
    checksum. The second check fails with a warning if maintenance is due.

    Args:
        job: The maintenance job, or its name, for the link of a warning; it must be in the same
            code location.
        card: Whether the second check shows the table's card. Each card takes some kilobytes of
            Dagster's event log.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> checks = build_table_checks([orders])
        >>> sorted(spec.name for check in checks for spec in check.check_specs)
        ['log_is_readable', 'maintenance_is_not_overdue']
    """
    validate_arguments(build_table_checks, locals())
    name = _job_name(job)
    return [
        check for t in tables for check in (_log_check(t), _maintenance_check(t, name, card=card))
    ]


def build_health_checks(
    tables: Sequence[TableRef],
    *,
    thresholds: HealthThresholds | None = None,
    errors: Collection[Measure] = LOST,
    job: dg.JobDefinition | str = MAINTENANCE_JOB,
    policies: Sequence[PolicyJobs] = (),
    automation_condition: dg.AutomationCondition[dg.AssetCheckKey] | None = None,
    one_check: bool = False,
) -> list[dg.AssetChecksDefinition]:
    """Build a check for each health measure of each table, named like the measure.

    If a table cannot be read, all its checks fail with an error.

    Args:
        thresholds: Limits of the measures. A check fails when its measure reaches the limit.
        errors: Measures whose failure is an error. The failure of any other measure is a warning.
        job: The maintenance job, or its name, for the links of failures; it must be in the same
            code location.
        policies: Policies with their tables and jobs. The checks of a table with a policy use its
            thresholds and job. Its property `delta_ops.policy` may name the policy.
        automation_condition: The condition to run the checks automatically.
        one_check: Build only the check `health` for each table, for all measures.

    Raises:
        InvalidRequestError: A measure of `errors` does not exist.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> checks = build_health_checks([orders])
        >>> "small_files" in {spec.name for check in checks for spec in check.check_specs}
        True
    """
    validate_arguments(build_health_checks, locals())
    unknown = next((each for each in errors if each not in MEASURES), None)
    if unknown is not None:
        raise InvalidRequestError(
            f"there is no measure {unknown!r} that could be an error; choose from "
            f"{', '.join(MEASURES)}"
        )
    checks = partial(
        health_checks,
        names=(HEALTH,) if one_check else MEASURES,
        thresholds=thresholds or HealthThresholds(),
        errors=errors,
        job=_job_name(job),
        policies=policies,
        automation_condition=automation_condition,
    )
    return [check_op(table, "health", checks(table)) for table in tables]


def health_checks(
    table: TableRef,
    *,
    names: Sequence[str],
    thresholds: HealthThresholds,
    errors: Collection[Measure] = LOST,
    job: str = MAINTENANCE_JOB,
    policies: Sequence[PolicyJobs] = (),
    automation_condition: dg.AutomationCondition[dg.AssetCheckKey] | None = None,
) -> TableChecks:
    """The checks of a table's health; see `build_health_checks` for the arguments.

    Args:
        names: `HEALTH` for the check of all measures, and names of measures.
    """
    specs = [health_spec(table, name, automation_condition) for name in names]

    def evaluate(
        scene: Evaluation, wanted: Collection[dg.AssetCheckKey]
    ) -> Iterable[dg.AssetCheckResult]:
        chosen = [spec.name for spec in specs if spec.key in wanted]
        try:
            report, job_name = _look_at(thresholds, job, policies, table)
        except DeltaOpsError as error:
            return health_results(error, None, chosen)
        cure = Cure(table, job_name, scene.location)
        return health_results(report, cure, chosen, errors)

    return TableChecks(specs=specs, evaluate=evaluate, is_about_maintenance=True)


def health_spec(
    table: TableRef,
    name: str,
    automation_condition: dg.AutomationCondition[dg.AssetCheckKey] | None = None,
) -> dg.AssetCheckSpec:
    """The spec of the check `HEALTH`, or of the check of a measure."""
    return dg.AssetCheckSpec(
        name,
        asset=table.asset_key,
        description=_DESCRIPTIONS[name],
        automation_condition=automation_condition,
    )


def _look_at(
    thresholds: HealthThresholds, job: str, policies: Sequence[PolicyJobs], table: TableRef
) -> tuple[HealthReport, str]:
    """Assess a table; returns the report and the name of its maintenance job."""
    log = table.log()
    figures = load_figures(log)
    choices = [each.policy for each in policies if each.policy is not None]
    for each in policies:
        if each.policy is not None and table in each.tables:
            policy, _ = choose_policy(table.name, each.policy, figures.configuration, choices)
            thresholds, job = policy.thresholds, (jobs_of(policy, policies) or each).job.name
    return assess_table(log.uri, figures, thresholds), job


def _job_name(job: dg.JobDefinition | str) -> str:
    return job if isinstance(job, str) else job.name


def _log_check(table: TableRef) -> dg.AssetChecksDefinition:
    name = "log_is_readable"

    def evaluate(_: Evaluation, __: Collection[dg.AssetCheckKey]) -> Iterable[dg.AssetCheckResult]:
        try:
            snapshot = table.log().snapshot()
            has_checksum = validate_checksum(snapshot)
        except DeltaOpsError as error:
            yield failed_result(error, name)
            return
        yield dg.AssetCheckResult(
            check_name=name,
            passed=True,
            description="its version checksum agrees" if has_checksum else None,
            metadata={"delta/version": snapshot.version},
        )

    description = "The log can be read, and agrees with its version checksum."
    spec = dg.AssetCheckSpec(name, asset=table.asset_key, description=description)
    checks = TableChecks(specs=[spec], evaluate=evaluate, is_about_maintenance=True)
    return check_op(table, name, checks)


def _maintenance_check(table: TableRef, job: str, *, card: bool) -> dg.AssetChecksDefinition:
    name = "maintenance_is_not_overdue"

    def evaluate(
        scene: Evaluation, _: Collection[dg.AssetCheckKey]
    ) -> Iterable[dg.AssetCheckResult]:
        try:
            plan = plan_maintenance(table.log())
            shown = {"delta/card": dg.MetadataValue.md(table_card(table.log()))} if card else {}
        except DeltaOpsError as error:
            yield failed_result(error, name)
            return
        yield dg.AssetCheckResult(
            check_name=name,
            passed=not plan.has_work,
            severity=dg.AssetCheckSeverity.WARN,
            description=_plan_text(plan, Cure(table, job, scene.location)),
            metadata={
                "delta/commits_since_checkpoint": plan.commits_since_checkpoint,
                "delta/small_files": plan.small_files,
                "delta/expired_tombstones": plan.expired_tombstones,
                "delta/deletable_log_files": plan.deletable_log_files,
                "delta/incomplete_checkpoint_files": plan.incomplete_checkpoint_files,
                **shown,
            },
        )

    description = "No maintenance operation is due."
    spec = dg.AssetCheckSpec(name, asset=table.asset_key, description=description)
    checks = TableChecks(specs=[spec], evaluate=evaluate, is_about_maintenance=True)
    return check_op(table, name, checks)


def _plan_text(plan: MaintenancePlan, cure: Cure) -> str:
    if not plan.has_work:
        return "nothing is due"
    return f"{', '.join(plan.operations)}. {cure.link('Open the launchpad to run what is due')}"
