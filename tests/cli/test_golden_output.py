"""The output of commands at 80 and 120 columns equals the files in `golden/`.

`UPDATE_GOLDEN=1 make test-one TEST=tests/cli/test_golden_output.py` writes the files. Review their
changes by eye.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, ddl
from delta_ops.clock import DAY_MS
from tests.cli.terminals import text_shown

GOLDEN = Path(__file__).parent / "golden"
ROOTS = re.compile("^(?=(lake|rows)\\b)")
"""The beginning of an argument that is a place in the store of this process."""
BEGIN_MS = 1_706_700_000_000
"""In January 2024, so that every retention is over."""
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
TIME = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z")
COMMANDS: Mapping[str, str] = {
    "show": "show lake/orders",
    "show-of-a-plain-table": "show rows/visits",
    "files": "files lake/orders",
    "plan": "plan lake/orders --where \"country = 'NL' AND id < 8000\"",
    "plan-without-bounds": 'plan lake/orders --where "price > 3.50"',
    "plan-of-every-file": "plan rows/visits",
    "history": "history lake/orders",
    "schema": "schema rows/visits",
    "schema-arrow": "schema rows/visits --arrow",
    "properties": "properties lake/orders",
    "head": "head rows/visits",
    "head-columns": "head rows/visits --columns id,page",
    "count": "count rows/visits",
    "changes": "changes rows/visits --from-version 1 --columns id,seen,_change_type",
    "changes-before-the-feed": "changes rows/visits --from-version 0",
    "changes-without-a-feed": "changes lake/orders --from-version 0",
    "health": "health lake/orders",
    "health-of-a-lake": "health lake",
    "advise": "advise lake/orders",
    "maintain": "maintain lake/orders --dry-run",
    "maintain-a-lake": "maintain lake --dry-run",
    "optimize": "optimize lake/orders --dry-run",
    "optimize-zorder": "optimize lake/orders --zorder id --dry-run",
    "optimize-purge": "optimize lake/orders --purge --dry-run",
    "vacuum": "vacuum lake/orders --dry-run",
    "vacuum-too-early": "vacuum lake/orders --dry-run --retain-hours 1",
    "checkpoint": "checkpoint lake/orders --dry-run",
    "clean-up-log": "clean-up-log lake/orders --dry-run",
    "restore": "restore lake/orders --version 1 --dry-run",
    "help": "--help",
    "help-alter": "alter lake/orders --help",
    "help-optimize": "optimize --help",
    "help-vacuum": "vacuum --help",
    "help-health": "health --help",
    "help-files": "files --help",
    "help-plan": "plan --help",
}


REFUSED = [
    COMMANDS[name]
    for name in ("changes-before-the-feed", "changes-without-a-feed", "advise", "vacuum-too-early")
]
"""Commands that end with an error; the others show their progress in its place."""


@pytest.fixture(scope="module", autouse=True)
def lake() -> Iterator[None]:
    """Two tables whose times, sizes and names are the same in each run."""
    store = fsspec.filesystem("memory")
    write_log(store, "orders", commits_of_orders())
    write_log(store, "customers", commits_of_customers())
    store.pipe_file(f"/lake/orders/{path_of('NL', 1)}", b"0" * 700_000)
    orphan = f"/lake/orders/{path_of('NL', 9)}"
    store.pipe_file(orphan, b"0" * 700_000)
    store.store[orphan].created = datetime.fromtimestamp(time_at(1) / 1000, UTC)
    write_visits()
    yield
    for root in ("/lake", "/rows"):
        store.rm(root, recursive=True)


def write_log(store: Any, name: str, commits: Iterable[list[dict[str, Any]]]) -> None:
    """A log of files that do not exist, and that these commands do not read."""
    for version, actions in enumerate(commits):
        text = "\n".join(map(json.dumps, actions))
        store.pipe_file(f"/lake/{name}/_delta_log/{version:020}.json", text.encode())


def commits_of_orders() -> Iterator[list[dict[str, Any]]]:
    fields = {"id": "long", "country": "string", "price": "decimal(10,2)", "bought": "timestamp"}
    schema = [
        {"name": name, "type": kind, "nullable": name != "id", "metadata": {}}
        for name, kind in fields.items()
    ]
    features = {
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "deletionVectors", "inCommitTimestamp", "invariants"],
    }
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    metadata = {
        "id": "11111111-2222-3333-4444-555555555555",
        "description": "Orders of the shop",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": schema}),
        "partitionColumns": ["country"],
        "configuration": {
            "delta.enableInCommitTimestamps": "true",
            "delta.checkpointInterval": "3",
            "delta.logRetentionDuration": "interval 3650 days",
        },
        "createdTime": BEGIN_MS,
    }
    yield [info(0, "CREATE TABLE"), {"protocol": protocol}, {"metaData": metadata}]
    user = json.dumps({"dagster/run_id": "0f0e0d0c-1111-2222-3333-444455556666"})
    yield [
        info(1, "WRITE", mode="Append", rows=9_000, files=3, userMetadata=user),
        *({"add": add("NL", number, 3_000)} for number in (1, 2, 3)),
    ]
    yield [
        info(2, "WRITE", mode="Append", rows=4_500, files=2, engineInfo="Apache-Spark/3.5.1"),
        *({"add": add("BE", number, 2_250)} for number in (1, 2)),
    ]
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 4,
        "sizeInBytes": 40,
        "cardinality": 900,
    }
    gone = {"path": path_of("NL", 1), "deletionTimestamp": time_at(3), "dataChange": True}
    also = {"path": path_of("BE", 2), "deletionTimestamp": time_at(3), "dataChange": True}
    yield [
        info(3, "DELETE", predicate='["id < 3000"]'),
        {"remove": gone},
        {"remove": also},
        {"add": {**add("BE", 2, 2_250), "deletionVector": vector}},
    ]


def commits_of_customers() -> Iterator[list[dict[str, Any]]]:
    """A table that needs nothing."""
    field = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    metadata = {
        "id": "11111111-2222-3333-4444-666666666666",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [field]}),
        "partitionColumns": [],
        "configuration": {"delta.logRetentionDuration": "interval 3650 days"},
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    file = {**add("NL", 1, 3_000), "path": "part-00001.parquet", "partitionValues": {}}
    yield [info(0, "CREATE TABLE"), {"protocol": protocol}, {"metaData": metadata}, {"add": file}]


def time_at(version: int) -> int:
    return BEGIN_MS + version * DAY_MS


def info(
    version: int, operation: str, rows: int = 0, files: int = 0, **values: str
) -> dict[str, Any]:
    metrics = {"numFiles": str(files), "numOutputRows": str(rows)} if rows else {}
    parameters = {name: values.pop(name) for name in ("mode", "predicate") if name in values}
    return {
        "commitInfo": {
            "inCommitTimestamp": time_at(version),
            "timestamp": time_at(version),
            "operation": operation,
            "operationParameters": parameters,
            "operationMetrics": metrics,
            "engineInfo": "delta_ops/0.1.0",
            **values,
        }
    }


def path_of(country: str, number: int) -> str:
    digits = f"{number}" * 4
    return (
        f"country={country}/part-0000{number}-{digits}{digits}-{digits}-4{digits[1:]}-c000.parquet"
    )


def add(country: str, number: int, rows: int) -> dict[str, Any]:
    stats = {
        "numRecords": rows,
        "minValues": {"id": number * rows},
        "maxValues": {"id": (number + 2) * rows},
        "nullCount": {"id": 0, "price": 0, "bought": 0},
    }
    return {
        "path": path_of(country, number),
        "partitionValues": {"country": country},
        "size": 700_000 * number,
        "modificationTime": time_at(number),
        "dataChange": True,
        "stats": json.dumps(stats),
    }


def write_visits() -> None:
    """A table with rows of several types, a deletion vector, and a change data feed."""
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "page": ["/", "/a very long address/of a page/that nobody reads to the end", None],
            "seen": [datetime(2026, 1, 31, 12, 0, second, tzinfo=UTC) for second in (1, 2, 3)],
            "local": [datetime(2026, 1, 31, 12, 0, 0, 250_000)] * 3,
            "member": [True, False, None],
            "tags": [["a", "b"], [], None],
        }
    )
    da.write("memory://rows/visits", rows)
    feed = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    ddl.set_properties(DeltaLog("memory://rows/visits"), feed)
    da.delete("memory://rows/visits", "id = 2")


def shown(command: str, columns: int) -> str:
    """The output of a command, without what differs between runs."""
    words = [ROOTS.sub("memory://", word) for word in shlex.split(command)]
    text = text_shown(words, columns=columns, lines=50, status=None, errors=command in REFUSED)
    lines = STYLE.sub("", text).replace("\r", "").split("\n")
    return "\n".join(TIME.sub(same_time, line).rstrip() for line in lines)


def same_time(found: re.Match[str]) -> str:
    return found[0] if found[0] < "2026-02" else "2026-02-01 00:00:00Z"


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_what_its_golden_file_has(name: str, columns: int) -> None:
    file = GOLDEN / str(columns) / f"{name}.txt"
    text = f"$ delta-ops {COMMANDS[name]}\n{shown(COMMANDS[name], columns)}"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


def test_each_golden_file_has_a_command() -> None:
    names = sorted(f"{columns}/{name}.txt" for columns in (80, 120) for name in COMMANDS)
    assert sorted(path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.txt")) == names
