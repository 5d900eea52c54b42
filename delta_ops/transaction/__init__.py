"""Transactions: `begin(log)`, stage files, `commit`.

The DDL functions among these names live in `delta_ops.ddl`, a layer above. They load when they are
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_ops.late_imports import late_names

if TYPE_CHECKING:
    from delta_ops.ddl import (
        NewColumn,
        add_columns,
        change_type,
        cluster_by,
        drop_columns,
        drop_not_null,
        rename_column,
        rename_table,
        reorder_columns,
        set_comment,
        set_default,
        set_properties,
        set_table_comment,
    )
    from delta_ops.transaction.commit.hooks import (
        DEFAULT_HOOKS,
        Hook,
        checkpoint_if_due,
        scan_cache_if_due,
        write_checksum,
    )
    from delta_ops.transaction.idempotency import Txn
    from delta_ops.transaction.races.conflicts import Conflict
    from delta_ops.transaction.result import CommitResult
    from delta_ops.transaction.rewrite_group import CurveOrder, KeyOrder, RewriteGroup
    from delta_ops.transaction.staging import Staged
    from delta_ops.transaction.transaction import Transaction, begin
else:
    late_names(
        __name__,
        {
            "delta_ops.ddl": [
                "NewColumn",
                "add_columns",
                "change_type",
                "cluster_by",
                "drop_columns",
                "drop_not_null",
                "rename_column",
                "rename_table",
                "reorder_columns",
                "set_comment",
                "set_default",
                "set_properties",
                "set_table_comment",
            ],
            "delta_ops.transaction.commit.hooks": [
                "DEFAULT_HOOKS",
                "Hook",
                "checkpoint_if_due",
                "scan_cache_if_due",
                "write_checksum",
            ],
            "delta_ops.transaction.idempotency": ["Txn"],
            "delta_ops.transaction.races.conflicts": ["Conflict"],
            "delta_ops.transaction.result": ["CommitResult"],
            "delta_ops.transaction.rewrite_group": ["CurveOrder", "KeyOrder", "RewriteGroup"],
            "delta_ops.transaction.staging": ["Staged"],
            "delta_ops.transaction.transaction": ["Transaction", "begin"],
        },
    )


__all__ = [
    "DEFAULT_HOOKS",
    "CommitResult",
    "Conflict",
    "CurveOrder",
    "Hook",
    "KeyOrder",
    "NewColumn",
    "RewriteGroup",
    "Staged",
    "Transaction",
    "Txn",
    "add_columns",
    "begin",
    "change_type",
    "checkpoint_if_due",
    "cluster_by",
    "drop_columns",
    "drop_not_null",
    "rename_column",
    "rename_table",
    "reorder_columns",
    "scan_cache_if_due",
    "set_comment",
    "set_default",
    "set_properties",
    "set_table_comment",
    "write_checksum",
]
