"""Random histories of writes: a checksum equals the replay of the log, or is absent."""

from __future__ import annotations

import json
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.log.checksum_write.write import create_checksum
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import create_checkpoint, optimize
from delta_ops.protocol.actions import Action, AddFile, CommitInfo, RemoveFile
from delta_ops.protocol.file_names import checksum_name, commit_name
from delta_ops.protocol.stats.file_size_histogram import BOUNDARIES
from delta_ops.transaction.changes import tombstone
from tests.support.tiers import seeded

STEPS = st.sampled_from(
    [
        *["append", "append", "overwrite", "replace", "delete", "optimize", "txn", "race"],
        *["add again", "remove without size", "remove what is gone", "bring back", "checkpoint"],
        *["properties", "foreign add again", "foreign remove without size"],
        *["deltalake append", "deltalake delete", "deltalake optimize", "deltalake properties"],
        *["lose checksums", "damage checksum"],
    ]
)


class History:
    """A table, and operations on it."""

    def __init__(self, root: Path, interval: int, seed: int) -> None:
        self.root, self.random = root, seeded(seed)
        self.log = DeltaLog(root)
        self.number = 0
        self.damaged: set[int] = set()
        self.configuration = {"delta.checkpointInterval": str(interval)}
        self.append()

    def step(self, name: str) -> None:
        getattr(self, name.replace(" ", "_"))()

    def rows(self) -> pa.Table:
        self.number += 1
        return pa.table({"id": [self.number], "p": [self.random.choice("ab")]})

    def append(self, **options: Any) -> None:
        options = {"partition_by": ["p"], "configuration": self.configuration, **options}
        assert da.write(self.log, self.rows(), **options).failed_hooks == ()

    def overwrite(self) -> None:
        self.append(mode="overwrite")

    def replace(self) -> None:
        data = self.rows()
        da.write(self.log, data, "overwrite", replace_where=col("p") == data["p"][0].as_py())

    def delete(self) -> None:
        txn = begin(self.log)
        assert txn.snapshot
        txn.remove(txn.snapshot.add_files(col("p") == "a"))
        txn.commit(operation="DELETE")

    def optimize(self) -> None:
        optimize(self.log)

    def txn(self) -> None:
        self.append(txn=(self.random.choice("xyz"), self.number))

    def race(self) -> None:
        slow = begin(self.log)
        for _ in range(self.random.randint(1, 3)):
            self.random.choice([self.append, self.txn, self.deltalake_append])()
        da.write(slow, self.rows())

    def add_again(self) -> None:
        self.by_hand(replace(add, stats=None, data_change=False) for add in self.some_files())

    def remove_without_size(self) -> None:
        self.by_hand(replace(remove, size=None) for remove in self.some_removes())

    def remove_what_is_gone(self) -> None:
        removed = self.log.snapshot().tombstones()["path"].to_pylist()[:1]
        self.by_hand(RemoveFile(path=path, size=5) for path in [*removed, "never"])

    def bring_back(self) -> None:
        removed = self.log.snapshot().tombstones().to_pylist()[:1]
        places = [self.root / unquote(row["path"]) for row in removed]
        self.by_hand(
            AddFile(
                path=row["path"],
                size=place.stat().st_size,  # deltalake opens the file under this name
                partition_values=dict(row["partitionValues"] or [("p", None)]),
                modification_time=0,
            )
            for row, place in zip(removed, places, strict=True)
            if place.exists()
        )

    def properties(self) -> None:
        metadata = self.log.snapshot().metadata
        configuration = {**metadata.configuration, "x": str(self.number)}
        self.by_hand([replace(metadata, configuration=configuration)])

    def foreign_add_again(self) -> None:
        self.foreign(replace(add, stats=None) for add in self.some_files())

    def foreign_remove_without_size(self) -> None:
        self.foreign(replace(remove, size=None) for remove in self.some_removes())

    def checkpoint(self) -> None:
        create_checkpoint(self.log)

    def deltalake_append(self) -> None:
        write_deltalake(str(self.root), self.rows(), mode="append")

    def deltalake_delete(self) -> None:
        DeltaTable(str(self.root)).delete("p = 'b'")

    def deltalake_optimize(self) -> None:
        DeltaTable(str(self.root)).optimize.compact()

    def deltalake_properties(self) -> None:
        table = DeltaTable(str(self.root))
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 40 days"})

    def lose_checksums(self) -> None:
        for place in (self.root / "_delta_log").glob("0*.crc"):
            if self.random.random() < 0.5:
                place.unlink()

    def damage_checksum(self) -> None:
        version = self.log.snapshot().version
        place = self.root / "_delta_log" / checksum_name(version)
        if place.exists():
            said = json.loads(place.read_text())
            name = self.random.choice([*said])
            damages: list[dict[str, Any]] = [{name: None}, {"txnId": "x"}, {"numFiles": -1}]
            changes = self.random.choice(damages)
            place.write_text(json.dumps({**said, **changes}))
            self.damaged.add(version)

    def some_files(self) -> list[AddFile]:
        return self.log.snapshot().add_files()[: self.random.randint(1, 2)]

    def some_removes(self) -> Iterator[RemoveFile]:
        return (tombstone(add, 1, data_change=True) for add in self.some_files())

    def by_hand(self, actions: Any) -> None:
        """A commit with our hook after it."""
        before = self.log.snapshot()
        actions = [CommitInfo(values={"txnId": str(before.version)}), *actions]
        self.foreign(actions)
        create_checksum(
            self.log.storage, self.log.log_directory, before.version + 1, before, actions
        )

    def foreign(self, actions: Any) -> None:
        all_actions: list[Action] = list(actions)
        version = self.log.snapshot().version + 1
        create_commit(self.log.storage, self.log.log_directory, version, all_actions)

    def check(self) -> int:
        """Compare each checksum with the log; return the number of checksums."""
        checked = 0
        for version in range(self.log.snapshot().version + 1):
            place = self.root / "_delta_log" / checksum_name(version)
            if place.exists() and version not in self.damaged:
                said = json.loads(place.read_text())
                expected: dict[str, Any] = replayed(self.root, version)
                assert said == {**said, **expected}, version
                checked += 1
        return checked


