"""Source rules: what every row of a merge's source must be, or nothing is merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import Predicate, all_of, col


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """A predicate on the source's columns that is true of each of its rows."""

    predicate: Predicate
    message: str
    """What is wrong with other rows and how to cure it, without the table."""


def key_rule(keys: Sequence[str], rows: str) -> SourceRule:
    """No key is null, of a merge by keys that inserts what meets no row.

    Args:
        keys: Columns of the source.
        rows: What the source is called.
    """
    return SourceRule(
        predicate=all_of(col(key).is_not_null() for key in keys),
        message=(
            f"{rows} has rows whose {' or '.join(keys)} is null, which meet no row, so that each "
            "merge would add them again; fill the keys, or leave the rows out"
        ),
    )


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
