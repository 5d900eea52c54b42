"""Delete, update and merge on an S3 server, beside deltalake: the requests of each.

    python -m benchmarks.dml_on_s3 [--rows 1000000] [--files 20] [--changed 100000] [--only TEXT]

The server is moto's on loopback, in its own process; it counts the requests. The requests are the
same each time, so each call is made once, on a copy of the table, from the call that opens it to
the commit and its hooks. Bytes are the sizes of the added objects. Times do not apply to a remote
store. deltalake writes no vectors: both our ways are compared with its rewriting.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable

import delta_ops.arrow as da
from benchmarks.dml import CASES, make_table, source_of
from benchmarks.vacuum import s3_server
from delta_ops import col, ddl, parse_expression
from delta_ops.storage import open_storage
from tests.support.servers.s3 import S3Server, kinds

COUNTED = ("LIST", "HEAD", "GET", "PUT", "POST", "DELETE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--changed", type=int, default=100_000, help="rows of a merge's source")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    arguments = parser.parse_args()
    print(
        f"{arguments.rows:,} rows in {arguments.files:,} files, "
        f"{arguments.changed:,} rows of a source:\n"
    )
    print(f"| | | requests | of deltalake's | {' | '.join(COUNTED)} | MB added | seconds |")
    print(f"|---|---|---|---|{'---|' * len(COUNTED)}---|---|")
    with tempfile.TemporaryDirectory() as folder:
        tables = {}
        for vectors in ("false", "true"):
            tables[vectors] = Path(folder) / vectors
            make_table(tables[vectors], arguments.files, arguments.rows // arguments.files)
            ddl.set_properties(tables[vectors], {"delta.enableDeletionVectors": vectors})
        for name, (kind, ours, theirs) in CASES.items():
            if arguments.only not in name:
                continue
            source = (
                source_of(kind, arguments.rows, arguments.files, arguments.changed)
                if kind
                else None
            )
            few = str(arguments.rows // 1000)
            calls = [call.replace("{few}", few) for call in (theirs, ours, ours)]
            report(name, source, calls, [tables["false"], tables["false"], tables["true"]])


def report(name: str, source: pa.Table | None, calls: list[str], tables: list[Path]) -> None:
    first = 0
    sides = ("deltalake", "ours, copy-on-write", "ours, by vectors")
    for side, call, table in zip(sides, calls, tables, strict=True):
        with on_s3(table) as (server, place):
            before = size_of(server, place)
            with server.recording() as seen:
                took = run(call, f"s3://{place}", source, is_peer=side == "deltalake")
            added = size_of(server, place) - before
        found = Counter(kinds(seen))
        total = sum(found.values())
        first = first or total
        counts = " | ".join(str(found.pop(kind, 0)) for kind in COUNTED)
        assert not found, found
        print(
            f"| {name} | {side} | {total} | {total / first:.2f} | {counts} | {added / 1e6:.2f} | "
            f"{took:.2f} |",
            flush=True,
        )


@contextmanager
def on_s3(table: Path) -> Iterator[tuple[S3Server, str]]:
    """A copy of a table on its own server, with its bucket and key."""
    with s3_server() as server:
        bucket = server.new_bucket()
        files = [path for path in table.rglob("*") if path.is_file()]
        for path in files:
            server.put(bucket, {f"t/{path.relative_to(table)}": path.read_bytes()})
        with patch.dict(os.environ, {**server.environment, "AWS_ALLOW_HTTP": "true"}):
            yield server, f"{bucket}/t"


def size_of(server: S3Server, place: str) -> int:
    """Bytes of all objects of a table."""
    storage = open_storage(f"s3://{place}", server.storage_options)
    return sum(info.size for info in storage.list_tree(""))


def run(call: str, table: str, source: pa.Table | None, *, is_peer: bool) -> float:
    """Make a call of `benchmarks.dml`; return its seconds."""

    def merge() -> Any:
        assert source is not None
        if is_peer:
            return DeltaTable(table).merge(
                source, "target.id = source.id", source_alias="source", target_alias="target"
            )
        return da.merge(table, source, "target.id = source.id")

    def upsert() -> Any:
        return merge().when_matched_update_all().when_not_matched_insert_all().execute()

    names = {
        "DeltaTable": DeltaTable,
        "col": col,
        "da": da,
        "merge": merge,
        "parse_expression": parse_expression,
        "source": source,
        "table": table,
        "upsert": upsert,
    }
    started = time.perf_counter()
    exec(call, names)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
