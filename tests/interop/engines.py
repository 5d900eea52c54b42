"""Three engines with one interface: ours, deltalake and delta-spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.maintenance import create_checkpoint, optimize, vacuum
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows, rows_by_deltalake

Txn = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A table as one engine sees it."""

    version: int
    rows: list[dict[str, Any]]
    transactions: dict[str, int]
    """The versions of the requested applications in the table."""
    operations: list[str]
    """Newest first."""


class Engine(Protocol):
    """The operations of every engine on a table with the partition column `p`."""

    def append(
        self, table: Path, data: pa.Table, txn: Txn | None = None, partition_by: Sequence[str] = ()
    ) -> None: ...

    def replace_partition(self, table: Path, data: pa.Table, p: str) -> None: ...

    def optimize(self, table: Path) -> None: ...

    def checkpoint(self, table: Path) -> None: ...

    def vacuum(self, table: Path) -> None:
        """Delete every file that the latest version does not need."""

    def see(self, table: Path, applications: Sequence[str] = ()) -> Seen: ...


class Ours:
    """The Arrow engine."""

    def append(
        self, table: Path, data: pa.Table, txn: Txn | None = None, partition_by: Sequence[str] = ()
    ) -> None:
        da.write(table, data, txn=txn, partition_by=partition_by or None)

    def replace_partition(self, table: Path, data: pa.Table, p: str) -> None:
        da.write(table, data, "overwrite", replace_where=col("p") == p)

    def optimize(self, table: Path) -> None:
        optimize(DeltaLog(table))

    def checkpoint(self, table: Path) -> None:
        create_checkpoint(DeltaLog(table))

    def vacuum(self, table: Path) -> None:
        vacuum(DeltaLog(table), retention=timedelta(0), enforce_retention=False)

    def see(self, table: Path, applications: Sequence[str] = ()) -> Seen:
        snapshot = DeltaLog(table).snapshot()
        stored = snapshot.transactions()
        return Seen(
            version=snapshot.version,
            rows=rows(da.to_table(snapshot)),
            transactions={app: stored[app].version for app in applications if app in stored},
            operations=[str(entry.operation) for entry in DeltaLog(table).history()],
        )


class Deltalake:
    """delta-rs, by its Python package."""

    def append(
        self, table: Path, data: pa.Table, txn: Txn | None = None, partition_by: Sequence[str] = ()
    ) -> None:
        from deltalake import CommitProperties, Transaction

        txns = None if txn is None else [Transaction(*txn)]
        self._write(
            table,
            data,
            "append",
            partition_by=list(partition_by) or None,
            commit_properties=CommitProperties(app_transactions=txns),
        )

    def replace_partition(self, table: Path, data: pa.Table, p: str) -> None:
        self._write(table, data, "overwrite", predicate=f"p = '{p}'")

    def optimize(self, table: Path) -> None:
        self._table(table).optimize.compact()

    def checkpoint(self, table: Path) -> None:
        self._table(table).create_checkpoint()
        # It leaves Hadoop's checksum beside the replaced hint. delta-spark wrote both, and then
        # warns that they disagree.
        (table / "_delta_log" / "._last_checkpoint.crc").unlink(missing_ok=True)

    def vacuum(self, table: Path) -> None:
        self._table(table).vacuum(0, dry_run=False, enforce_retention_duration=False)

    def see(self, table: Path, applications: Sequence[str] = ()) -> Seen:
        opened = self._table(table)
        stored = {app: opened.transaction_version(app) for app in applications}
        return Seen(
            version=opened.version(),
            rows=rows_by_deltalake(table),
            transactions={app: version for app, version in stored.items() if version is not None},
            operations=[entry["operation"] for entry in opened.history()],
        )

    def _table(self, table: Path) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(str(table))

    def _write(
        self, table: Path, data: pa.Table, mode: Literal["append", "overwrite"], **options: Any
    ) -> None:
        from deltalake import write_deltalake

        write_deltalake(str(table), data, mode=mode, **options)


class ByDeltaSpark:
    """delta-spark; it must open the table without a warning."""

    def __init__(self, peer: DeltaSpark) -> None:
        self._peer = peer

    def _reject_warnings(self) -> None:
        assert self._peer.warnings == "", self._peer.warnings

    def append(
        self, table: Path, data: pa.Table, txn: Txn | None = None, partition_by: Sequence[str] = ()
    ) -> None:
        options = {} if txn is None else {"txnAppId": txn[0], "txnVersion": str(txn[1])}
        self._peer.write(table, data, partition_by=partition_by, **options)
        self._reject_warnings()

    def replace_partition(self, table: Path, data: pa.Table, p: str) -> None:
        self._peer.write(table, data, "overwrite", replaceWhere=f"p = '{p}'")

    def optimize(self, table: Path) -> None:
        self._peer.sql(f"OPTIMIZE delta.`{table}`")

    def checkpoint(self, table: Path) -> None:
        self._peer.checkpoint(table)
        self._reject_warnings()

    def vacuum(self, table: Path) -> None:
        self._peer.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS")

    def see(self, table: Path, applications: Sequence[str] = ()) -> Seen:
        state = self._peer.validate(table)
        self._reject_warnings()
        found = rows(self._peer.read(table))
        self._reject_warnings()
        history = self._peer.history(table)
        self._reject_warnings()
        return Seen(
            version=state["version"],
            rows=found,
            transactions={
                app: state["transactions"][app]
                for app in applications
                if app in state["transactions"]
            },
            operations=[entry["operation"] for entry in history],
        )
