"""Merge settings: metadata that decide how an output is merged into its table.

    delta/merge_keys       columns: a table row and an output row match if all these are equal
    delta/merge_predicate  SQL over `target.x` and `source.x`: a further match condition, or the
                           only one without keys
    delta/merge_clauses    the changes of rows; the first clause with a true condition applies. By
                           default, matched rows take all columns of the output, and other rows are
                           inserted
    delta/merge_aliases    {"target": "t", "source": "s"}: other names for both in SQL

A clause is a mapping with `when` ("matched", "not matched", "not matched by source") and `then`
("update", "delete", "insert"). Optional keys are `if` (SQL), `set` (values by column, where strings
are SQL; by default all columns of the output) and `except` (output columns to skip).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.io_manager.setting_values import (
    Setting,
    are_texts,
    read_columns,
    read_texts,
)
from delta_ops.transaction.requests import Action, ClauseKind

MERGE_KEYS = (
    "delta/merge_keys",
    "delta/merge_predicate",
    "delta/merge_clauses",
    "delta/merge_aliases",
)
_SIDES = ("target", "source")
_WORDS = ("when", "then", "if", "set", "except")
_ACTIONS: Mapping[ClauseKind, tuple[Action, ...]] = {
    "matched": ("update", "delete"),
    "not matched": ("insert",),
    "not matched by source": ("update", "delete"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """One clause of a merge."""

    when: ClauseKind
    then: Action
    condition: str | None = None
    """SQL condition; None: always true."""
    values: Mapping[str, Any] | None = None
    """Values by column; None: all columns of the output."""
    left_out: tuple[str, ...] = ()
    """Columns of the output to skip."""


UPSERT = (
    MergeClause(when="matched", then="update"),
    MergeClause(when="not matched", then="insert"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """The match condition and the clauses of a merge."""

    keys: tuple[str, ...]
    predicate: str | None
    clauses: tuple[MergeClause, ...]
    target_alias: str = "target"
    source_alias: str = "source"

    @property
    def is_upsert_by_keys(self) -> bool:
        """Whether merging the same rows again changes nothing."""
        return self.predicate is None and self.clauses == UPSERT

    @property
    def takes_columns_whole(self) -> bool:
        """Whether each value comes from the output column of the same name."""
        return all(each.values is None for each in self.clauses)


def merge_settings(by_key: Mapping[str, Setting]) -> MergeSettings:
    """Read the merge settings of an output.

    Args:
        by_key: The settings of `MERGE_KEYS` and of the mode.

    Raises:
        InvalidRequestError: A value is invalid, or both keys and predicate are missing.
    """
    keys, predicate, clauses, aliases = (by_key[key] for key in MERGE_KEYS)
    columns = read_columns(keys) or ()
    if predicate.value is not None and not isinstance(predicate.value, str):
        raise predicate.rejection('a condition such as "target.id = source.id"')
    if not columns and not predicate.value:
        place = by_key["delta/mode"].place if keys.value is None else keys.place
        raise InvalidRequestError(
            f"{place} do not say which rows a merge matches; give delta/merge_keys, the columns "
            "that must be equal, or a delta/merge_predicate. Nothing was written"
        )
    names = _aliases(aliases)
    return MergeSettings(
        keys=columns,
        predicate=predicate.value or None,
        clauses=_clauses(clauses),
        target_alias=names["target"],
        source_alias=names["source"],
    )


def _aliases(setting: Setting) -> Mapping[str, str]:
    wanted = '"target" and "source" to names, such as {"target": "t", "source": "s"}'
    names = {**dict(zip(_SIDES, _SIDES, strict=True)), **(read_texts(setting, wanted) or {})}
    if set(names) != set(_SIDES) or names["target"].lower() == names["source"].lower():
        raise setting.rejection(f"a mapping of {wanted}")
    return names


def _clauses(setting: Setting) -> tuple[MergeClause, ...]:
    if setting.value is None:
        return UPSERT
    wanted = 'a list of clauses such as {"when": "matched", "then": "update", "if": "..."}'
    if not isinstance(setting.value, list | tuple) or not setting.value:
        raise setting.rejection(wanted)
    return tuple(_clause(setting, each) for each in setting.value)


def _clause(setting: Setting, clause: Any) -> MergeClause:
    when: Any
    then: Any

    def rejection(reason: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"{setting.place} have the clause {clause!r} in {setting.key}, {reason}. "
            "Nothing was written"
        )

    if not isinstance(clause, Mapping):
        raise rejection("which is not a mapping")
    unknown = [name for name in clause if name not in _WORDS]
    if unknown:
        raise rejection(f"where {unknown[0]!r} is unknown; choose from {', '.join(_WORDS)}")
    when, then = clause.get("when"), clause.get("then")
    if when is None or when not in _ACTIONS:
        raise rejection(f"whose when is {when!r}; choose from {', '.join(_ACTIONS)}")
    if then not in _ACTIONS[when]:
        raise rejection(
            f"whose then is {then!r}; for {when!r} choose {' or '.join(_ACTIONS[when])}"
        )
    condition, values, left_out = (clause.get(name) for name in _WORDS[2:])
    if condition is not None and not isinstance(condition, str):
        raise rejection("whose if is not a SQL string")
    is_mapping = isinstance(values, Mapping) and all(isinstance(name, str) for name in values)
    if values is not None and (then == "delete" or not is_mapping):
        raise rejection("whose set is not a mapping of columns to values, or belongs to a delete")
    if values is None and (when, then) == ("not matched by source", "update"):
        raise rejection("which needs a set, because there is no output row to take values from")
    takes_all = values is None and then != "delete"
    if left_out is not None and not (are_texts(left_out) and takes_all):
        raise rejection("whose except is not a list of columns, or is used without all columns")
    return MergeClause(
        when=when, then=then, condition=condition, values=values, left_out=tuple(left_out or ())
    )
