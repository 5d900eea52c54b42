"""A plain model of rows: which rows a condition selects, and whether two tables hold the same."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import col
from delta_ops.errors import DeltaOpsError
from delta_ops.log import Source
from delta_ops.protocol.predicate import Predicate
from tests.sweep.odd_tables import copy_of

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "__eq__": operator.eq,
    "__ne__": operator.ne,
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
}


def quoted(*path: str) -> str:
    """The path of a column as users write it."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


class Leaf(NamedTuple):
    """A column, or a field of a struct, whose values can be compared."""

    path: tuple[str, ...]
    values: list[Any]

    @property
    def name(self) -> str:
        return quoted(*self.path)


def leaves(rows: pa.Table) -> Iterator[Leaf]:
    """The columns and fields of structs with an order."""
    for each in rows.schema:
        yield from _leaves((each.name,), each.type, rows[each.name].to_pylist())


def _leaves(path: tuple[str, ...], data_type: pa.DataType, values: list[Any]) -> Iterator[Leaf]:
    if pa.types.is_struct(data_type):
        for member in data_type:
            below = [None if each is None else each[member.name] for each in values]
            yield from _leaves((*path, member.name), member.type, below)
    elif not pa.types.is_nested(data_type) and not pa.types.is_null(data_type):
        yield Leaf(path, values)


def order_key(value: Any) -> Any:
    """Orders values as Spark does: NaN last, zeros alike, texts by their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


class Condition(NamedTuple):
    """A predicate, and the rows of a model that match it."""

    predicate: Predicate
    mask: list[bool]

    def of(self, rows: pa.Table, repeated: int = 1) -> pa.Table:
        return rows.filter(pa.array(self.mask * repeated, pa.bool_()))

    def others(self, rows: pa.Table) -> pa.Table:
        return rows.filter(pa.array([not each for each in self.mask], pa.bool_()))


def conditions(rows: pa.Table, at_most: int | None = None) -> list[Condition]:
    """Conditions on each leaf, with the values of the rows."""
    found = [each for leaf in leaves(rows) for each in _conditions(leaf)]
    return found[:: max(1, len(found) // at_most)] if at_most else found


def _conditions(leaf: Leaf) -> Iterator[Condition]:
    column, values = col(leaf.name), leaf.values
    keys = [None if each is None else order_key(each) for each in values]
    is_null = [each is None for each in keys]
    yield Condition(column.is_null(), is_null)
    yield Condition(~column.is_null(), [not each for each in is_null])
    chosen = [each for each in values if each is not None][:4]
    for value in chosen:
        for name, compare in _COMPARE.items():
            if isinstance(value, bool) and name not in ("__eq__", "__ne__"):
                continue
            mask = [key is not None and compare(key, order_key(value)) for key in keys]
            yield Condition(getattr(column, name)(value), mask)
        unlike = [key is not None and key != order_key(value) for key in keys]
        yield Condition(~(column == value), unlike)
        like = [not each for each in unlike]
        yield Condition((column == value) | column.is_null(), like)
    wanted = [order_key(each) for each in chosen]
    yield Condition(column.isin(chosen), [key is not None and key in wanted for key in keys])


def counted(rows: pa.Table) -> Counter[str]:
    """The rows as texts: 0.0 differs from -0.0, and NaN equals NaN."""
    return Counter(map(repr, rows.to_pylist()))


def validate_same(found: pa.Table, expected: pa.Table, what: str) -> None:
    """Compare columns and rows, in any order of rows."""
    assert found.schema.equals(expected.schema), f"{what}: {found.schema}"
    surplus, missing = counted(found) - counted(expected), counted(expected) - counted(found)
    assert (surplus, missing) == (Counter(), Counter()), what


def repeated(rows: pa.Table, times: int = 2) -> pa.Table:
    """The rows several times."""
    return pa.concat_tables([rows] * times)


def with_nulls(rows: pa.Table, column: str, mask: Sequence[bool]) -> pa.Table:
    """The rows with nulls in a column where the mask is true."""
    known = rows.schema.field(column)
    values = [
        None if is_null else value
        for is_null, value in zip(mask, rows[column].to_pylist(), strict=True)
    ]
    place = rows.schema.get_field_index(column)
    return rows.set_column(place, known, pa.array(values, known.type))


@dataclass(frozen=True, kw_only=True)
class OddTable:
    """A table and its rows."""

    root: Path
    rows: pa.Table
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def names(self) -> list[str]:
        names: list[str] = self.rows.schema.names
        return names

    @property
    def none(self) -> pa.Table:
        return self.rows.slice(0, 0)

    def copy(self, *, appended: int = 0) -> Path:
        """A copy of the table, with the rows appended some times."""
        root = copy_of(self.root, self.root.parent / f"copy-{next(self._numbers)}")
        for _ in range(appended):
            with may_reject():
                da.write(root, self.rows)
        return root


@contextmanager
def may_reject() -> Iterator[None]:
    """Pass if delta_ops rejects the call."""
    with suppress(DeltaOpsError):
        yield


def validate(source: Source, rows: pa.Table, what: str, num_conditions: int = 3) -> None:
    """Compare all rows, and the rows of some conditions."""
    validate_same(da.to_table(source), rows, what)
    assert da.count_rows(source) == len(rows), what
    for each in conditions(rows, num_conditions):
        validate_same(
            da.to_table(source, predicate=each.predicate),
            each.of(rows),
            f"{what}: {each.predicate}",
        )
        assert da.count_rows(source, each.predicate) == sum(each.mask), each.predicate
