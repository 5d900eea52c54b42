"""Source rules: conditions that every source row must meet; otherwise nothing is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import TRUE, Column, Predicate, all_of
from delta_ops.protocol.schema import BINARY, STRING, DataType, StructType

_EMPTY: Mapping[DataType, str | bytes] = {STRING: "", BINARY: b""}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """A predicate on the source's columns that must be true for every row."""

    predicate: Predicate
    message: str
    """The error for other rows, with the cure and without the table."""
    filled: Sequence[str] = ()
    """Columns that also must not hold empty texts or bytes."""
    error_class: str | None = None
    """The reference's error class of rows that break the rule."""

    def predicate_on(self, source: StructType) -> Predicate:
        """The whole rule as a predicate, for a source with this schema."""
        return all_of((self.predicate, *(_is_filled(name, source) for name in self.filled)))


def key_rule(keys: Sequence[str], rows: str, partition_columns: Sequence[str]) -> SourceRule:
    """Require keys that are not null, for a merge that inserts unmatched rows.

    Args:
        keys: Columns of the source.
        rows: The name of the source, for messages.
        partition_columns: Partition columns of the table. An empty partition value is stored as
            null, so an empty key is rejected too.
    """
    partitions = {name.lower() for name in partition_columns}
    filled = [key for key in keys if key.lower() in partitions]
    is_empty = f", or whose partition column {' or '.join(filled)} is empty" if filled else ""
    return SourceRule(
        predicate=all_of(Column((key,)).is_not_null() for key in keys),
        message=(
            f"{rows} has rows whose {' or '.join(keys)} is null{is_empty}: such rows never match, "
            "so each merge would insert them again; fill in the keys, or leave the rows out"
        ),
        filled=filled,
    )


def _is_filled(name: str, source: StructType) -> Predicate:
    found = source.fields_by_lower_name.get(name.lower(), ())
    empty = next((_EMPTY[each.data_type] for each in found if each.data_type in _EMPTY), None)
    return TRUE if empty is None else Column((name,)) != empty


def validate_broken(rules: Sequence[SourceRule], num_broken: Sequence[int], table: str) -> None:
    """Reject a source with rows that break a rule.

    Args:
        num_broken: For each rule, the number of rows that break it.

    Raises:
        InvalidRequestError: A row breaks a rule; the error has the number of rows.
    """
    for rule, number in zip(rules, num_broken, strict=True):
        if number:
            raise InvalidRequestError(f"{table}: {rule.message} (rows: {number})", rule.error_class)
