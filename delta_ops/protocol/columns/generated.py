"""Generated columns: columns computed from other columns of the table.

Source: PROTOCOL.md, "Generated Columns".
"""

from __future__ import annotations

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.columns.identity import is_identity
from delta_ops.protocol.expression import parse_expression
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.expression.quotes import validate_quotes
from delta_ops.protocol.expression.resolution import finder_of
from delta_ops.protocol.row_rules import GENERATION_EXPRESSION
from delta_ops.protocol.schema import VARIANT, StructField, StructType, find_field, walk


def validate_generated(schema: StructType) -> None:
    """Reject impossible generated columns in a table that is about to be created.

    Expressions that only another engine can evaluate are not checked.

    Raises:
        InvalidRequestError: An expression is no text, uses a missing, generated or identity column,
            or has a name in double quotes; or the generated column is a struct field.
    """
    nested = [each for _, t in walk(schema) if isinstance(t, StructType) for each in t.fields]
    if found := [each.name for each in nested if GENERATION_EXPRESSION in each.metadata]:
        raise InvalidRequestError(
            f"field {found[0]} has a generation expression, which only columns can have; leave it "
            "out, or make it a column"
        )
    for field in schema.fields:
        if GENERATION_EXPRESSION in field.metadata:
            _validate_expression(field, schema)


def validate_added(schema: StructType, before: StructType, table: str) -> None:
    """Reject new generated and identity columns, since existing rows have no values for them.

    Raises:
        InvalidRequestError: The message names the column.
    """
    for each in schema.fields:
        is_new = each.name.lower() not in before.fields_by_lower_name
        if is_new and (GENERATION_EXPRESSION in each.metadata or is_identity(each)):
            raise InvalidRequestError(
                f"{table}: column {each.name} is new and generated, and existing rows have no "
                "values for it; remove the generation expression from its metadata, or create "
                "the table again"
            )


def _validate_expression(field: StructField, schema: StructType) -> None:
    text = field.metadata[GENERATION_EXPRESSION]
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequestError(
            f"the generation expression of column {field.name} is {text!r}; give a SQL string"
        )
    if VARIANT in (data_type for _, data_type in walk(StructType((field,)))):
        raise InvalidRequestError(
            f"column {field.name} is generated ({text}) and holds a variant, which the protocol "
            "does not allow; generate a string, or include the column in the data"
        )
    try:
        validate_quotes(text, finder_of(schema))
    except InvalidRequestError as error:
        raise InvalidRequestError(f"column {field.name} is generated ({text}): {error}") from error
    try:
        root = parse_expression(text).root
    except InvalidRequestError:
        return
    for each in columns_of(root):
        used = find_field(schema, each.path[0])
        if GENERATION_EXPRESSION in used.metadata or is_identity(used):
            raise InvalidRequestError(
                f"column {field.name} is generated from {used.name} ({text}), whose values are "
                "generated as well; use only columns that the data have"
            )
