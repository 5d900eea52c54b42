"""One commit, done right: `begin(log)`, stage, `commit`."""

from delta_ops.transaction.conflicts import Conflict
from delta_ops.transaction.hooks import DEFAULT_HOOKS, Hook, checkpoint_if_due, write_checksum
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.rewrite_group import RewriteGroup
from delta_ops.transaction.staging import Staged
from delta_ops.transaction.transaction import Transaction, begin

__all__ = [
    "DEFAULT_HOOKS",
    "CommitResult",
    "Conflict",
    "Hook",
    "RewriteGroup",
    "Staged",
    "Transaction",
    "Txn",
    "begin",
    "checkpoint_if_due",
    "write_checksum",
]
