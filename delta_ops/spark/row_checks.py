"""Row checks: conditions that no row may meet, counted while Spark writes the rows.

Counting takes no second pass over the rows and does not depend on how Spark orders expressions, as
an error raised by one does. What is found broken is written all the same, and deleted again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import ArrayType, DataType, MapType, StructType
from delta_ops.spark.expressions import named


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCheck:
    """A rule of the table."""

    num_broken: Column
    """An aggregate over the rows that is 0 where all of them keep the rule."""
    message: str
    """What is wrong and how to cure it, without the table."""


def counts_of(checks: Sequence[RowCheck]) -> list[Column]:
    """How many rows break each rule, as columns of an observation."""
    return [each.num_broken.alias(str(i)) for i, each in enumerate(checks)]


def validate_counts(checks: Sequence[RowCheck], counts: Mapping[str, Any], table: str) -> None:
    """Refuse rows that break a rule.

    Raises:
        InvalidRequestError: With the rule and the number of rows.
    """
    for i, check in enumerate(checks):
        if counts[str(i)]:
            raise InvalidRequestError(f"{table}: {check.message} (rows: {counts[str(i)]})")


def null_checks(schema: StructType) -> Iterator[RowCheck]:
    """A check for each column of the schema that must not be null, at any depth."""
    for each in schema.fields:
        yield from _null_checks(named(each.name), each.data_type, each.nullable, each.name, None)


def _null_checks(
    value: Column, data_type: DataType, nullable: bool, path: str, parent_is_there: Column | None
) -> Iterator[RowCheck]:
    if not nullable:
        # A field that must not be null may be so where its parent is.
        is_missing = value.isNull()
        yield _null_check(
            is_missing if parent_is_there is None else parent_is_there & is_missing, path
        )
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from _null_checks(
                value.getField(field.name),
                field.data_type,
                field.nullable,
                f"{path}.{field.name}",
                value.isNotNull(),
            )
    elif (is_broken := _has_forbidden_null(value, data_type)) is not None:
        yield _null_check(is_broken, f"{path} (in its elements)")


def _has_forbidden_null(value: Column, data_type: DataType) -> Column | None:
    """Whether the value is there and something in it is null that must not be."""
    match data_type:
        case ArrayType(element_type=element_type, contains_null=contains_null):
            return _any_element(value, element_type, contains_null)
        case MapType(key_type=key_type, value_type=value_type, value_contains_null=nullable):
            return _any_of(
                [
                    _any_element(sf.map_keys(value), key_type, True),
                    _any_element(sf.map_values(value), value_type, nullable),
                ]
            )
        case StructType(fields=fields):
            children = (
                _is_broken(value.getField(each.name), each.data_type, each.nullable)
                for each in fields
            )
            broken = _any_of(list(children))
            return None if broken is None else value.isNotNull() & broken
    return None


def _any_element(value: Column, data_type: DataType, nullable: bool) -> Column | None:
    if _is_broken(sf.lit(None), data_type, nullable) is None:
        return None

    def is_broken(element: Column) -> Column:
        found = _is_broken(element, data_type, nullable)
        assert found is not None
        return sf.coalesce(found, sf.lit(False))

    return sf.exists(value, is_broken)


def _is_broken(value: Column, data_type: DataType, nullable: bool) -> Column | None:
    return _any_of([None if nullable else value.isNull(), _has_forbidden_null(value, data_type)])


def _any_of(conditions: Sequence[Column | None]) -> Column | None:
    present = [each for each in conditions if each is not None]
    return reduce(or_, present) if present else None


def _null_check(is_broken: Column, path: str) -> RowCheck:
    return RowCheck(
        num_broken=sf.count_if(is_broken),
        message=(
            f"column {path} has a null, and the table says NOT NULL; fill it or leave the row out"
        ),
    )
