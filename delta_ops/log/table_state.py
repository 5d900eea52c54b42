"""Table state: protocol, metadata, transactions and domains of a version.

Source: PROTOCOL.md, "Action Reconciliation", "Transaction Identifiers", "Domain Metadata". The
latest protocol and metadata count, and the latest action for each application and each domain.
No I/O: the caller supplies the actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from delta_ops.log.commit_file import Commit
from delta_ops.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state of a version without its files."""

    protocol: Protocol | None
    metadata: Metadata | None
    transactions: Mapping[str, SetTransaction]
    """By application id."""
    domains: Mapping[str, DomainMetadata]
    """By domain, including removed domains until a checkpoint drops them."""


EMPTY_STATE = TableState(protocol=None, metadata=None, transactions={}, domains={})


def state_of_commits(commits: Iterable[Commit]) -> TableState:
    """Combine the non-file actions of commits, in ascending order."""
    state = EMPTY_STATE
    for commit in commits:
        of_commit = TableState(
            protocol=commit.protocol,
            metadata=commit.metadata,
            transactions={txn.app_id: txn for txn in commit.transactions},
            domains={domain.domain: domain for domain in commit.domains},
        )
        state = joined_state(state, of_commit)
    return state


def joined_state(older: TableState, newer: TableState) -> TableState:
    """Combine two states; the newer values win."""
    return TableState(
        protocol=newer.protocol or older.protocol,
        metadata=newer.metadata or older.metadata,
        transactions={**older.transactions, **newer.transactions},
        domains={**older.domains, **newer.domains},
    )
