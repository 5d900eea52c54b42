"""Merge operations: the clauses of a custom merge of dagster-delta."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from delta_ops.errors import InvalidRequestError


class Dumped:
    """A value of dagster-delta that becomes a mapping, for metadata."""

    __slots__ = ()

    def model_dump(self: Any) -> dict[str, Any]:
        """The fields, as a mapping of plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationConfig(Dumped):
    """A clause with a condition."""

    predicate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationAllConfig(Dumped):
    """A clause that takes all columns of the source, without excluded columns."""

    predicate: str | None = None
    except_cols: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationWithUpdatesConfig(Dumped):
    """A clause that sets columns to SQL expressions."""

    updates: Mapping[str, str]
    predicate: str | None = None


class WhenNotMatchedInsert(OperationWithUpdatesConfig):
    """Inserts rows with the given values."""


class WhenNotMatchedInsertAll(OperationAllConfig):
    """Inserts rows of the source."""


class WhenMatchedUpdate(OperationWithUpdatesConfig):
    """Updates matched rows with the given values."""


class WhenMatchedUpdateAll(OperationAllConfig):
    """Updates matched rows with all columns of the source."""


class WhenMatchedDelete(OperationConfig):
    """Deletes matched rows."""


class WhenNotMatchedBySourceDelete(OperationConfig):
    """Deletes rows that no source row matches."""


class WhenNotMatchedBySourceUpdate(OperationWithUpdatesConfig):
    """Updates rows that no source row matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOperationsConfig(Dumped):
    """The clauses of a merge. They apply in the order of these fields."""

    when_not_matched_insert: Sequence[Any] | None = None
    when_not_matched_insert_all: Sequence[Any] | None = None
    when_matched_update: Sequence[Any] | None = None
    when_matched_update_all: Sequence[Any] | None = None
    when_matched_delete: Sequence[Any] | None = None
    when_not_matched_by_source_delete: Sequence[Any] | None = None
    when_not_matched_by_source_update: Sequence[Any] | None = None


CLAUSES: Mapping[str, tuple[str, str]] = {
    "when_not_matched_insert": ("not matched", "insert"),
    "when_not_matched_insert_all": ("not matched", "insert"),
    "when_matched_update": ("matched", "update"),
    "when_matched_update_all": ("matched", "update"),
    "when_matched_delete": ("matched", "delete"),
    "when_not_matched_by_source_delete": ("not matched by source", "delete"),
    "when_not_matched_by_source_update": ("not matched by source", "update"),
}
_KEYS = {"predicate": "if", "updates": "set", "except_cols": "except"}


def merge_clauses(value: Any, where: str) -> list[dict[str, Any]]:
    """Translate merge operations to `delta/merge_clauses`.

    Args:
        value: A `MergeOperationsConfig`, or a mapping with its fields.

    Raises:
        InvalidRequestError: A field is unknown, or there is no clause.
    """
    found = [
        {"when": CLAUSES[name][0], "then": CLAUSES[name][1], **_clause(each, f"{where}: {name}")}
        for name, operations in _fields(value, CLAUSES, where)
        for each in operations or ()
    ]
    if not found:
        raise InvalidRequestError(
            f"{where} has no clause; give {', '.join(CLAUSES)}. Nothing was written"
        )
    return found


def _clause(value: Any, where: str) -> dict[str, Any]:
    return {_KEYS[name]: each for name, each in _fields(value, _KEYS, where) if each is not None}


def _fields(value: Any, known: Iterable[str], where: str) -> Iterator[tuple[str, Any]]:
    """The fields of a mapping or a dataclass, in the order of the known names."""
    if not isinstance(value, Mapping):
        if not hasattr(value, "__dataclass_fields__"):
            raise InvalidRequestError(
                f"{where} of type {type(value).__name__}; give a mapping or the class of "
                "dagster-delta of delta_ops. Nothing was written"
            )
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    unknown = [name for name in value if name not in known]
    if unknown:
        raise InvalidRequestError(
            f"{where} has {', '.join(map(repr, unknown))}; choose from {', '.join(known)}. Nothing "
            "was written"
        )
    return ((name, value[name]) for name in known if name in value)
