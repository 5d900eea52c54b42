"""Check ops: the checks of one table, of one or several kinds, as one Dagster op.

An op is a step, which is a process in most executors, and takes Dagster 2 ms to define. A location
with several kinds of checks therefore has one op for each table.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.tables import TableRef

EvaluateChecks = Callable[
    [dg.AssetCheckExecutionContext, Collection[dg.AssetCheckKey]], Iterable[dg.AssetCheckResult]
]
"""Reads the table, and yields the results of the selected checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChecks:
    """Checks of a table that read it together."""

    specs: Sequence[dg.AssetCheckSpec]
    evaluate: EvaluateChecks


def check_op(table: TableRef, end: str, *kinds: TableChecks) -> dg.AssetChecksDefinition:
    """The op that evaluates all or selected checks of a table.

    Args:
        end: The end of the op's name, after the asset key.

    Raises:
        InvalidRequestError: Dagster accepts no checks of an asset with this key.
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
