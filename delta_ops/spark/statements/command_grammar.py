"""Grammar of the commands that only Delta has.

Source: delta-io/delta, `DeltaSqlBase.g4`.
"""

from __future__ import annotations

from delta_ops.spark.statements.cursor import Cursor
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.names import column_of, target_of, target_or_path, version_of
from delta_ops.spark.statements.nodes import (
    ConvertToDelta,
    DescribeDetail,
    DescribeHistory,
    Generate,
    Optimize,
    Reorg,
    Restore,
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
    """Read VACUUM table [LITE | FULL] [RETAIN number HOURS] [DRY RUN], in any order."""
    cursor.expect("VACUUM")
    target = target_or_path(cursor)
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
    )


def describe_of(cursor: Cursor) -> DescribeHistory | DescribeDetail:
    """Read DESCRIBE HISTORY table [LIMIT n] or DESCRIBE DETAIL table."""
    if not cursor.take("DESC"):
        cursor.expect("DESCRIBE")
    if cursor.take("DETAIL"):
        return DescribeDetail(target=target_or_path(cursor))
    cursor.expect("HISTORY")
    target = target_or_path(cursor)
    limit = cursor.integer() if cursor.take("LIMIT") else None
    return DescribeHistory(target=target, limit=limit)


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
