"""Check ops: the checks of one table, of one kind or of several, as one op of Dagster's.

An op is a step, which is a process in most executors, and takes Dagster 2 ms to define; so a
location that gives each table checks of several kinds has one op for each table.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.tables import TableRef

EvaluateChecks = Callable[
    [dg.AssetCheckExecutionContext, Collection[dg.AssetCheckKey]], Iterable[dg.AssetCheckResult]
]
"""Looks at the table, and yields the results of the checks that are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChecks:
    """Checks of a table that look at it together."""

    specs: Sequence[dg.AssetCheckSpec]
    evaluate: EvaluateChecks


def check_op(table: TableRef, end: str, *kinds: TableChecks) -> dg.AssetChecksDefinition:
    """The op that evaluates checks of a table, all of them or some.

    Args:
        end: What the op's name ends with, after the asset's key.

    Raises:
        InvalidRequestError: Dagster takes no checks of an asset with this key.
    """
    specs = [spec for kind in kinds for spec in kind.specs]

    def evaluate(context: dg.AssetCheckExecutionContext) -> Iterable[dg.AssetCheckResult]:
        selected = context.selected_asset_check_keys
        for kind in kinds:
            wanted = {spec.key for spec in kind.specs} & selected
            if wanted:
                yield from kind.evaluate(context, wanted)

    try:
        return dg.multi_asset_check(
            name=f"{table.asset_key.to_python_identifier()}_{end}",
            specs=specs,
            can_subset=len(specs) > 1,
        )(evaluate)
    except dg.DagsterInvalidDefinitionError as error:
        raise InvalidRequestError(
            f"Dagster takes no checks of the asset {table.name}, whose key it makes a name of: "
            f"{error} Give the asset another key, its table staying where it is by the metadata "
            "dagster/uri, or leave its checks out (with_checks=False)"
        ) from error
