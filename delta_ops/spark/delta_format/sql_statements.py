"""SQL statements that are refused for a Delta table of the catalog, with the call to make instead.

Spark's own catalog would carry them out on its entry alone and answer OK, though the table, which
is its log, stays as it is; and of partitions and properties the entry knows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from delta_ops.spark.delta_format.catalog_tables import plain_path

_DDL = "delta_ops.ddl."
_PROPERTIES = _DDL + "set_properties({path}, {{'name': 'value'}})"
_UNSET = _DDL + "set_properties({path}, {{'name': None}})"
_CLUSTERING = _DDL + "cluster_by({path}, ['column'])"
_COLUMNS = _DDL + "add_columns({path}, [NewColumn(name='column', data_type='type')])"
_COLUMN = " or ".join(
    _DDL + call
    for call in (
        "set_comment({path}, 'column', 'text')",
        "set_default({path}, 'column', 'literal')",
        "change_type({path}, 'column', 'type')",
    )
)
_PARTITIONS = "spark.read.format('delta').load({path}).select('column').distinct()"
_CONFIGURATION = "DeltaLog({path}).snapshot().metadata.configuration"
_CALLS: Mapping[str, str] = {
    "AlterTableSetPropertiesCommand": _PROPERTIES,
    "SetTableProperties": _PROPERTIES,
    "AlterTableUnsetPropertiesCommand": _UNSET,
    "UnsetTableProperties": _UNSET,
    "AlterTableClusterBy": _CLUSTERING,
    "CommentOnTable": _DDL + "set_table_comment({path}, 'text')",
    "AlterTableChangeColumnCommand": _COLUMN,
    "AlterColumn": _COLUMN,
    "AlterColumns": _COLUMN,
    "AddColumns": _COLUMNS,
    "AlterTableAddColumnsCommand": _COLUMNS,
    "AlterTableCollation": "nothing: a Delta table has no collation for all columns",
    "CreateTableLikeCommand": _DDL + "shallow_clone({path}, target)",
}
"""What changes a table, by the names of Catalyst's classes; the rest Spark refuses itself."""
_ANSWERS: Mapping[str, str] = {
    "ShowPartitionsCommand": _PARTITIONS,
    "ShowPartitions": _PARTITIONS,
    "ShowTablePropertiesCommand": _CONFIGURATION,
    "ShowTableProperties": _CONFIGURATION,
}
_NAMES_A_TABLE = "CreateDataSourceTableCommand"


def refusal_of(statement: str, place: str, says: str) -> str | None:
    """Why a statement on a Delta table of the catalog is refused; None: it is not.

    Args:
        statement: The name of Catalyst's class for it.
        place: Where the table is, as the catalog has it.
        says: "clustering" where properties stand for that, "properties" where the entry of the
            table has properties, a comment or partitions.
    """
    path = repr(plain_path(place))
    if statement == _NAMES_A_TABLE:
        if not says:
            return None
        return (
            f"a name in the catalog gives the Delta table at {path} no properties, no comment and "
            "no partitions; leave TBLPROPERTIES, COMMENT, PARTITIONED BY and CLUSTER BY out, and "
            f"call {_PROPERTIES.format(path=path)}"
        )
    if statement in _CALLS:
        call = _CLUSTERING if says == "clustering" else _CALLS[statement]
        return (
            "SQL would change the entry of the catalog and leave the Delta table as it is; call "
            f"{call.format(path=path)}"
        )
    if statement in _ANSWERS:
        return (
            "the catalog does not know the partitions and properties of a Delta table; read "
            f"{_ANSWERS[statement].format(path=path)}"
        )
    return None
