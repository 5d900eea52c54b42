"""Predicates as Spark SQL texts, each time in another spelling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

from delta_ops.protocol.predicate import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
)
from delta_ops.protocol.schema import DATE, INTEGER_RANGES, DataType, DecimalType

_ATOM, _NOT, _AND, _OR = range(4)
"""The binding strength of a text's outermost operator."""
_OPERATORS = {"==": ("=", "=="), "!=": ("!=", "<>")}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SUFFIXES = {"byte": "Y", "short": "S", "integer": "", "long": "L"}


def sql_of(predicate: Predicate, types: Mapping[tuple[str, ...], DataType], random: Random) -> str:
    """A text of the predicate, with few parentheses or with more."""
    return _Writer(types, random).write(predicate, _OR)


class _Writer:
    def __init__(self, types: Mapping[tuple[str, ...], DataType], random: Random) -> None:
        self.types, self.random = types, random

    def write(self, predicate: Predicate, loosest: int) -> str:
        text, binding = self.bound(predicate)
        needs = binding > loosest or self.random.random() < 0.1
        return f"({text})" if needs else text

    def bound(self, predicate: Predicate) -> tuple[str, int]:
        match predicate:
            case And(operands):
                return self.keyword(" and ").join(self.write(p, _NOT) for p in operands), _AND
            case Or(operands):
                return self.keyword(" or ").join(self.write(p, _AND) for p in operands), _OR
            case Not(IsNull(column)) if self.random.random() < 0.5:
                return f"{self.name(column)} {self.keyword('is not null')}", _NOT
            case Not(In() as listed) if self.random.random() < 0.5:
                return self.listed(listed, "not in"), _NOT
            case Not(operand):
                return f"{self.keyword('not')} {self.write(operand, _NOT)}", _NOT
            case Always(value):
                return self.keyword(str(value)), _ATOM
            case IsNull(column):
                return f"{self.name(column)} {self.keyword('is null')}", _NOT
            case In(column, (None,)) if self.random.random() < 0.5:
                return f"{self.name(column)} = {self.keyword('null')}", _NOT
            case In():
                return self.listed(predicate, "in"), _NOT
        return self.comparison(predicate), _NOT

    def comparison(self, leaf: Comparison) -> str:
        name, literal = self.name(leaf.column), self.literal(leaf.value, self.types[leaf.column])
        operator = self.random.choice(_OPERATORS.get(leaf.operator, (leaf.operator,)))
        if self.random.random() < 0.2:
            return f"{literal}{self.space()}{_MIRRORED.get(operator, operator)} {name}"
        return f"{name}{self.space()}{operator} {literal}"

    def listed(self, leaf: In, keyword: str) -> str:
        data_type = self.types[leaf.column]
        form = self.random.random()  # a single type for the whole list, as in Spark
        values = ", ".join(self.literal(value, data_type, form) for value in leaf.values)
        return f"{self.name(leaf.column)} {self.keyword(keyword)} ({values})"

    def keyword(self, word: str) -> str:
        return self.random.choice((word, word.upper()))

    def space(self) -> str:
        return self.random.choice(("", " ", "\n"))

    def name(self, column: tuple[str, ...]) -> str:
        quoted = [f"`{part.replace('`', '``')}`" for part in column]
        if all(part.isidentifier() and part.isascii() for part in column):
            return self.random.choice(
                (".".join(column), ".".join(column).upper(), ".".join(quoted))
            )
        return ".".join(quoted)

    def literal(self, value: Any, data_type: DataType, form: float | None = None) -> str:
        form = self.random.random() if form is None else form
        match value:
            case None:
                return self.keyword("null")
            case bool():
                return self.keyword(str(value))
            case int() if data_type in INTEGER_RANGES and form < 0.3:
                return f"{value}{_SUFFIXES[data_type.name]}"
            case int() if form < 0.4:
                return f"'{value}'"
            case int():
                return str(value)
            case float():
                return _double(value, form)
            case Decimal() if isinstance(data_type, DecimalType):
                return _decimal(value, data_type, form)
            case str():
                return self.text(value)
            case bytes():
                return f"{self.random.choice('xX')}'{value.hex()}'"
        return _moment(value, data_type, form)

    def text(self, value: str) -> str:
        if "'" not in value and "\n" not in value and self.random.random() < 0.2:
            return f"r'{value}'"
        quote = self.random.choice("'\"")
        return quote + "".join(self.character(each, quote) for each in value) + quote

    def character(self, each: str, quote: str) -> str:
        if each in (quote, "\\"):
            return "\\" + each
        escaped = {"\n": "\\n", "\t": "\\t", "\0": "\\0", "\x1a": "\\Z"}.get(each)
        if escaped and self.random.random() < 0.5:
            return escaped
        if ord(each) > 0x7E and self.random.random() < 0.5:
            return f"\\u{ord(each):04x}" if ord(each) < 0x10000 else f"\\U{ord(each):08x}"
        return each


def _double(value: float, form: float) -> str:
    if not math.isfinite(value):
        name = repr(value).replace("inf", "Infinity").replace("nan", "NaN")
        if form < 0.2:
            return f"'{name}'"
        return f"CAST('{name}' AS DOUBLE)" if form < 0.6 else f"double('{name}')"
    if form < 0.2:
        return f"'{value!r}'"
    return f"{value!r}D" if form < 0.6 else f"{value:.17e}"


def _decimal(value: Decimal, data_type: DecimalType, form: float) -> str:
    if form < 0.2 and data_type.precision <= 15:
        return f"'{value}'"
    if form < 0.4 and data_type.precision <= 15:
        return f"{value}D"
    return f"{value}BD" if form < 0.6 else str(value)


def _moment(value: date, data_type: DataType, form: float) -> str:
    if data_type == DATE:
        text = value.isoformat()
        return f"'{text}'" if form < 0.3 else f"DATE '{text}'"
    assert isinstance(value, datetime)
    text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    if value.tzinfo is None:
        return f"'{text}'" if form < 0.3 else f"TIMESTAMP_NTZ '{text}'"
    assert value.tzinfo == UTC
    zoned = text + ("Z" if form < 0.5 else "")
    return f"'{zoned}'" if form < 0.3 else f"TIMESTAMP '{zoned}'"
