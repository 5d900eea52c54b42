"""Column defaults: values of a column in new rows that do not provide it.

Source: PROTOCOL.md, "Default Columns", "Writer Requirements for Default Columns".

A default is a literal of Spark SQL, or the time of the write. Other expressions need an engine that
evaluates SQL. Rows that are older than a column are null in it, whatever its default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.expression import parse_expression
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.expression.quotes import validate_quotes
from delta_ops.protocol.expression.resolution import finder_of
from delta_ops.protocol.predicate import parse_literal
from delta_ops.protocol.schema import CURRENT_DEFAULT, DATE, TIMESTAMP, StructField, StructType
from delta_ops.protocol.values.conversion import primitive_value
from delta_ops.protocol.values.literals import literal_of_type
from delta_ops.protocol.values.plain_values import UnfitValueError

_NOW = re.compile(r"(?:current_timestamp|now)\s*(?:\(\s*\))?", re.IGNORECASE)
_TODAY = re.compile(r"(?:current_date|curdate)\s*(?:\(\s*\))?", re.IGNORECASE)
_HAS_ZONE = re.compile(r"(?:Z|UTC|[+-]\d{1,2}:?\d{2})'\s*\)?\s*$", re.IGNORECASE)


def column_defaults(schema: StructType) -> Mapping[str, str]:
    """The default expressions by column name."""
    found = {each.name: each.metadata.get(CURRENT_DEFAULT) for each in schema.fields}
    return {name: text for name, text in found.items() if isinstance(text, str)}


def validate_defaults(columns: StructType, schema: StructType) -> None:
    """Reject impossible defaults in a table that is about to be created.

    Expressions that only another engine can evaluate are not checked.

    Args:
        columns: Columns with new defaults.
        schema: The table's schema.

    Raises:
        InvalidRequestError: A default refers to a column, or could be read so because it has a
            column name in double quotes.
    """
    for name, text in column_defaults(columns).items():
        try:
            validate_quotes(text, finder_of(schema))
        except InvalidRequestError as error:
            raise InvalidRequestError(
                f"the default of column {name} ({text}) may be read as a column, and a default "
                f"cannot use columns; write a string in single quotes ({error})"
            ) from error
        if used := _columns_in(text):
            raise InvalidRequestError(
                f"the default of column {name} ({text}) refers to the column {used[0]}; a "
                "default is the same for each row, generate the column from the other instead"
            )


def _columns_in(text: str) -> list[str]:
    try:
        parse_literal(text)
    except InvalidRequestError:
        pass
    else:
        return []
    if any(time.fullmatch(text.strip()) for time in (_NOW, _TODAY)):
        return []
    try:
        return [".".join(each.path) for each in columns_of(parse_expression(text).root)]
    except InvalidRequestError:
        return []


def default_value(field: StructField, now_ms: int, table: str) -> Any:
    """The value of a column in rows that do not provide it; None is null.

    Args:
        now_ms: Time of the write, in milliseconds since the Unix epoch; current_date uses UTC.
        table: For messages.

    Raises:
        InvalidRequestError: The default is neither a literal that fits the column nor the time.
    """
    text = str(field.metadata[CURRENT_DEFAULT]).strip()
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if field.data_type == TIMESTAMP and _NOW.fullmatch(text):
        return now
    if field.data_type == DATE and _TODAY.fullmatch(text):
        return now.date()
    try:
        value = parse_literal(text)
        if value is None:
            return None
        if field.data_type == TIMESTAMP and not _HAS_ZONE.search(text):
            raise InvalidRequestError("A time without a zone is one of the session's.")
        literal = literal_of_type(value, field.data_type, column=field.name)
        return primitive_value(literal, field.data_type)
    except (InvalidRequestError, UnfitValueError) as error:
        raise InvalidRequestError(
            f"{table}: the default of column {field.name} ({text}) needs the Spark engine, "
            "because it is neither a literal of the column's type nor the current time; include "
            "the column in the data, or write with delta_ops.spark"
        ) from error