def replayed(root: Path, version: int) -> dict[str, Any]:
    """The expected checksum, from the log's text from its beginning."""
    sizes: dict[str, int] = {}
    last: dict[str, Any] = {"txn": {}, "domainMetadata": {}}
    for number in range(version + 1):
        for line in (root / "_delta_log" / commit_name(number)).read_text().splitlines():
            ((name, body),) = json.loads(line).items()
            if name == "add":
                sizes[unquote(body["path"])] = body["size"]
            elif name == "remove":
                sizes.pop(unquote(body["path"]), None)
            elif name == "txn":
                last["txn"][body["appId"]] = body
            else:
                last[name] = body
    bins = [0] * len(BOUNDARIES)
    for size in sizes.values():
        bins[bisect_right(BOUNDARIES, size) - 1] += 1
    recorded = json.loads((root / "_delta_log" / checksum_name(version)).read_text())
    expected: dict[str, Any] = {
        "numFiles": len(sizes),
        "tableSizeBytes": sum(sizes.values()),
        "protocol": _present(last["protocol"]),
        "metadata": _present(last["metaData"]),
        "domainMetadata": [],
    }
    if "txnId" in recorded:
        expected["txnId"] = last["commitInfo"]["txnId"]
    if "setTransactions" in recorded:
        by_app = {txn["appId"]: txn for txn in recorded["setTransactions"]}
        assert {app: _present(txn) for app, txn in last["txn"].items()} == by_app
    if "fileSizeHistogram" in recorded:
        assert recorded["fileSizeHistogram"]["fileCounts"] == bins
        assert sum(recorded["fileSizeHistogram"]["totalBytes"]) == sum(sizes.values())
    return {name: value for name, value in expected.items() if name in recorded}


def _present(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


@given(
    st.lists(STEPS, min_size=1, max_size=12),
    st.sampled_from([2, 3, 10]),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=15, deadline=None)
def test_a_checksum_equals_the_replay(
    steps: list[str], interval: int, is_large: bool, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as root:
        history = History(Path(root), interval, seed)
        for step in steps:
            with patch(
                "delta_ops.log.checksum_write.write.CHEAP_CHECKPOINT_BYTES",
                0 if is_large else 1 << 20,
            ):
                history.step(step)
        history.check()


def test_our_own_writes_leave_no_version_without_one(tmp_path: Path) -> None:
    history = History(tmp_path, interval=3, seed=1)
    steps = ["append", "overwrite", "replace", "delete", "txn", "append", "optimize", "txn"] * 2
    for step in steps:
        history.step(step)
    assert history.check() == history.log.snapshot().version + 1
