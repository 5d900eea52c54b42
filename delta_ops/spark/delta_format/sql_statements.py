"""SQL statements on a Delta table of the catalog: rejects a statement, or describes the table.

Spark would apply these statements to its own entry of the table, and answer from the entry. The
entry has a name and a location; everything else is in the log. A statement that Spark carries out
correctly is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.log import Snapshot
from delta_ops.protocol.columns.mapping import logical_path
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.spark.delta_format.catalog_tables import plain_path
from delta_ops.spark.expressions.columns import quote

NAMES_A_TABLE = "CreateDataSourceTableCommand"
"""Catalyst class of the statement that gives a table a name."""
SAYS_MORE = "more"
"""Marks such a statement that has more than a location and columns."""
MOVES = "AlterTableSetLocationCommand"
"""Catalyst class of the statement that gives a name another table."""
DESCRIBES = ("DescribeTableCommand", "DescribeRelation")
"""Catalyst classes of descriptions: of a name, and of a path."""
DESCRIPTION = "col_name STRING, data_type STRING, comment STRING"
"""Columns of a description."""

Row = tuple[str, str, str | None]
"""A row of a description."""

Options = Mapping[str, str]
"""Options of a catalog entry or a view, by name."""


class Tables(NamedTuple):
    """Opens the tables of statements, with the options of a catalog entry or a view."""

    read: Callable[[SparkSession, Options], DataFrame]
    """Reads the version that the options choose; the latest without them."""
    open: Callable[[SparkSession, Options], Snapshot]
    """Opens that version."""


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
_STATISTICS = "delta_ops.maintenance.backfill_statistics({path}) for files that have none"
_PARTITIONS = "spark.read.format('delta').load({path}).select('column').distinct()"
_METADATA = "DeltaLog({path}).snapshot().metadata"
_CONFIGURATION = _METADATA + ".configuration"
_CALLS: Mapping[str, str] = {
    "AlterTableSetPropertiesCommand": _PROPERTIES,
    "SetTableProperties": _PROPERTIES,
    "AlterTableSerDePropertiesCommand": _PROPERTIES,
    "AlterTableUnsetPropertiesCommand": _UNSET,
    "UnsetTableProperties": _UNSET,
    "AlterTableClusterBy": _CLUSTERING,
    "CommentOnTable": _DDL + "set_table_comment({path}, 'text')",
    "AlterTableChangeColumnCommand": _COLUMN,
    "AlterColumn": _COLUMN,
    "AlterColumns": _COLUMN,
    "AddColumns": _COLUMNS,
    "AlterTableAddColumnsCommand": _COLUMNS,
    "AnalyzeTableCommand": _STATISTICS,
    "AnalyzeColumnCommand": _STATISTICS,
    "AnalyzePartitionCommand": _STATISTICS,
}
"""The call to make instead of a statement, by Catalyst class; Spark itself rejects the others."""
_ALWAYS_REFUSED = frozenset(
    {
        "AlterTableSerDePropertiesCommand",
        "AnalyzeTableCommand",
        "AnalyzeColumnCommand",
        "AnalyzePartitionCommand",
        "DescribeRelationJsonCommand",
    }
)
"""Statements that `spark.sql` of Python rejects for Delta tables, too."""
_IN_PYTHON = "run the statement with spark.sql of Python after delta_ops.spark.register(spark), or "
_LIKE = "CreateTableLikeCommand"
_ANSWERS: Mapping[str, str] = {
    "ShowPartitionsCommand": _PARTITIONS,
    "ShowPartitions": _PARTITIONS,
    "ShowTablePropertiesCommand": _CONFIGURATION,
    "ShowTableProperties": _CONFIGURATION,
    "ShowCreateTableCommand": _METADATA,
    "ShowCreateTable": _METADATA,
    "DescribeRelationJsonCommand": _METADATA,
}
"""The call to make instead of a query, by Catalyst class."""
_COLLATES = "AlterTableCollation"
_DETAILS = "# Detailed Table Information"
_COMMENT = "comment"


def refusal_of(statement: str, place: str, detail: str) -> str | None:
    """Return the reason to reject a statement on a Delta table, or None if it is allowed.

    Spark's catalog would apply such a statement only to its own entry and report success.

    Args:
        statement: Name of the Catalyst class.
        place: The table's location in the catalog.
        detail: "clustering" if the statement sets clustering columns.
    """
    path = repr(plain_path(place))
    if statement == _COLLATES:
        return (
            f"the Delta table at {path} has no collation for all columns; leave the statement out"
        )
    if statement == _LIKE:
        return (
            f"a table LIKE the Delta table at {path} is a Delta table, which spark.sql of Python "
            "creates; leave USING out, or write the columns of a table of another kind"
        )
    in_python = "" if statement in _ALWAYS_REFUSED else _IN_PYTHON
    if statement in _CALLS:
        call = _CLUSTERING if detail == "clustering" else _CALLS[statement]
        return (
            f"Spark would change the catalog entry but not the Delta table; {in_python}call "
            f"{call.format(path=path)}"
        )
    if statement in _ANSWERS:
        return (
            "the catalog does not know the partitions and properties of a Delta table; "
            f"{in_python}read {_ANSWERS[statement].format(path=path)}"
        )
    return None


def refusal_of_details(place: str) -> str:
    """Return the reason to reject a statement that names a table and sets more than columns."""
    path = repr(plain_path(place))
    return (
        "a catalog entry cannot set properties, a comment, partitions or buckets of the Delta "
        f"table at {path}; leave TBLPROPERTIES, COMMENT, PARTITIONED BY, CLUSTERED BY and "
        f"CLUSTER BY out, and call {_PROPERTIES.format(path=path)}"
    )


def refusal_of_name(
    place: str, given: StructType, columns: StructType, snapshot: Snapshot
) -> str | None:
    """Return why the columns of a statement that names a table are wrong; None if they are right.

    Args:
        given: The columns of the statement.
        columns: The columns of a query.
    """
    path = repr(plain_path(place))
    if _texts(given) != _texts(columns):
        return (
            f"the Delta table at {path} has the columns {', '.join(_texts(columns))}, and not "
            f"{', '.join(_texts(given))}; leave the columns out, because the table defines them"
        )
    required = {each.name for each in snapshot.schema.fields if not each.nullable}
    comments = _comments(snapshot)
    for each in given.fields:
        call, comment = None, each.metadata.get(_COMMENT)
        if not each.nullable and each.name not in required:
            call = f"set_not_null({path}, {each.name!r})"
        elif comment is not None and comment != comments.get(each.name):
            call = f"set_comment({path}, {each.name!r}, {comment!r})"
        if call:
            return (
                f"a catalog entry cannot set NOT NULL or the comment of column {each.name}; leave "
                f"it out, and call {_DDL}{call}"
            )
    return None


def _comments(snapshot: Snapshot) -> Mapping[str, str]:
    found = ((each.name, each.metadata.get(_COMMENT)) for each in snapshot.schema.fields)
    return {name: text for name, text in found if isinstance(text, str)}


def _texts(columns: StructType) -> list[str]:
    return [f"{each.name} {each.dataType.simpleString()}" for each in columns.fields]


def describe(columns: StructType, snapshot: Snapshot, known: Sequence[Row]) -> list[Row]:
    """Describe a table as Spark would if the catalog entry were complete.

    Args:
        columns: The columns of a query.
        known: Spark's description of the entry. Its part after the columns is kept.
    """
    comments = _comments(snapshot)
    rows: dict[str, Row] = {
        each.name: (each.name, each.dataType.simpleString(), comments.get(each.name))
        for each in columns.fields
    }
    clusters = [name_of_path(each) for each in _clustering(snapshot)]
    description = [
        *rows.values(),
        *_section("# Partition Information", snapshot.partition_columns, rows),
        *_section("# Clustering Information", clusters, rows),
    ]
    headings = [number for number, row in enumerate(known) if row[0] == _DETAILS]
    if headings:
        description += [("", "", ""), *known[headings[-1] :], *_details(snapshot)]
    return description


def details_of_path(path: str) -> list[Row]:
    """Spark's details of a table that a query names by its path."""
    details = {"Catalog": "delta", "Table": path, "Type": "EXTERNAL", "Provider": "delta"}
    return [(_DETAILS, "", ""), *((name, text, "") for name, text in details.items())]


def _clustering(snapshot: Snapshot) -> Iterable[tuple[str, ...]]:
    return (logical_path(each, snapshot.schema) for each in snapshot.clustering_columns)


def _section(title: str, names: Sequence[str], rows: Mapping[str, Row]) -> list[Row]:
    if not names:
        return []
    head: list[Row] = [(title, "", ""), ("# col_name", "data_type", "comment")]
    return [*head, *(rows.get(name, (name, "", None)) for name in names)]


def _details(snapshot: Snapshot) -> Iterable[Row]:
    metadata = snapshot.metadata
    if metadata.description:
        yield "Comment", metadata.description, ""
    if metadata.configuration:
        pairs = sorted(metadata.configuration.items())
        yield "Table Properties", f"[{', '.join(f'{name}={text}' for name, text in pairs)}]", ""
    if snapshot.partition_columns:
        names = ", ".join(quote(each) for each in snapshot.partition_columns)
        yield "Partition Columns", f"[{names}]", ""
