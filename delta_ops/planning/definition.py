"""Definition: gives a table its columns, layout, properties and constraints, in a transaction.

Source: PROTOCOL.md, "Change Metadata" and "CHECK Constraints".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.columns.clustering import find_clustering
from delta_ops.protocol.expression import parse_expression
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.expression.quotes import validate_condition, validate_rule
from delta_ops.protocol.expression.resolution import finder_of
from delta_ops.protocol.row_rules import Check
from delta_ops.protocol.schema import StructType
from delta_ops.transaction.table_change import DefineTable
from delta_ops.transaction.transaction import Transaction


def define_table(
    transaction: Transaction,
    columns: StructType,
    *,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
) -> None:
    """Create the table in a transaction, or replace its definition; existing rows stay.

    Args:
        columns: The columns. The other arguments are as for `create_table`.

    Raises:
        InvalidRequestError: The definition is invalid.
    """
    definition = DefineTable(
        schema=columns,
        created_ms=transaction.clock(),
        partition_by=partition_by,
        properties=properties or {},
        name=name,
        description=description,
    )
    transaction.change_table(definition)
    for rule in transaction.definition.row_rules:
        if isinstance(rule, Check):
            validate_constraint(transaction, rule)
    made, table = transaction.definition, transaction.log.uri
    if cluster_by or made.has("clustering"):
        transaction.set_clustering(
            find_clustering(cluster_by, made.schema, made.partition_columns, table)
        )


def validate_constraint(transaction: Transaction, rule: Check) -> None:
    """Reject a constraint that no engine can check, or that has the same result for every row.

    A condition that our SQL parser cannot parse is left to the engine.

    Raises:
        InvalidRequestError: The condition names an unknown column, quotes a column in double
            quotes, or uses no column.
    """
    schema, name, condition = transaction.schema, rule.name, rule.expression
    validate_rule(rule, schema, transaction.log.uri)
    try:
        parsed = parse_expression(condition)
    except InvalidRequestError:
        return
    try:
        validate_condition(parsed, finder_of(schema))
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{transaction.log.uri}: {rule} cannot be used: {error}"
        ) from error
    known = schema.fields_by_lower_name
    for each in columns_of(parsed.root):
        if each.path[0].lower() not in known:
            raise InvalidRequestError(
                f"{transaction.log.uri}: the constraint {name} ({condition}) names the column "
                f"{each.path[0]}, which does not exist; the columns are "
                f"{', '.join(field.name for field in schema.fields)}"
            )
