"""Lists of texts: IN lists whose meaning depends on ANSI mode.

Without ANSI mode, the default of Spark 3.5, Spark compares a column with the texts of a list as
strings: `1 IN ('01')` is false, and `1 = '01'` is true. delta_ops expressions mean the same as in
ANSI mode. Both agree if Spark writes the value with the same characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pyspark.sql import SparkSession

from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.nodes import Call, Column, Literal, Node, operands_of
from delta_ops.protocol.schema import (
    BOOLEAN,
    DATE,
    INTEGER_RANGES,
    STRING,
    ColumnPath,
    DataType,
    StructType,
    leaves,
)

_LIST = re.compile(r"\bIN\b", re.IGNORECASE)
_WRITTEN: Mapping[DataType, re.Pattern[str]] = {
    **dict.fromkeys(INTEGER_RANGES, re.compile(r"0|-?[1-9]\d*")),
    BOOLEAN: re.compile("true|false"),
    DATE: re.compile(r"\d{4}-\d\d-\d\d"),
    STRING: re.compile(".*", re.DOTALL),
}
"""How Spark writes values as strings, for types where each value has one form."""


def reads_lists_otherwise(
    spark: SparkSession, expression: Expression, schemas: Sequence[StructType]
) -> bool:
    """Whether an IN list may have another result in this session than in ANSI mode."""
    if not _LIST.search(expression.text) or not {"'", '"'} & set(expression.text):
        return False
    if spark.conf.get("spark.sql.ansi.enabled") == "true":
        return False
    types: dict[ColumnPath, list[DataType]] = {}
    for schema in schemas:
        for path, data_type in leaves(schema):
            types.setdefault(_lower(path), []).append(data_type)
    return any(map(partial(_is_text_otherwise, types), _equalities_of(expression.root)))


def _equalities_of(node: Node) -> Iterator[Call]:
    if isinstance(node, Call) and node.name == "=":
        yield node
    for each in operands_of(node):
        yield from _equalities_of(each)


def _is_text_otherwise(types: Mapping[ColumnPath, Sequence[DataType]], equality: Call) -> bool:
    """Whether Spark may write the other operand with other characters than a text."""
    match equality.operands:
        case (Literal(value=str(text)), Column(path)) | (Column(path), Literal(value=str(text))):
            found = types.get(_lower(path)) or types.get(_lower(path[1:]))  # without an alias
            written = [_WRITTEN.get(each) for each in found or ()]
            return not written or not all(each and each.fullmatch(text) for each in written)
        case operands:
            return any(isinstance(o, Literal) and isinstance(o.value, str) for o in operands)


def _lower(path: ColumnPath) -> ColumnPath:
    return tuple(name.lower() for name in path)
