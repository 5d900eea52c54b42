"""Input settings: metadata of an `AssetIn` that choose columns and rows of the upstream.

    columns          names in the requested order; by default all columns
    partition_expr   an expression over the upstream's columns: read the rows of the partitions that
                     the asset itself materializes
    delta/predicate  SQL for `parse_predicate`: read only matching rows
    delta/read       the version to read: "materialized" (default) is the version that Dagster
                     records as provenance, "latest" the latest version, a number that version,
                     "tag:name" the version of the tag, "branch:name" the branch

The first place with `delta/read` decides: the run tag `delta_ops/read`, the input, the asset that
reads, the upstream, the IO manager.

An IO manager may accept other keys (`swap_in`). It translates them to these keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.input_versions import READ_KEY, ReadVersion, is_ref
from delta_ops.orchestration.io_manager.output_settings import PartitionExpr, read_expressions
from delta_ops.orchestration.io_manager.setting_values import (
    CLOSE_OF_INPUTS,
    Metadata,
    ReadMetadata,
    Setting,
    first_setting,
    read_columns,
    validate_keys,
)
from delta_ops.orchestration.tags import READ_TAG, validate_tags
from delta_ops.protocol.predicate import Predicate, parse_predicate

INPUT_KEYS = ("columns", "partition_expr", "delta/predicate", READ_KEY)
_OUTCOME = "Nothing was read"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSettings:
    """The columns and rows that an input reads from its upstream."""

    columns: Sequence[str] | None
    """Columns in the requested order; None: all columns."""
    partition_expr: PartitionExpr | None
    """Chooses the rows of the asset's own partitions. None: read the rows of the upstream's
    partitions that Dagster maps to the input."""
    predicate: Predicate | None
    """Matches the rows to read; None: all rows of the partitions."""
    read: ReadVersion
    is_chosen_by_input: bool = False
    """Whether the metadata of the input itself choose the version."""


def input_settings(
    context: dg.InputContext,
    read_metadata: ReadMetadata,
    places: Sequence[tuple[str, Metadata]] = (),
) -> InputSettings:
    """The settings of an input.

    Args:
        read_metadata: Translates the metadata of the input.
        places: Other metadata that may have `delta/read`, nearest first.

    Raises:
        InvalidRequestError: A key or a value is unknown.
    """
    place = f"the metadata of the input {compat.input_text(context)}"
    metadata = read_metadata(context.definition_metadata or {}, place)
    validate_keys(place, metadata, INPUT_KEYS, close=CLOSE_OF_INPUTS, outcome=_OUTCOME)
    columns, expression, predicate, _ = (
        first_setting(key, [(place, metadata)]) for key in INPUT_KEYS
    )
    if predicate.value is not None and not isinstance(predicate.value, str):
        raise predicate.rejection('a condition of SQL, such as "a > 1"', outcome=_OUTCOME)
    return InputSettings(
        columns=read_columns(columns),
        partition_expr=read_expressions(expression),
        predicate=None if predicate.value is None else parse_predicate(predicate.value),
        read=_read_version(
            first_setting(READ_KEY, [*_run_place(context), (place, metadata), *places])
        ),
        is_chosen_by_input=metadata.get(READ_KEY) is not None,
    )


def _run_place(context: dg.InputContext) -> list[tuple[str, Metadata]]:
    """The tag of the run, as metadata."""
    run = compat.run_of_input(context)
    if run is not None:
        validate_tags(run)
    if run is None or READ_TAG not in run.tags:
        return []
    value = run.tags[READ_TAG]
    if value not in ("materialized", "latest") and not is_ref(value):
        raise InvalidRequestError(
            f"run {run.run_id} has the tag {READ_TAG}={value}; choose materialized, latest, or a "
            f"tag or branch of the tables, such as tag:2026-11. {_OUTCOME}"
        )
    return [(f"the tags of run {run.run_id}", {READ_KEY: value})]


def _read_version(setting: Setting) -> ReadVersion:
    match setting.value:
        case None:
            return "materialized"
        case "materialized" | "latest" as known:
            chosen: ReadVersion = known
            return chosen
        case int() as version if version >= 0 and not isinstance(version, bool):
            return version
        case str() as ref if is_ref(ref):
            return ref
    raise setting.rejection(
        '"materialized", "latest", the number of a version, or a tag or branch, such as '
        '"tag:2026-11"',
        _OUTCOME,
    )


def validate_all_is_read(context: dg.InputContext, settings: InputSettings) -> None:
    """Reject settings that choose rows or columns, for a value without rows.

    Raises:
        InvalidRequestError: A setting chooses rows or columns.
    """
    chosen = {"columns": settings.columns, "delta/predicate": settings.predicate}
    for name, value in chosen.items():
        if value is not None:
            raise InvalidRequestError(
                f"the metadata of the input {compat.input_text(context)} have {name}, and "
                "the input is a handle of the table, which holds no rows; annotate it with "
                f"pa.Table or another type of rows, or leave {name} out. Nothing was read"
            )


def require_partitions(
    context: dg.InputContext,
) -> tuple[dg.PartitionsDefinition[Any], Sequence[str]]:
    """The partitions of the asset that reads an input, and the partition keys of the run.

    Raises:
        InvalidRequestError: The asset has no partitions.
    """
    found = compat.consumer_partitions(context)
    if found is None:
        raise InvalidRequestError(
            f"input {context.asset_key.to_user_string()} has the metadata partition_expr, which "
            "selects rows by the partitions of the asset that reads the input, but that asset has "
            "no partitions; leave partition_expr out"
        )
    return found
