"""Grammar of the commands that only Delta has.

Source: delta-io/delta, `DeltaSqlBase.g4`.
"""

from __future__ import annotations

from delta_ops.spark.statements.cursor import Cursor
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.names import (
    NOT_ALLOWED_DETAIL,
    column_of,
    property_name,
    target_of,
    target_or_path,
    version_of,
)
from delta_ops.spark.statements.nodes import (
    ConvertToDelta,
    DescribeDetail,
    DescribeHistory,
    Generate,
    Optimize,
    Reorg,
    Restore,
    Show,
    Target,
    Unsupported,
    Vacuum,
)


def optimize_of(cursor: Cursor) -> Optimize:
    """Read OPTIMIZE table [FULL] [WHERE condition] [ZORDER BY columns]."""
    cursor.expect("OPTIMIZE")
    target = target_or_path(cursor)
    is_full = cursor.take("FULL")
    condition = cursor.slice(("ZORDER",)) if cursor.take("WHERE") else None
    zorder_by: tuple[str, ...] = ()
    if cursor.take("ZORDER", "BY"):
        read = lambda: column_of(cursor)  # noqa: E731
        zorder_by = cursor.list_in_brackets(read) if cursor.peek("(") else cursor.list(read)
    return Optimize(target=target, condition=condition, zorder_by=zorder_by, is_full=is_full)


def vacuum_of(cursor: Cursor) -> Vacuum:
    """Read VACUUM table [USING INVENTORY source] and the other clauses, in any order."""
    cursor.expect("VACUUM")
    target = target_or_path(cursor)
    inventory = _inventory(cursor) if cursor.take("USING", "INVENTORY") else None
    hours, modes, dry_runs = [], [], 0
    while not cursor.is_at_end:
        if cursor.take("RETAIN"):
            hours.append(cursor.number())
            cursor.expect("HOURS")
        elif cursor.take("DRY", "RUN"):
            dry_runs += 1
        elif cursor.take("LITE"):
            modes.append("lite")
        else:
            cursor.expect("FULL")
            modes.append("full")
    if max(len(hours), len(modes), dry_runs) > 1:
        raise UnclearError("a clause of VACUUM is repeated")
    return Vacuum(
        target=target,
        retention_hours=hours[0] if hours else None,
        is_dry_run=dry_runs > 0,
        mode="lite" if modes == ["lite"] else "full",
        inventory=inventory,
    )


def _inventory(cursor: Cursor) -> str:
    """Read the name of a table, or a query in brackets; returns a query."""
    if cursor.peek("("):
        return cursor.text_in_brackets()
    return f"SELECT * FROM {target_of(cursor).text}"  # noqa: S608  (user's text)


def describe_of(cursor: Cursor) -> DescribeHistory | DescribeDetail | Unsupported:
    """Read DESCRIBE HISTORY table [LIMIT n], DESCRIBE DETAIL table or DESCRIBE table PARTITION."""
    if not cursor.take("DESC"):
        cursor.expect("DESCRIBE")
    if cursor.take("DETAIL"):
        return DescribeDetail(target=target_or_path(cursor))
    if not cursor.take("HISTORY"):
        return _describe_partition(cursor)
    target = target_or_path(cursor)
    limit = cursor.integer() if cursor.take("LIMIT") else None
    return DescribeHistory(target=target, limit=limit)


def _describe_partition(cursor: Cursor) -> Unsupported:
    cursor.take("TABLE")
    _ = cursor.take("EXTENDED") or cursor.take("FORMATTED")
    target = target_of(cursor)
    cure = "the log has the partitions of each file, so leave PARTITION out"
    return _read_unsupported(cursor, target, ("PARTITION",), "DESCRIBE ... PARTITION", cure)


def repair_of(cursor: Cursor) -> Unsupported:
    """Read [MSCK] REPAIR TABLE table [ADD | DROP | SYNC PARTITIONS]."""
    cursor.take("MSCK")
    cursor.expect("REPAIR", "TABLE")
    cure = "the log has the partitions of each file, so leave the statement out"
    return _read_unsupported(cursor, target_of(cursor), (), "MSCK REPAIR TABLE", cure)


def load_of(cursor: Cursor) -> Unsupported:
    """Read LOAD DATA [LOCAL] INPATH path [OVERWRITE] INTO TABLE table [PARTITION]."""
    cursor.expect("LOAD", "DATA")
    cursor.take("LOCAL")
    cursor.expect("INPATH")
    cursor.string()
    cursor.take("OVERWRITE")
    cursor.expect("INTO", "TABLE")
    cure = "read the files with spark.read, and add their rows with INSERT INTO"
    return _read_unsupported(cursor, target_of(cursor), (), "LOAD DATA", cure)


def _read_unsupported(
    cursor: Cursor, target: Target, words: tuple[str, ...], operation: str, cure: str
) -> Unsupported:
    cursor.expect(*words)
    if not cursor.is_at_end:
        cursor.slice()
    return Unsupported(target=target, operation=operation, condition=NOT_ALLOWED_DETAIL, cure=cure)


def restore_of(cursor: Cursor) -> Restore:
    """Read RESTORE [TABLE] table [TO] VERSION | TIMESTAMP AS OF ..."""
    cursor.expect("RESTORE")
    cursor.take("TABLE")
    target = target_of(cursor)
    cursor.take("TO")
    version, timestamp = version_of(cursor)
    return Restore(target=target, version=version, timestamp=timestamp)


def generate_of(cursor: Cursor) -> Generate:
    """Read GENERATE mode FOR TABLE table."""
    cursor.expect("GENERATE")
    mode = cursor.name()
    cursor.expect("FOR", "TABLE")
    return Generate(target=target_of(cursor), mode=mode)


def reorg_of(cursor: Cursor) -> Reorg:
    """Read REORG TABLE table [WHERE condition] APPLY (PURGE)."""
    cursor.expect("REORG", "TABLE")
    target = target_of(cursor)
    condition = cursor.slice(("APPLY",)) if cursor.take("WHERE") else None
    cursor.expect("APPLY", "(", "PURGE", ")")
    return Reorg(target=target, condition=condition)


def convert_of(cursor: Cursor) -> ConvertToDelta:
    """Read CONVERT TO DELTA parquet.`path` [PARTITIONED BY (columns with types)]."""
    cursor.expect("CONVERT", "TO", "DELTA")
    target = target_of(cursor)
    schema = cursor.text_in_brackets() if cursor.take("PARTITIONED", "BY") else None
    return ConvertToDelta(target=target, partition_schema=schema)


def show_of(cursor: Cursor) -> Show:
    """Read SHOW TBLPROPERTIES, SHOW COLUMNS, SHOW PARTITIONS or SHOW CREATE TABLE of a table."""
    cursor.expect("SHOW")
    if cursor.take("TBLPROPERTIES"):
        target = target_of(cursor)
        name = None
        if cursor.take("("):
            name = property_name(cursor)
            cursor.expect(")")
        return Show(target=target, what="properties", name=name)
    if cursor.take("PARTITIONS"):
        return Show(target=target_of(cursor), what="partitions")
    if cursor.take("CREATE", "TABLE"):
        return Show(target=target_of(cursor), what="create table")
    cursor.expect("COLUMNS")
    if not cursor.take("IN"):
        cursor.expect("FROM")
    return Show(target=target_of(cursor), what="columns")
