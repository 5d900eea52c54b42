"""Check ops: the checks of one table, of one or several kinds, as one Dagster op.

An op is a step, which is a process in most executors, and takes Dagster 2 ms to define. A location
with several kinds of checks therefore has one op for each table. The op has a low priority, so
that a run starts the steps of its assets first.

Maintenance runs and the commit sensor also evaluate these checks, without their op: `OwnChecks`.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.maintenance.fleet.failures import attempt
from delta_ops.orchestration.dagster_compat import (
    code_location,
    newest_materialization,
    repository_of,
    target_of_evaluation,
)
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation, log_check_evaluation
from delta_ops.orchestration.markdown import plain_text
from delta_ops.orchestration.tables import TableRef

_PRIORITY: Mapping[str, str] = {"dagster/priority": "-100"}
_OWN = "delta_ops/checks"
"""Metadata key of a check spec; the value is the `TableChecks` that evaluate the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Where checks are evaluated, which event they are about, and whether they may open data."""

    instance: dg.DagsterInstance
    location: tuple[str, str] | None = None
    """Names of the code location and of the repository; None if unknown."""
    target: Any = None
    """The materialization that the results are about; None: Dagster compares times."""
    may_open_data: bool = True
    """Whether checks may open data files. A check that needs to open them is otherwise skipped."""


EvaluateChecks = Callable[[Evaluation, Collection[dg.AssetCheckKey]], Iterable[dg.AssetCheckResult]]
"""Reads the table, and yields the results of the selected checks."""


@dataclass(frozen=True, kw_only=True)
class TableChecks:
    """Checks of a table that share one read of its log."""

    specs: Sequence[dg.AssetCheckSpec]
    evaluate: EvaluateChecks
    is_about_maintenance: bool = False
    """Whether maintenance changes the results."""

    def __str__(self) -> str:
        return "checks of delta_ops"


def check_op(table: TableRef, end: str, *kinds: TableChecks) -> dg.AssetChecksDefinition:
    """The op that evaluates all or selected checks of a table.

    Args:
        end: The end of the op's name, after the asset key.

    Raises:
        InvalidRequestError: Dagster accepts no checks of an asset with this key.
    """
    specs = [spec for kind in kinds for spec in marked_specs(kind)]

    def evaluate(context: dg.AssetCheckExecutionContext) -> Iterable[dg.AssetCheckResult]:
        selected = context.selected_asset_check_keys
        scene = Evaluation(instance=context.instance, location=code_location(context.run))
        for kind in kinds:
            wanted = {spec.key for spec in kind.specs} & selected
            if wanted:
                yield from kind.evaluate(scene, wanted)

    try:
        return dg.multi_asset_check(
            name=f"{table.asset_key.to_python_identifier()}_{end}",
            specs=specs,
            can_subset=len(specs) > 1,
            op_tags=_PRIORITY,
        )(evaluate)
    except dg.DagsterInvalidDefinitionError as error:
        raise InvalidRequestError(
            f"Dagster cannot build names for the checks of asset {table.name} from its key: "
            f"{error} Give the asset another key, and keep its table by the metadata dagster/uri; "
            "or leave its checks out (with_checks=False)"
        ) from error


def marked_specs(checks: TableChecks) -> list[dg.AssetCheckSpec]:
    """The specs of checks, marked so that `OwnChecks` finds them."""
    return [
        dg.AssetCheckSpec(
            spec.name,
            asset=spec.asset_key,
            description=spec.description,
            automation_condition=spec.automation_condition,
            metadata={_OWN: checks},
        )
        for spec in checks.specs
    ]


class OwnChecks:
    """The delta_ops checks that a code location defines; see `check_op` and `marked_specs`.

    Args:
        repository: The definitions of the code location; None: no checks.
    """

    def __init__(self, repository: dg.RepositoryDefinition | None) -> None:
        self._by_asset: defaultdict[dg.AssetKey, dict[dg.AssetCheckKey, TableChecks]]
        self._by_asset = defaultdict(dict)
        definitions = repository.asset_checks_defs_by_key.items() if repository else ()
        for key, definition in definitions:
            checks: Any = definition.get_spec_for_check_key(key).metadata.get(_OWN)
            if isinstance(checks, TableChecks):
                self._by_asset[key.asset_key][key] = checks

    def names(self, asset_key: dg.AssetKey) -> list[str]:
        """The names of the checks of an asset."""
        return [key.name for key in self._by_asset.get(asset_key, ())]

    def evaluate(
        self, asset_key: dg.AssetKey, scene: Evaluation, *, of_maintenance: bool = False
    ) -> list[AssetCheckEvaluation]:
        """Evaluate the checks of an asset without their op.

        A check that raises an error has failed, so that it does not stop the run or the tick.

        Args:
            of_maintenance: Whether to evaluate only checks whose results maintenance changes.
        """
        kinds: dict[int, tuple[TableChecks, set[dg.AssetCheckKey]]] = {}
        for key, checks in self._by_asset.get(asset_key, {}).items():
            if checks.is_about_maintenance or not of_maintenance:
                kinds.setdefault(id(checks), (checks, set()))[1].add(key)
        return [
            check_evaluation(asset_key, result, scene.target)
            for checks, keys in kinds.values()
            for result in _attempt_checks(checks, scene, keys)
        ]


def _attempt_checks(
    checks: TableChecks, scene: Evaluation, keys: Collection[dg.AssetCheckKey]
) -> list[dg.AssetCheckResult]:
    results, failure = attempt(lambda: list(checks.evaluate(scene, keys)))
    if failure is not None:
        return [failed_result(failure.message, key.name) for key in keys]
    return results or []


def failed_result(reason: DeltaOpsError | str, check_name: str) -> dg.AssetCheckResult:
    """The check result of a table that cannot be read."""
    return dg.AssetCheckResult(
        check_name=check_name, passed=False, description=plain_text(str(reason))
    )


def log_check_results(
    context: dg.OpExecutionContext, asset_key: dg.AssetKey, *, of_maintenance: bool = True
) -> None:
    """Log the results of an asset's checks in a run that changed its table.

    Args:
        of_maintenance: As for `OwnChecks.evaluate`.
    """
    # Dagster's times have seconds; a materialization by this run itself needs no target.
    find_target = newest_materialization if of_maintenance else target_of_evaluation
    scene = Evaluation(
        instance=context.instance,
        location=code_location(context.run),
        target=find_target(context.instance, asset_key),
        may_open_data=False,
    )
    checks = OwnChecks(repository_of(context))
    for evaluation in checks.evaluate(asset_key, scene, of_maintenance=of_maintenance):
        log_check_evaluation(context, evaluation)


def check_evaluation(
    asset_key: dg.AssetKey, result: dg.AssetCheckResult, target: Any = None
) -> AssetCheckEvaluation:
    """The event of a check result, for the event log.

    Args:
        result: A result with the name of its check.
        target: As in `Evaluation`.
    """
    return AssetCheckEvaluation(
        asset_key=asset_key,
        check_name=str(result.check_name),
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=result.metadata,
        target_materialization_data=target,
    )
