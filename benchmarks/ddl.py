"""Changes of a table's definition, with a million files and a thousand: store calls and bytes.

    python -m benchmarks.ddl [--files 1000000] [--folder DIR]

A log without data: one classic checkpoint holds the files; the worst case has no checksum beside
it. Calls are the calls of our storage layer, from the call that opens the table to the end of the
commit and its hooks; bytes read cover whole files and ranges. Peer: deltalake's own call for the
same change; only its time is known.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType

from benchmarks.open_table import make_table
from delta_ops import DeltaLog, ddl
from delta_ops.storage import Storage, open_storage
from tests.support.counting_storage import CountingStorage

CHANGES: Mapping[str, Callable[[DeltaLog], Any]] = {
    "set a property": lambda log: ddl.set_properties(log, {"owner": "me"}),
    "name the table": lambda log: ddl.rename_table(log, "orders"),
    "comment on a column": lambda log: ddl.set_comment(log, "x", "one"),
    "add a column": lambda log: ddl.add_columns(log, [ddl.NewColumn(name="z", data_type="int")]),
    "reorder columns": lambda log: ddl.reorder_columns(log, ["x", "id"]),
    "set a default": lambda log: ddl.set_default(log, "x", "0.5"),
    "switch column mapping on": lambda log: ddl.set_properties(
        log, {"delta.columnMapping.mode": "name"}
    ),
    "rename a column": lambda log: ddl.rename_column(log, "x", "y"),
    "drop a column": lambda log: ddl.drop_columns(log, ["s"]),
    "add a feature": lambda log: ddl.add_feature(log, "domainMetadata"),
    "drop a feature": lambda log: ddl.drop_feature(log, "domainMetadata"),
}
PEERS: Mapping[str, Callable[[str], Any]] = {
    "set a property": lambda path: DeltaTable(path).alter.set_table_properties(
        {"owner": "me"}, raise_if_not_exists=False
    ),
    "name the table": lambda path: DeltaTable(path).alter.set_table_name("orders"),
    "comment on a column": lambda path: DeltaTable(path).alter.set_column_metadata(
        "x", {"comment": "one"}
    ),
    "add a column": lambda path: DeltaTable(path).alter.add_columns(
        [Field("z", PrimitiveType("integer"))]
    ),
}


class Cost(NamedTuple):
    """The cost of a change."""

    calls: int
    bytes_read: int
    bytes_written: int
    seconds: float


class MeteredStorage(CountingStorage):
    """Counts calls and the returned bytes."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner, lambda *_: None)
        self.bytes_read = self.bytes_written = 0

    def read(self, path: str) -> bytes:
        data = super().read(path)
        self.bytes_read += len(data)
        return data

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        found = super().read_ranges(path, ranges)
        self.bytes_read += sum(map(len, found))
        return found

    @property
    def has_native_input(self) -> bool:
        """False, because Arrow's own reads would not be counted."""
        return False

    def open_input(self, path: str) -> pa.NativeFile:
        raise RuntimeError(f"{path} is opened, and how much is read of it is not known")

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:
        super().create(path, data, is_durable=is_durable)
        self.bytes_written += len(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for count in (arguments.files // 1000, arguments.files):
            for has_checksum in (True, False):
                report(Path(folder), count, has_checksum)


def report(folder: Path, count: int, has_checksum: bool) -> None:
    root = folder / f"{count}"
    if not root.exists():
        make_table(root, commits=10, files=count // 10)
        ddl.set_table_comment(root, "its hooks write a checkpoint and count the files")
        ddl.set_properties(root, {"delta.checkpointInterval": "1000"})
        shutil.copytree(root, folder / "peer" / f"{count}")
    checkpoint = max((root / "_delta_log").glob("*.checkpoint.parquet")).stat().st_size
    label = "with a checksum" if has_checksum else "without one"
    print(f"\n{count:,} files, a checkpoint of {checkpoint / 1e6:.1f} MB, {label}:\n")
    print("| | calls | bytes read | bytes written | seconds | deltalake, seconds |")
    print("|---|---|---|---|---|---|")
    table = folder / "table"
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(root, table)
    for name, change in CHANGES.items():
        if not has_checksum:
            for each in table.rglob("*.crc"):
                each.unlink()
        cost = measure(table, change)
        theirs = peer_seconds(folder / "peer" / f"{count}", name) if has_checksum else "-"
        print(
            f"| {name} | {cost.calls} | {cost.bytes_read:,} | {cost.bytes_written:,} | "
            f"{cost.seconds:.3f} | {theirs} |",
            flush=True,
        )


def measure(root: Path, change: Callable[[DeltaLog], Any]) -> Cost:
    storage = MeteredStorage(open_storage(root))
    started = time.perf_counter()
    change(DeltaLog("", storage=storage))
    took = time.perf_counter() - started
    return Cost(storage.num_calls, storage.bytes_read, storage.bytes_written, took)


def peer_seconds(root: Path, name: str) -> str:
    if name not in PEERS:
        return "-"
    started = time.perf_counter()
    PEERS[name](str(root))
    return f"{time.perf_counter() - started:.3f}"


if __name__ == "__main__":
    main()
