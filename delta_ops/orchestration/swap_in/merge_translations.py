"""Merge translations: merge settings of other integrations, translated to ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.swap_in.merge_operations import CLAUSES, Dumped, merge_clauses

OUR_MERGE = (
    "use delta/mode merge, with delta/merge_keys or delta/merge_predicate, and with "
    "delta/merge_clauses for more than update and insert"
)
_UPDATE = {"when": "matched", "then": "update"}
_INSERT = {"when": "not matched", "then": "insert"}
_DELETE_OTHERS = {"when": "not matched by source", "then": "delete"}


class MergeType(StrEnum):
    """The clauses of a merge; `custom` takes them from `merge_operations_config`."""

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


MERGE_FLAGS: Mapping[str, tuple[Mapping[str, str], bool]] = {
    "when_matched_update_all": (_UPDATE, True),
    "when_not_matched_insert_all": (_INSERT, True),
    "when_not_matched_by_source_delete": (_DELETE_OTHERS, False),
}
"""Merge flags of dagster-polars: the clause of each, and whether it is set by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConfig(Dumped):
    """A merge of dagster-delta."""

    merge_type: MergeType | str
    predicate: str | None = None
    source_alias: str | None = None
    target_alias: str | None = None
    error_on_type_mismatch: bool = True
    merge_operations_config: Any = None
    """Clauses of the merge type `custom`."""


def translate_merge_config(value: Any, where: str) -> Mapping[str, Any]:
    """Translation of `merge_config`."""
    known = [each.name for each in fields(MergeConfig)]
    if isinstance(value, Mapping) and (set(value) - set(known) or "merge_type" not in value):
        raise InvalidRequestError(
            f"{where} with {', '.join(map(repr, value))}; give a merge_type and optionally "
            f"{', '.join(known[1:])}"
        )
    config = MergeConfig(**value) if isinstance(value, Mapping) else value
    if not isinstance(config, MergeConfig):
        raise InvalidRequestError(f"{where} of type {type(value).__name__}; give a MergeConfig")
    if config.merge_type not in list(MergeType):
        raise InvalidRequestError(
            f"{where} with the merge_type {str(config.merge_type)!r}; choose from "
            f"{', '.join(MergeType)}"
        )
    if config.merge_operations_config and config.merge_type != MergeType.custom:
        raise InvalidRequestError(
            f"{where} with merge_operations_config and the merge_type "
            f"{str(config.merge_type)!r}, which has clauses of its own; choose the merge_type "
            "'custom', or leave merge_operations_config out. Nothing was written"
        )
    if not config.error_on_type_mismatch:
        raise _mismatch_error(where)
    aliases = _aliases(config.source_alias, config.target_alias)
    settings = {
        "delta/merge_clauses": _clauses_of(config, where),
        "delta/merge_predicate": config.predicate,
        "delta/merge_aliases": aliases,
    }
    return {name: value for name, value in settings.items() if value not in (None, {})}


def _clauses_of(config: MergeConfig, where: str) -> Any:
    """The clauses of a merge type; empty, which is rejected, for a custom merge without any."""
    if config.merge_type != MergeType.custom:
        return _CLAUSES[MergeType(config.merge_type)]
    operations = config.merge_operations_config
    return merge_clauses(operations, f"{where} with merge_operations_config") if operations else []


def translate_merge_operations(value: Any, where: str) -> Mapping[str, Any]:
    """Translation of `merge_operations_config` in metadata."""
    return {"delta/merge_clauses": merge_clauses(value, where)}


def translate_merge_options(value: Any, where: str) -> Mapping[str, Any]:
    """Translation of `delta_merge_options` of dagster-polars, arguments of deltalake's merge."""
    known = ("predicate", "source_alias", "target_alias", "merge_schema", "error_on_type_mismatch")
    if not isinstance(value, Mapping) or set(value) - set(known):
        raise InvalidRequestError(
            f"{where}, but delta_ops supports only the options {', '.join(known)}; {OUR_MERGE}. "
            "Nothing was written"
        )
    if value.get("error_on_type_mismatch") is False:
        raise _mismatch_error(where)
    settings = {
        "delta/merge_predicate": value.get("predicate"),
        "delta/merge_aliases": _aliases(value.get("source_alias"), value.get("target_alias")),
        "delta/merge_schema": value.get("merge_schema"),
    }
    return {name: setting for name, setting in settings.items() if setting}


def unite_merge_flags(metadata: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Unite the merge flags in metadata of dagster-polars into one setting.

    Raises:
        InvalidRequestError: A flag is neither True nor False, the clauses are set twice, or a
            clause of dagster-delta is set.
    """
    unknown = [name for name in CLAUSES if name in metadata and name not in MERGE_FLAGS]
    if unknown:
        raise InvalidRequestError(
            f"{place} have {unknown[0]}, which delta_ops does not read; {OUR_MERGE}. "
            "Nothing was written"
        )
    kept = {name: value for name, value in metadata.items() if name not in MERGE_FLAGS}
    flags = {name: metadata[name] for name in MERGE_FLAGS if metadata.get(name) is not None}
    if not flags:
        return kept
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InvalidRequestError(f"{place} have {name} {value!r}; choose True or False")
    if "delta/merge_clauses" in kept:
        raise InvalidRequestError(
            f"{place} have {next(iter(flags))} and another value for delta/merge_clauses; leave "
            "one of them out"
        )
    clauses = [
        clause for name, (clause, default) in MERGE_FLAGS.items() if flags.get(name, default)
    ]
    return {**kept, "delta/merge_clauses": clauses}


def _aliases(source: Any, target: Any) -> Mapping[str, Any]:
    return {side: name for side, name in (("source", source), ("target", target)) if name}


def _mismatch_error(where: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{where} with error_on_type_mismatch=False, but delta_ops always rejects a value that "
        "does not fit its column; leave it out"
    )


def translate_upsert_options(value: Any, where: str) -> Mapping[str, Any]:
    """Translation of `upsert_options`, a mapping or a value of dagster-iceberg's class."""
    config = _mapping_of(value)
    flags = {"when_matched_update_all": _UPDATE, "when_not_matched_insert_all": _INSERT}
    if not isinstance(config, Mapping) or set(config) - {"join_cols", *flags}:
        raise InvalidRequestError(f"{where}; give join_cols and optionally {', '.join(flags)}")
    for name in flags:
        if not isinstance(config.get(name, True), bool):
            raise InvalidRequestError(f"{where} with {name} {config[name]!r}; choose True or False")
    clauses = [clause for name, clause in flags.items() if config.get(name, True)]
    keys = {"delta/merge_keys": config["join_cols"]} if "join_cols" in config else {}
    return {**keys, "delta/merge_clauses": clauses}


def _mapping_of(value: Any) -> Any:
    """The fields of a pydantic model or a dataclass; any other value unchanged."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def translate_iceberg_mode(value: Any, _where: str) -> Mapping[str, Any]:
    """Translation of `write_mode`."""
    return {"delta/mode": "merge" if value == "upsert" else value}
