"""Merge columns: resolve names over the columns of a merge's target and source.

A resolved column starts with `TARGET` or `SOURCE`, independent of the aliases. A name without an
alias is valid if only one side has the column, or if there are rows of one side only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.expression.nodes import (
    Call,
    Column,
    Node,
    columns_of,
    conjuncts_of,
    join_conjuncts,
    map_nodes,
)
from delta_ops.protocol.expression.quotes import validate_quotes
from delta_ops.protocol.expression.resolution import Find, Found, locate
from delta_ops.protocol.expression.time_functions import bind_time
from delta_ops.protocol.predicate import TRUE, Or, Predicate
from delta_ops.protocol.schema import BINARY, STRING, ColumnPath, StructType, find_field
from delta_ops.protocol.schema.char_types import char_length
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction.requests import ClauseKind

Side = Literal["target", "source"]
TARGET: Side = "target"
SOURCE: Side = "source"
SIDES: Mapping[ClauseKind, Sequence[Side]] = {
    "matched": (TARGET, SOURCE),
    "not matched": (SOURCE,),
    "not matched by source": (TARGET,),
}
"""The sides that have a row, for each kind of clause."""
NO_KEYS: Mapping[str, int] = MappingProxyType({})
"""No keys of `unmatchable_keys`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeColumns:
    """The columns of both sides of a merge."""

    target: StructType
    source: StructType
    target_alias: str
    source_alias: str
    unusable: Mapping[str, str] = field(default_factory=dict)
    """Source columns whose values cannot be used, with the reason, by name."""

    def finder(self, sides: Sequence[Side] = (TARGET, SOURCE)) -> Find:
        """Return a function that finds a column by its path; it may use only these sides.

        A clause for rows without a match has rows of one side only.
        """

        def find(path: ColumnPath) -> Found:
            side, rest = self._side_of(path, sides)
            if side not in sides:
                raise InvalidRequestError(
                    f"Column {'.'.join(path)} belongs to the {side}, which has no row in this "
                    f"clause; use columns of the {sides[0]} only"
                )
            try:
                found = locate(rest, self.target if side == TARGET else self.source)
            except UnknownColumnError as error:
                raise UnknownColumnError(f"In the {side} of the merge: {error}") from error
            if side == SOURCE and found.path[0] in self.unusable:
                raise InvalidRequestError(self.unusable[found.path[0]])
            return found._replace(path=(side, *found.path))

        return find

    def _side_of(self, path: ColumnPath, sides: Sequence[Side]) -> tuple[Side, ColumnPath]:
        first = path[0].lower()
        if len(path) > 1 and first == self.target_alias.lower():
            return TARGET, path[1:]
        if len(path) > 1 and first == self.source_alias.lower():
            return SOURCE, path[1:]
        is_in_target = first in self.target.fields_by_lower_name
        is_in_source = first in self.source.fields_by_lower_name
        if is_in_target and is_in_source:
            if len(sides) == 1:
                return sides[0], path
            raise InvalidRequestError(
                f"Column {'.'.join(path)} is in both target and source; write "
                f"{self.target_alias}.{path[0]} or {self.source_alias}.{path[0]}"
            )
        if not is_in_target and not is_in_source:
            raise UnknownColumnError(
                f"There is no column {'.'.join(path)}, neither in {self.target_alias} "
                f"({', '.join(f.name for f in self.target.fields)}) nor in {self.source_alias} "
                f"({', '.join(f.name for f in self.source.fields)})."
            )
        return (TARGET if is_in_target else SOURCE), path


def sides_of(node: Node, find: Find) -> frozenset[str]:
    """Return the sides whose columns an unresolved tree uses."""
    return frozenset(find(each.path).path[0] for each in columns_of(node))


def names_of(columns: Iterable[Column], side: Side) -> set[str]:
    """Return the top-level columns of one side among resolved columns."""
    return {each.path[1] for each in columns if each.path[0] == side}


def localize(node: Node, find: Find) -> Node:
    """Remove the alias from all columns of an unresolved tree, which uses only one side."""
    return map_nodes(
        node, lambda each: Column(find(each.path).path[1:]) if isinstance(each, Column) else None
    )


class SplitCondition(NamedTuple):
    """A merge condition, split into key equalities and the rest."""

    keys: Sequence[tuple[Node, Node]]
    """Pairs of a target column and a source value that must be equal."""
    residual: Node | None
    """The rest of the condition, not resolved."""
    is_null_safe: bool = False
    """Whether a null key equals a null key."""


