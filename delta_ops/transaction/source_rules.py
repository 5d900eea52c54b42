"""Source rules: what every row of a merge's source must be, or nothing is merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import TRUE, Column, Predicate, all_of
from delta_ops.protocol.schema import BINARY, STRING, DataType, StructType

_EMPTY: Mapping[DataType, str | bytes] = {STRING: "", BINARY: b""}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """A predicate on the source's columns that is true of each of its rows."""

    predicate: Predicate
    message: str
    """What is wrong with other rows and how to cure it, without the table."""
    filled: Sequence[str] = ()
    """Columns that hold no empty text or bytes either."""

    def predicate_on(self, source: StructType) -> Predicate:
        """The predicate over a source with these columns."""
        return all_of((self.predicate, *(_is_filled(name, source) for name in self.filled)))


def key_rule(keys: Sequence[str], rows: str, partition_columns: Sequence[str]) -> SourceRule:
    """No key is null, of a merge by keys that inserts what meets no row.

    Args:
        keys: Columns of the source.
        rows: What the source is called.
        partition_columns: The table's; an empty value of one is stored as null.
    """
    partitions = {name.lower() for name in partition_columns}
    filled = [key for key in keys if key.lower() in partitions]
    is_empty = f", or whose partition column {' or '.join(filled)} is empty" if filled else ""
    return SourceRule(
        predicate=all_of(Column((key,)).is_not_null() for key in keys),
        message=(
            f"{rows} has rows whose {' or '.join(keys)} is null{is_empty}, which meet no row, so "
            "that each merge would add them again; fill the keys, or leave the rows out"
        ),
        filled=filled,
    )


def _is_filled(name: str, source: StructType) -> Predicate:
    found = source.fields_by_lower_name.get(name.lower(), ())
    empty = next((_EMPTY[each.data_type] for each in found if each.data_type in _EMPTY), None)
    return TRUE if empty is None else Column((name,)) != empty


def validate_broken(rules: Sequence[SourceRule], num_broken: Sequence[int], table: str) -> None:
    """Refuse a source with rows that break a rule.

    Args:
        num_broken: For each rule, the rows of which it is not true.

    Raises:
        InvalidRequestError: With the rule and the number of rows.
    """
    for rule, number in zip(rules, num_broken, strict=True):
        if number:
            raise InvalidRequestError(f"{table}: {rule.message} (rows: {number})")
