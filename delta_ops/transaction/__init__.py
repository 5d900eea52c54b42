"""One commit, done right: `begin(log)`, stage, `commit`."""

from delta_ops.transaction.alter_columns import (
    NewColumn,
    add_columns,
    drop_not_null,
    reorder_columns,
    set_comment,
)
from delta_ops.transaction.alter_table import rename_table, set_properties, set_table_comment
from delta_ops.transaction.change_column import change_type, set_default
from delta_ops.transaction.cluster_by import cluster_by
from delta_ops.transaction.conflicts import Conflict
from delta_ops.transaction.drop_columns import drop_columns, rename_column
from delta_ops.transaction.hooks import DEFAULT_HOOKS, Hook, checkpoint_if_due, write_checksum
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.rewrite_group import CurveOrder, RewriteGroup
from delta_ops.transaction.staging import Staged
from delta_ops.transaction.transaction import Transaction, begin

__all__ = [
    "DEFAULT_HOOKS",
    "CommitResult",
    "Conflict",
    "CurveOrder",
    "Hook",
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
    "set_comment",
    "set_default",
    "set_properties",
    "set_table_comment",
    "write_checksum",
]