def split_condition(predicate: Expression, columns: MergeColumns, now_ms: int) -> SplitCondition:
    """Split a merge condition into key equalities and other conditions.

    Null-safe equalities are keys only if there are no other equalities.

    Args:
        now_ms: Time of the merge, in milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: There is no key equality, a name does not exist, or a name is in double
            quotes.
    """
    find = columns.finder()
    validate_quotes(predicate.text, find)
    conjuncts = list(conjuncts_of(bind_time(predicate.root, now_ms)))
    for each in conjuncts:
        sides_of(each, find)  # rejects unknown names
    for operator in ("=", "<=>"):
        found = [_key_of(each, operator, columns) for each in conjuncts]
        others = tuple(each for each, key in zip(conjuncts, found, strict=True) if key is None)
        if keys := [key for key in found if key is not None]:
            return SplitCondition(keys, join_conjuncts(others), operator == "<=>")
    raise InvalidRequestError(
        f"The predicate {predicate.text!r} of a merge has no equality between a target column and "
        f"a source column, as in {columns.target_alias}.id = {columns.source_alias}.id, combined "
        "with other conditions by AND; add one"
    )


def unmatchable_keys(
    keys: Iterable[tuple[Node, Node]], columns: MergeColumns, definition: TableDefinition
) -> dict[str, int]:
    """Return the minimum length of a key that can match a row, by the column of the key.

    A shorter key never matches the row that was inserted with it. Partitions store empty texts as
    null. Readers pad a CHAR, and Spark compares the padded text with the source's text, which is
    not padded.

    Args:
        keys: The keys of `split_condition`.
        definition: The table's definition.
    """
    find = columns.finder()
    pairs = [(find(key.path).path[1:], given) for key, given in keys if isinstance(key, Column)]
    names = {path for path, _ in pairs}
    least = {name: 1 for name in _texts_of_partitions(definition) if (name,) in names}
    for path, given in pairs:
        length = char_length(path[:1], find_field(definition.schema, path[0]))
        if len(path) == 1 and length is not None and isinstance(given, Column):
            least[path[0]] = length
    return least


def looks_beyond_keys(
    condition: SplitCondition, columns: MergeColumns, definition: TableDefinition
) -> bool:
    """Return whether the condition uses partition columns of text beside its key equalities.

    An empty text becomes null when it is stored as a partition value. Such a condition can
    therefore have another result for the stored row than for the source row.
    """
    if condition.residual is None:
        return False
    find, texts = columns.finder(), _texts_of_partitions(definition)
    paths = (find(each.path).path for each in columns_of(condition.residual))
    return any(path[0] == TARGET and path[1] in texts for path in paths)


def _texts_of_partitions(definition: TableDefinition) -> frozenset[str]:
    """Return the partition columns that may receive empty values."""
    fields = definition.partition_fields
    return frozenset(each.name for each in fields if each.data_type in (STRING, BINARY))


def unmatchable_message(key: str, least: int = 1) -> str:
    """Return the error text for inserted rows that a later merge could not match by their key.

    Args:
        key: The key column.
        least: The length of a CHAR key; 1 for an empty text in a partition column.
    """
    if least > 1:
        return (
            f"the source has rows with a shorter {key} than its type CHAR({least}), which readers "
            "pad with spaces: such rows never match, so each merge would insert them again; pad "
            f"the source's key with spaces to {least} characters"
        )
    return (
        f"the source has rows with an empty {key}, which partition column {key!r} stores as null "
        "(as spaces if it is CHAR): such rows never match, so each merge would insert them "
        "again; fill in the key, or leave the rows out"
    )


def implied_on_target(condition: Node | None, columns: MergeColumns) -> Predicate:
    """Return a predicate on the target that is true wherever a condition is true.

    Args:
        condition: An unresolved condition over both sides; None means always true.
    """
    find = columns.finder()
    conjuncts = () if condition is None else conjuncts_of(condition)
    of_target = [each for each in conjuncts if sides_of(each, find) == {TARGET}]
    joined = join_conjuncts(tuple(localize(each, find) for each in of_target))
    return TRUE if joined is None else implied_predicate(joined, columns.target)


def rows_to_read(
    covering: Predicate, others: Sequence[Node | None], columns: MergeColumns
) -> Predicate:
    """Return a predicate for the target rows that the result of a merge depends on.

    Args:
        covering: True for every row that can match a source row.
        others: The condition of each clause for rows without a match; None means always or unknown.
    """
    if None in others:
        return TRUE
    find = columns.finder((TARGET,))
    roots = [each for each in others if each is not None]
    parts = [covering, *(implied_predicate(localize(each, find), columns.target) for each in roots)]
    if len(parts) == 1:
        return covering
    return TRUE if TRUE in parts else Or(tuple(parts))


def _key_of(node: Node, operator: str, columns: MergeColumns) -> tuple[Node, Node] | None:
    if not isinstance(node, Call) or node.name != operator:
        return None
    find = columns.finder()
    for column, value in (node.operands, node.operands[::-1]):
        if not isinstance(column, Column) or sides_of(value, find) != {SOURCE}:
            continue
        if find(column.path).path[0] == TARGET:
            return column, value
    return None
