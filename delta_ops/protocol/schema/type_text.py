"""Type text: a column type in Spark SQL, such as `bigint` or `array<struct<a: int>>`.

Source: the data types of Spark SQL; the names in the log's JSON (`long`, `integer`) are allowed
too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    MAX_DECIMAL_PRECISION,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.column_names import name_of_path

_NAMES: Mapping[str, DataType] = {
    "string": STRING,
    "bigint": LONG,
    "long": LONG,
    "int": INTEGER,
    "integer": INTEGER,
    "smallint": SHORT,
    "short": SHORT,
    "tinyint": BYTE,
    "byte": BYTE,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "variant": VARIANT,
}
_IN_SQL = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
"""Names in SQL that differ from the names in the log."""
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|\w+|[<>(),:])")


def parse_type(text: str, *, allows_lengths: bool = False) -> DataType:
    """Parse a type.

    Args:
        allows_lengths: Whether the type may contain CHAR(n) and VARCHAR(n), which become types of
            these names; `char_types` replaces them by strings.

    Raises:
        InvalidRequestError: The text is no type; lists the valid names.
    """
    reader = _Reader(text, _tokens(text), allows_lengths)
    try:
        data_type = reader.read_type()
    except RecursionError as error:
        raise InvalidRequestError("the type of a column is nested too deeply") from error
    if reader.position < len(reader.tokens):
        raise reader.error()
    return data_type


def type_text(data_type: DataType) -> str:
    """The type in Spark SQL; `parse_type` parses it, except `NOT NULL` and void.

    A type that this version of delta_ops does not know keeps its name in the log.

    Example:
        >>> type_text(ArrayType(LONG, contains_null=True))
        'array<bigint>'
    """
    match data_type:
        case ArrayType(element_type=element):
            return f"array<{type_text(element)}>"
        case MapType(key_type=key, value_type=value):
            return f"map<{type_text(key)},{type_text(value)}>"
        case StructType(fields=fields):
            return f"struct<{','.join(map(_field_text, fields))}>"
    return _IN_SQL.get(data_type.name, data_type.name)


def _field_text(field: StructField) -> str:
    required = "" if field.nullable else " NOT NULL"
    return f"{name_of_path((field.name,))}:{type_text(field.data_type)}{required}"


def _tokens(text: str) -> list[str]:
    tokens = []
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        token = _TOKEN.match(stripped, position)
        if token is None:
            raise InvalidRequestError(f"{text!r} is not a column type")
        tokens.append(token[1])
        position = token.end()
    return tokens


@dataclass
class _Reader:
    """Reads the tokens of a type in order."""

    text: str
    tokens: list[str]
    allows_lengths: bool
    position: int = 0

    def error(self) -> InvalidRequestError:
        limited = "char(length), varchar(length), " if self.allows_lengths else ""
        return InvalidRequestError(
            f"{self.text!r} is not a column type; the types are {', '.join(_NAMES)}, {limited}"
            "decimal(precision, scale), array<type>, map<type, type>, struct<name: type, ...>"
        )

    def next(self) -> str:
        if self.position == len(self.tokens):
            raise self.error()
        self.position += 1
        return self.tokens[self.position - 1]

    def expect(self, *wanted: str) -> str:
        token = self.next()
        if token not in wanted:
            raise self.error()
        return token

    def read_type(self) -> DataType:
        name = self.next().lower()
        match name:
            case "array":
                self.expect("<")
                element = self.read_type()
                self.expect(">")
                return ArrayType(element)
            case "map":
                self.expect("<")
                key = self.read_type()
                self.expect(",")
                value = self.read_type()
                self.expect(">")
                return MapType(key, value)
            case "struct":
                return self._read_struct()
            case "decimal" | "dec" | "numeric":
                return self._read_decimal()
            case "char" | "character" | "varchar" if self.allows_lengths:
                return self._read_limited("varchar" if name == "varchar" else "char")
        if name not in _NAMES:
            raise self.error()
        return _NAMES[name]

    def _read_struct(self) -> StructType:
        self.expect("<")
        fields = []
        end = ","
        while end == ",":
            name = self.next()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if self.tokens[self.position : self.position + 1] == [":"]:  # it may be left out
                self.next()
            fields.append(StructField(name, self.read_type()))
            end = self.expect(",", ">")
        return StructType(tuple(fields))

    def _read_decimal(self) -> DecimalType:
        numbers = [10, 0]
        if self.position < len(self.tokens) and self.tokens[self.position] == "(":
            self.next()
            numbers = [self._read_number(), 0]
            if self.expect(",", ")") == ",":
                numbers[1] = self._read_number()
                self.expect(")")
        precision, scale = numbers
        if not 0 < precision <= MAX_DECIMAL_PRECISION or scale > precision:
            raise InvalidRequestError(
                f"{self.text!r}: the precision of a decimal must be between 1 and "
                f"{MAX_DECIMAL_PRECISION}, and its scale between 0 and the precision"
            )
        return DecimalType(precision, scale)

    def _read_limited(self, name: str) -> PrimitiveType:
        self.expect("(")
        length = self._read_number()
        self.expect(")")
        if length < 1:
            raise InvalidRequestError(f"{self.text!r}: the length of a {name} must be 1 or more")
        return PrimitiveType(f"{name}({length})")

    def _read_number(self) -> int:
        token = self.next()
        if not re.fullmatch(r"[0-9]{1,9}", token):
            raise self.error()
        return int(token)
