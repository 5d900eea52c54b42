"""Nodes: Delta's SQL statements as values.

Conditions, values and queries are SQL text as the statement has it. Names are without backticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Assignments: TypeAlias = "tuple[tuple[str, str], ...]"
"""Column and value, both as SQL text."""
Properties: TypeAlias = "tuple[tuple[str, str], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table of a statement: a name, or a path as a string."""

    parts: tuple[str, ...] = ()
    path: str | None = None
    """The path in a statement such as VACUUM '/path'."""
    text: str
    """As the statement has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """DELETE FROM."""

    target: Target
    alias: str | None
    condition: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """UPDATE."""

    target: Target
    alias: str | None
    assignments: Assignments
    condition: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """One WHEN clause of a merge."""

    action: Literal["update", "update all", "delete", "insert", "insert all"]
    applies_to: Literal["matched", "not matched", "not matched by source"]
    condition: str | None
    assignments: Assignments = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInto:
    """MERGE INTO."""

    target: Target
    alias: str | None
    source: str
    """The source with its alias, as in a FROM clause."""
    source_name: str | None
    """The alias, or the last part of the name; None for a subquery without an alias."""
    condition: str
    clauses: tuple[MergeClause, ...]
    adds_columns: bool
    with_tables: str = ""
    """WITH and the common table expressions before the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT INTO, INSERT OVERWRITE, and INSERT INTO with REPLACE WHERE."""

    target: Target
    query: str
    columns: tuple[str, ...] | None = None
    """None: the query has all columns."""
    is_by_name: bool = False
    overwrites: bool = False
    evolves: bool = False
    """WITH SCHEMA EVOLUTION: new columns of the query become columns of the table."""
    replace_where: str | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    """Column and value of PARTITION (...); None: the query has the value."""
    value_rows: tuple[tuple[str, ...], ...] = ()
    """The rows of VALUES, if one of their values is DEFAULT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """TRUNCATE TABLE."""

    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """OPTIMIZE."""

    target: Target
    condition: str | None
    zorder_by: tuple[str, ...]
    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """VACUUM."""

    target: Target
    retention_hours: float | None
    is_dry_run: bool
    mode: Literal["full", "lite"]
    inventory: str | None = None
    """The query of USING INVENTORY."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeHistory:
    """DESCRIBE HISTORY."""

    target: Target
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDetail:
    """DESCRIBE DETAIL."""

    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """RESTORE TABLE; `version` or `timestamp` is set."""

    target: Target
    version: int | None
    timestamp: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """GENERATE."""

    target: Target
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorg:
    """REORG TABLE ... APPLY (PURGE)."""

    target: Target
    condition: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertToDelta:
    """CONVERT TO DELTA."""

    target: Target
    partition_schema: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShallowClone:
    """CREATE TABLE ... SHALLOW CLONE."""

    target: Target
    source: Target
    version: int | None
    timestamp: str | None
    mode: Literal["create", "create if not exists", "replace", "create or replace"]
    properties: Properties
    location: str | None
    time_expression: str | None = None
    """SQL without columns, whose value is the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """GENERATED ... AS IDENTITY."""

    start: int
    step: int
    allows_values: bool
    """BY DEFAULT: rows may have values of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDefinition:
    """A column of CREATE TABLE or ADD COLUMNS."""

    name: str
    """A path such as `a.b`, with backticks where necessary."""
    data_type: str
    is_nullable: bool = True
    comment: str | None = None
    default: str | None = None
    generated_as: str | None = None
    identity: Identity | None = None
    is_first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE ... USING delta, with columns or AS SELECT."""

    target: Target
    mode: Literal["create", "create if not exists", "replace", "create or replace"]
    columns: tuple[ColumnDefinition, ...]
    partition_by: tuple[str, ...]
    cluster_by: tuple[str, ...]
    properties: Properties
    comment: str | None
    location: str | None
    query: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableLike:
    """CREATE TABLE ... LIKE."""

    target: Target
    source: Target
    mode: Literal["create", "create if not exists"]
    is_delta: bool
    """Whether the statement says USING delta."""
    properties: Properties
    location: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """SHOW TBLPROPERTIES, COLUMNS, PARTITIONS or CREATE TABLE."""

    target: Target
    what: Literal["properties", "columns", "partitions", "create table"]
    name: str | None = None
    """The property of SHOW TBLPROPERTIES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperties:
    """ALTER TABLE ... SET TBLPROPERTIES."""

    target: Target
    properties: Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsetProperties:
    """ALTER TABLE ... UNSET TBLPROPERTIES."""

    target: Target
    names: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumns:
    """ALTER TABLE ... ADD COLUMNS."""

    target: Target
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceColumns:
    """ALTER TABLE ... REPLACE COLUMNS."""

    target: Target
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """ALTER TABLE ... RENAME COLUMN."""

    target: Target
    column: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumns:
    """ALTER TABLE ... DROP COLUMNS."""

    target: Target
    columns: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """One change of a column."""

    column: str
    change: Literal["type", "comment", "set not null", "drop not null", "default", "first", "after"]
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterColumns:
    """ALTER TABLE ... ALTER COLUMN or CHANGE COLUMN."""

    target: Target
    changes: tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddConstraint:
    """ALTER TABLE ... ADD CONSTRAINT ... CHECK."""

    target: Target
    name: str
    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropConstraint:
    """ALTER TABLE ... DROP CONSTRAINT."""

    target: Target
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBy:
    """ALTER TABLE ... CLUSTER BY; without columns for NONE."""

    target: Target
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFeature:
    """ALTER TABLE ... DROP FEATURE."""

    target: Target
    name: str
    truncates_history: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentOnTable:
    """COMMENT ON TABLE; None removes the comment."""

    target: Target
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentOnColumn:
    """COMMENT ON COLUMN; None removes the comment."""

    target: Target
    column: str
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A statement of Spark that Delta tables do not have."""

    target: Target
    operation: str
    """As the error names it."""
    condition: str
    """The reference's error class."""
    cure: str


Statement: TypeAlias = (
    Delete
    | Update
    | MergeInto
    | Insert
    | Truncate
    | Optimize
    | Vacuum
    | DescribeHistory
    | DescribeDetail
    | Restore
    | Generate
    | Reorg
    | ConvertToDelta
    | ShallowClone
    | CreateTable
    | CreateTableLike
    | Show
    | SetProperties
    | UnsetProperties
    | AddColumns
    | ReplaceColumns
    | RenameColumn
    | DropColumns
    | AlterColumns
    | AddConstraint
    | DropConstraint
    | ClusterBy
    | DropFeature
    | CommentOnTable
    | CommentOnColumn
    | Unsupported
)
