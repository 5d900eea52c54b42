"""Damaged files of a log: reads are right, or raise an error of delta_ops."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import DeltaOpsError, LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.protocol.actions import SetTransaction
from delta_ops.protocol.json.codec import json_body
from tests.support.mutations import cut_gap, flip, mutate, truncate
from tests.support.tables import PROTOCOL, add, metadata, remove, write_log
from tests.support.tiers import seeded

LATEST = 2
Damage = Callable[[bytes, random.Random], bytes]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table of three versions with a checkpoint, a hint and a checksum."""
    return table(tmp_path)


def table(root: Path) -> Path:
    """See the fixture."""
    adds = [
        add(
            f"p={i}/{i}.parquet",
            size=i + 1,
            stats=f'{{"numRecords":{i}}}',
            partition_values={"p": str(i)},
        )
        for i in range(20)
    ]
    of_table = metadata(partition_columns=("p",), configuration={"a": "1"})
    txn = SetTransaction(app_id="a", version=1, last_updated=1)
    gone = remove("p=3/3.parquet", deletion_timestamp=2**42)
    log = write_log(root, [[of_table, txn, *adds[:10]], [gone, *adds[10:]], [add("p=0/x")]])
    write_checkpoint(log.snapshot(1), now_ms=0)
    body = {"protocol": json_body(PROTOCOL), "metadata": json_body(of_table), "numFiles": 20}
    (root / "_delta_log" / f"{1:020d}.crc").write_text(json.dumps(body))
    (root / "_delta_log" / f"{0:020d}.json").unlink()
    return root


def whole(root: Path) -> tuple[Any, ...]:
    """Every value that defines the table."""
    snapshot = DeltaLog(root).snapshot()
    files = snapshot.files(["path", "size", "partition_values", "num_records"])
    return (
        snapshot.version,
        snapshot.protocol,
        snapshot.metadata.id,
        snapshot.schema,
        snapshot.partition_columns,
        dict(snapshot.metadata.configuration),
        {name: txn.version for name, txn in snapshot.transactions().items()},
        files.drop_columns(["num_records"]).sort_by("path").to_pylist(),
        set(snapshot.tombstones()["path"].to_pylist()),
    )


def damaged(root: Path, name: str, damage: Damage, seed: int, cases: int) -> Iterator[None]:
    """The table with damages to that file, one after the other; restored at the end."""
    path, rnd = root / "_delta_log" / name, seeded(seed)
    intact = path.read_bytes()
    try:
        for _ in range(cases):
            path.write_bytes(damage(intact, rnd))
            yield
    finally:
        path.write_bytes(intact)


def damaged_parquet(data: bytes, rnd: random.Random) -> bytes:
    """Mostly in the footer, which has no checksums."""
    cut = rnd.choice([0, max(0, len(data) - 6000)])
    way = rnd.choice([flip, flip, flip, cut_gap, truncate])
    return data[:cut] + way(data[cut:], rnd)


def check_reads_right_or_refuses(
    root: Path, name: str, damage: Damage, seed: int, cases: int
) -> tuple[int, int]:
    """The number of successful reads and of rejected reads."""
    expected = whole(root)
    read = refused = 0
    for _ in damaged(root, name, damage, seed, cases):
        try:
            assert whole(root) == expected
            read += 1
        except LogCorruptError:
            refused += 1
    return read, refused


def check_commit(root: Path, seed: int, cases: int) -> None:
    """A damaged commit may decode as another commit, but raises only errors of delta_ops."""
    for _ in damaged(root, f"{LATEST:020d}.json", mutate, seed, cases):
        with suppress(DeltaOpsError):
            whole(root)
        with suppress(DeltaOpsError):
            list(DeltaLog(root).history())


def test_a_damaged_hint_is_only_a_hint(root: Path) -> None:
    _, refused = check_reads_right_or_refuses(root, "_last_checkpoint", mutate, 1, 60)
    assert refused == 0


@pytest.mark.full
def test_a_damaged_checksum_leads_to_no_wrong_answer(root: Path) -> None:
    read, _ = check_reads_right_or_refuses(root, f"{1:020d}.crc", mutate, 2, 60)
    assert read > 0


def test_a_damaged_checkpoint_leads_to_no_wrong_answer(root: Path) -> None:
    name = f"{1:020d}.checkpoint.parquet"
    read, refused = check_reads_right_or_refuses(root, name, damaged_parquet, 3, 150)
    assert read > 0
    assert refused > 0


def test_a_damaged_commit_is_refused_in_our_own_words(root: Path) -> None:
    check_commit(root, 4, 80)
