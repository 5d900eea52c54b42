"""Tables of every kind that both engines change, and everything visible in them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.arrow.read.scan import read_kept
from delta_ops.ddl import add_constraint
from delta_ops.errors import InvalidRequestError
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.protocol.row_rules import GENERATION_EXPRESSION
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from tests.support.tables import rows

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKING = {"delta.enableRowTracking": "true"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "files": {},
    "vectors": VECTORS,
    "mapped by name": {"delta.columnMapping.mode": "name"},
    "mapped by id with vectors": {"delta.columnMapping.mode": "id", **VECTORS},
    "feed": FEED,
    "feed and vectors": {**FEED, **VECTORS},
    "tracking": TRACKING,
    "tracking, feed and vectors": {**TRACKING, **FEED, **VECTORS},
}
SCHEMA = StructType(
    (
        StructField("id", LONG, nullable=False),
        StructField("p", STRING),
        StructField("v", LONG),
        StructField("twice", LONG, metadata={GENERATION_EXPRESSION: "v * 2"}),
    )
)


def cases(kind_by_choice: Mapping[str, str]) -> pytest.MarkDecorator:
    """A case for each kind of table and choice, every second one with partitions.

    Args:
        kind_by_choice: The kind of table that `make test` runs a choice on. The other kinds are
            left to `make test-all`; a choice without a kind (`""`) is left to it altogether.
    """
    found = []
    for number, (choice, kind) in enumerate(product(kind_by_choice, KINDS)):
        partitioned = (number + number // len(KINDS) // 2) % 2 == 1
        found.append(
            pytest.param(
                kind,
                partitioned,
                choice,
                id="-".join((kind, "partitioned" if partitioned else "one", choice)),
                marks=() if kind == kind_by_choice[choice] else pytest.mark.full,
            )
        )
    return pytest.mark.parametrize(("kind", "partitioned", "choice"), found)


def data(*arguments: tuple[int, str | None, int | None]) -> pa.Table:
    ids, parts, values = zip(*arguments, strict=True)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": pa.array(parts, pa.string()),
            "v": pa.array(values, pa.int64()),
        }
    )


def make(root: Path, kind: str, *, partitioned: bool) -> None:
    """Three files of a few rows with one deleted row, and rules."""
    transaction = begin(DeltaLog(root))
    by = ["p"] if partitioned else []
    transaction.create_table(SCHEMA, partition_by=by, configuration=KINDS[kind])
    transaction.commit(operation="CREATE TABLE")
    add_constraint(root, "small", "v IS NULL OR v < 1000")
    da.write(root, data((1, "a", 10), (2, "a", 20), (3, "b", 30), (4, "b", None)))
    da.write(root, data((5, "a", 50), (6, None, 60), (7, "c d", 70)))
    da.write(root, data((8, "b", 80), (9, "b", 90), (10, "", 100)))
    da.delete(root, col("id") == 9)


def twins(folder: Path, kind: str, *, partitioned: bool) -> tuple[Path, Path]:
    """Make the same table in two places."""
    first, second = folder / "arrow", folder / "spark"
    make(first, kind, partitioned=partitioned)
    shutil.copytree(first, second)
    return first, second


def seen(root: Path) -> dict[str, Any]:
    """The visible state of a table: rows, row ids, changes of the last version, and its metrics."""
    snapshot = DeltaLog(root).snapshot()
    validate_checksum(snapshot)
    entry = next(iter(DeltaLog(root).history(limit=1)))
    found: dict[str, Any] = {
        "rows": by_id(da.to_table(snapshot)),
        "operation": entry.operation,
        "metrics": {
            name: value
            for name, value in entry.operation_metrics.items()
            if "Bytes" not in name and "Time" not in name
            if not name.endswith("FilesAdded") and not name.endswith("AddedFiles")
            if not name.endswith("ChangeFileBytes") and name != "numAddedChangeFiles"
        },
        "tags": entry.commit_info.get("tags"),
        "vectors": sorted(
            each.deletion_vector.cardinality
            for each in snapshot.add_files()
            if each.deletion_vector
        ),
    }
    names = row_columns(snapshot.definition, snapshot.uri)
    if names is not None:
        batches = read_kept(snapshot, snapshot.add_files(), ["id", *names])
        kept = [row for batch in batches for row in batch.to_pylist()]
        found["versions"] = {row["id"]: row[names.commit_version] for row in kept}
        ids = {row["id"]: row[names.row_id] for row in kept}
        assert len(set(ids.values())) == len(ids)
        # The order of ids among new rows is not defined.
        found["ids"] = {number: ids[number] for number in ids if number < 11}
    try:
        changes = da.read_changes(root, snapshot.version).read_all()
    except InvalidRequestError:
        return found
    feed = [{k: v for k, v in row.items() if k != "_commit_timestamp"} for row in rows(changes)]
    found["changes"] = sorted(feed, key=lambda row: (row["id"], row["_change_type"]))
    return found


def by_id(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows(table), key=lambda row: row["id"])


def rows_changed(root: Path, version: int | None, change: str) -> list[dict[str, Any]]:
    """The rows of one kind of change in a version, sorted by id."""
    assert version is not None
    changes = da.read_changes(DeltaLog(root), version, version).read_all()
    chosen = changes.filter(pc.field("_change_type") == change)
    names = [name for name in chosen.column_names if not name.startswith("_c")]
    return by_id(chosen.select(names))
