"""Transactions: `begin(log)`, stage files, `commit`.

The DDL functions among these names live in `delta_ops.ddl`, a layer above. They load when they are
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
else:

    def __getattr__(name: str) -> object:
        """A DDL function, from `delta_ops.ddl`."""
        if name in __all__:
            return getattr(import_module("delta_ops.ddl"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
