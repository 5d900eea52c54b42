"""Logs of V2 checkpoints with sidecars, a version a day, as in the reference's retention cases."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Metadata, Protocol
from delta_ops.protocol.arrow_schemas import ADD
from delta_ops.protocol.json.codec import json_body
from tests.support.tables import add, live_paths, metadata

DAY_ZERO = 18_000 * DAY_MS
V2 = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("v2Checkpoint",),
    writer_features=("v2Checkpoint",),
)
METADATA = metadata(
    configuration={
        "delta.checkpointPolicy": "v2",
        "delta.logRetentionDuration": "interval 6 days",
        "delta.deletedFileRetentionDuration": "interval 1 day",
    }
)


class V2Log:
    """Version v is committed at the midnight of day v, and adds a file."""

    def __init__(self, root: Path, *, day: float = 0) -> None:
        self.root, self.day = root, day
        self.log = DeltaLog(root)
        self.place = root / "_delta_log"

    def clock(self) -> int:
        return DAY_ZERO + int(self.day * DAY_MS)

    def commit(self, version: int, *, first: tuple[Protocol | Metadata, ...] = ()) -> None:
        actions = [*first, add(f"{version}.parquet")]
        create_commit(self.log.storage, self.log.log_directory, version, actions)
        self.date()

    def sidecar(self, name: str, *versions: int) -> str:
        """A sidecar with the files of some versions."""
        directory = self.place / "_sidecars"
        directory.mkdir(exist_ok=True)
        same = {"partitionValues": [], "size": 1, "modificationTime": 0, "dataChange": False}
        rows = [{"path": f"{v}.parquet", **same} for v in versions]
        column = pa.array(rows, pa.struct(list(ADD)))
        pq.write_table(pa.table({"add": column}), directory / name)
        self.date()
        return name

    def checkpoint(self, version: int, *sidecars: str) -> Path:
        """A V2 checkpoint in JSON, named by its version."""
        lines: list[dict[str, Any]] = [
            {"checkpointMetadata": {"version": version}},
            {"protocol": json_body(V2)},
            {"metaData": json_body(METADATA)},
        ]
        for name in sidecars:
            size = (self.place / "_sidecars" / name).stat().st_size
            body = {"path": name, "sizeInBytes": size, "modificationTime": 1}
            lines.append({"sidecar": body})
        uuid = f"{version:08x}-0000-0000-0000-000000000000"
        top = self.place / f"{version:020d}.checkpoint.{uuid}.json"
        top.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.date()
        return top

    def checkpointed(self, version: int) -> None:
        """Commit, and write a checkpoint with one shared sidecar and one of its own."""
        self.commit(version)
        own = self.sidecar(f"own{version}.parquet", *range(1, version + 1))
        self.checkpoint(version, f"shared{version % 2}.parquet", own)

    def date(self) -> None:
        for place in self.root.rglob("*"):
            if place.is_file() and place.stat().st_mtime > (DAY_ZERO + 1000 * DAY_MS) / 1000:
                os.utime(place, (self.clock() / 1000, self.clock() / 1000))

    def live(self, version: int) -> set[str]:
        return live_paths(self.log, version)

    def versions(self, pattern: str) -> list[int]:
        return sorted({int(p.name[:20]) for p in self.place.glob(pattern)})

    def sidecars(self) -> set[str]:
        return {p.name for p in (self.place / "_sidecars").iterdir()}


def daily(root: Path, days: int = 9) -> V2Log:
    """Versions 0 to `days`, with a checkpoint of each from 2 on."""
    made = V2Log(root)
    made.commit(0, first=(V2, METADATA))
    for name in ("shared0.parquet", "shared1.parquet"):
        made.sidecar(name, 0)
    made.day = 1
    made.commit(1)
    for version in range(2, days + 1):
        made.day = version
        made.checkpointed(version)
    made.day = days + 1
    return made
