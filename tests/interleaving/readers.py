"""Readers: deltalake, and whoever holds a snapshot from before, beside one who opens the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from delta_ops import DeltaLog
from delta_ops.log import Snapshot
from tests.interleaving.cases import Case
from tests.interleaving.scenes import paths_in
from tests.tables import rows


def unlike_deltalake(case: Case, table: pa.Table) -> Iterator[str]:
    """That deltalake reads other rows from the latest version."""
    query = QueryBuilder().register("t", DeltaTable(str(case.root)))
    found = pa.table(query.execute(f"SELECT {', '.join(table.column_names)} FROM t"))
    if rows(found) != rows(table):
        yield f"deltalake reads {rows(found)}, and we {rows(table)}"


def unlike_a_held_snapshot(case: Case, latest: Snapshot, log: DeltaLog) -> Iterator[str]:
    """That a snapshot from before both operations becomes another one than the latest."""
    if case.scene.held is None:
        return
    refreshed = replace(case.scene.held, storage=log.storage).refresh()
    found, expected = sorted(paths_in(refreshed)), sorted(paths_in(latest))
    if refreshed.version != latest.version or found != expected:
        yield (
            f"a snapshot that was held becomes version {refreshed.version} of {found} when it is "
            f"refreshed, and the latest is {latest.version} of {expected}"
        )
