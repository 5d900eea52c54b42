"""Merge words: how dagster-delta and dagster-iceberg say a merge, in our settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from delta_ops.errors import InvalidRequestError

OUR_MERGE = (
    "say it by delta/mode merge, with delta/merge_keys or delta/merge_predicate, and with "
    "delta/merge_clauses for more than update and insert"
)
_UPDATE = {"when": "matched", "then": "update"}
_INSERT = {"when": "not matched", "then": "insert"}
_DELETE_OTHERS = {"when": "not matched by source", "then": "delete"}


class MergeType(StrEnum):
    """What a merge does; `custom` is refused where it is used."""

    deduplicate_insert = "deduplicate_insert"
    update_only = "update_only"
    upsert = "upsert"
    replace_delete_unmatched = "replace_and_delete_unmatched"
    custom = "custom"


_CLAUSES = {
    MergeType.deduplicate_insert: [_INSERT],
    MergeType.update_only: [_UPDATE],
    MergeType.upsert: [_UPDATE, _INSERT],
    MergeType.replace_delete_unmatched: [_UPDATE, _DELETE_OTHERS],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConfig:
    """A merge of dagster-delta."""

    merge_type: MergeType | str
    predicate: str | None = None
    source_alias: str | None = None
    target_alias: str | None = None
    error_on_type_mismatch: bool = True


def read_merge_config(value: Any, said: str) -> Mapping[str, Any]:
    """The reader of `merge_config`."""
    config = MergeConfig(**value) if isinstance(value, Mapping) else value
    if not isinstance(config, MergeConfig):
        raise InvalidRequestError(f"{said} of type {type(value).__name__}; give a MergeConfig")
    if config.merge_type not in _CLAUSES:
        raise InvalidRequestError(
            f"{said} with the merge_type {str(config.merge_type)!r}; choose from "
            f"{', '.join(each.value for each in _CLAUSES)}, or {OUR_MERGE}"
        )
    if not config.error_on_type_mismatch:
        raise InvalidRequestError(
            f"{said} with error_on_type_mismatch=False: a value that does not fit its column is "
            "refused here; leave it out"
        )
    aliases = {"source": config.source_alias, "target": config.target_alias}
    settings = {
        "delta/merge_clauses": _CLAUSES[MergeType(config.merge_type)],
        "delta/merge_predicate": config.predicate,
        "delta/merge_aliases": {side: name for side, name in aliases.items() if name},
    }
    return {name: value for name, value in settings.items() if value}


def read_upsert_options(value: Any, said: str) -> Mapping[str, Any]:
    """The reader of `upsert_options`."""
    flags = {"when_matched_update_all": _UPDATE, "when_not_matched_insert_all": _INSERT}
    if not isinstance(value, Mapping) or set(value) - {"join_cols", *flags}:
        raise InvalidRequestError(f"{said}; give join_cols and, if need be, {', '.join(flags)}")
    clauses = [clause for name, clause in flags.items() if value.get(name, True)]
    return {"delta/merge_keys": value.get("join_cols"), "delta/merge_clauses": clauses}


def read_iceberg_mode(value: Any, _said: str) -> Mapping[str, Any]:
    """The reader of `write_mode`."""
    return {"delta/mode": "merge" if value == "upsert" else value}
