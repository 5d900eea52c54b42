"""The vacuum cases of the reference's tests, a line each, for both modes.

A case lists the files, when each was written and removed, and which of them a full vacuum and a
lite vacuum delete. The retention is a week.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from delta_ops.clock import DAY_MS
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import vacuum
from delta_ops.protocol.actions import Action, AddCdcFile, AddFile, DeletionVector, Protocol
from delta_ops.protocol.deletion_vectors import stored_path
from tests.maintenance.aged_tables import NOW, Table
from tests.support.tables import add, metadata, remove


class File(NamedTuple):
    """A file and its actions in the log; ages are in days."""

    written: float = 30
    committed: bool = False
    removed: float | None = None
    log_path: str | None = None
    is_change: bool = False


def live(written: float = 30, **options: object) -> File:
    return File(written, True, **options)  # type: ignore[arg-type]


def removed(days: float, written: float = 30, **options: object) -> File:
    return File(written, True, days, **options)  # type: ignore[arg-type]


def stray(written: float = 30) -> File:
    return File(written)


def change(written: float = 30) -> File:
    return File(written, True, is_change=True)


def build(root: Path, files: Mapping[str, File], partition_columns: tuple[str, ...] = ()) -> Table:
    """The table at version 2: version 0 adds files, 1 removes the removed files, 2 is recent."""
    table = Table(root, now_ms=NOW)
    values = dict.fromkeys(partition_columns, "1")
    first: list[Action] = [
        Protocol(min_reader_version=1, min_writer_version=4),
        metadata(
            partition_columns=partition_columns,
            configuration={"delta.enableChangeDataFeed": "true"},
            schema_string=SCHEMA_OF_CASES,
        ),
    ]
    second: list[Action] = []
    third: list[Action] = []
    for path, file in files.items():
        log_path = file.log_path or quote(path)
        if file.is_change:
            second.append(AddCdcFile(path=log_path, size=4, partition_values=values))
        elif file.committed:
            first.append(add(log_path, partition_values=values))
        if file.removed is not None:
            tombstone = remove(log_path, deletion_timestamp=int(NOW - file.removed * DAY_MS))
            (second if file.removed > 7 else third).append(tombstone)
    for version, (actions, age) in enumerate([(first, 29), (second, 8), (third, 1)]):
        create_commit(table.log.storage, table.log.log_directory, version, actions)
        commit = root / "_delta_log" / f"{version:020d}.json"
        os.utime(commit, ((NOW - age * DAY_MS) / 1000,) * 2)
    for path, file in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"junk")
        os.utime(place, ((NOW - file.written * DAY_MS) / 1000,) * 2)
    return table


SCHEMA_OF_CASES = (
    '{"type":"struct","fields":['
    + ",".join(
        f'{{"name":"{name}","type":"integer","nullable":true,"metadata":{{}}}}'
        for name in ("n", "_underscore_col_", "part")
    )
    + "]}"
)
NOTHING: set[str] = set()
CASES = [
    pytest.param({"a": live(), "b": removed(8)}, {"b"}, {"b"}, id="removed long ago"),
    pytest.param({"a": live(), "b": removed(6)}, NOTHING, NOTHING, id="removed this week"),
    pytest.param({"a": removed(8)}, {"a"}, {"a"}, id="the last file; its directory is the table"),
    pytest.param({"a": live(), "b": stray(8)}, {"b"}, NOTHING, id="never committed, and old"),
    pytest.param({"a": live(), "b": stray(6)}, NOTHING, NOTHING, id="about to be committed"),
    pytest.param({"a": removed(8, 6)}, NOTHING, NOTHING, id="removed, then written anew"),
    pytest.param(
        {"_hidden_dir/000001.text": stray(), ".hidden.txt": stray(), "a": live()},
        NOTHING,
        NOTHING,
        id="invisible files and directories",
    ),
    pytest.param(
        {"sub/_hidden/x": stray(), "sub/.x": stray(), "sub/x": stray()},
        {"sub/x"},
        NOTHING,
        id="invisible further down",
    ),
    pytest.param(
        {".hoodie/metadata/x": stray(), "a": live()}, NOTHING, NOTHING, id="metadata of Hudi"
    ),
    pytest.param(
        {"metadata/v1.json": stray()}, {"metadata/v1.json"}, NOTHING, id="metadata, alone"
    ),
    pytest.param(
        {"abc def/#1/file1.txt": live(), "abc def/#1/file2.txt": stray()},
        {"abc def/#1/file2.txt"},
        NOTHING,
        id="special characters in a stray file",
    ),
    pytest.param(
        {"abc def/#1/a%20b ü?.txt": removed(8), "abc def/#1/a b ü?.txt": live()},
        {"abc def/#1/a%20b ü?.txt"},
        {"abc def/#1/a%20b ü?.txt"},
        id="special characters in a removed file",
    ),
    pytest.param(
        {"part=1/a": removed(8), "part=1/b": live(), "part=1/sub/c": stray()},
        {"part=1/a", "part=1/sub/c"},
        {"part=1/a"},
        id="partitions",
    ),
    pytest.param(
        {"_underscore_col_=10/t.txt": removed(8), "_other_=10/t.txt": stray(), "a": live()},
        {"_underscore_col_=10/t.txt"},
        {"_underscore_col_=10/t.txt"},
        id="a partition column that begins with an underscore",
    ),
    pytest.param(
        {"_change_data/cdc-1": change(8), "_change_data/cdc-2": change(6), "a": live()},
        {"_change_data/cdc-1"},
        {"_change_data/cdc-1"},
        id="change data",
    ),
    pytest.param(
        {"_change_data/part=1/cdc-1": change(8), "a": removed(8)},
        {"_change_data/part=1/cdc-1", "a"},
        {"_change_data/part=1/cdc-1", "a"},
        id="change data of a partition, and a tombstone",
    ),
    pytest.param({"_delta_index/i": stray()}, {"_delta_index/i"}, NOTHING, id="an index"),
    pytest.param(
        {"_delta_log/_sidecars/x.parquet": stray(), "_delta_log/x": stray()},
        NOTHING,
        NOTHING,
        id="sidecars, and whatever is in the log",
    ),
    pytest.param(
        {"a": removed(8, log_path="file:/elsewhere/a"), "b": live()},
        {"a"},
        NOTHING,
        id="a removed file of another table has the name of a stray one",
    ),
    pytest.param(
        {"a": live(log_path="file:/elsewhere/a")},
        NOTHING,
        NOTHING,
        id="a live file elsewhere may be this one by another name",
    ),
]


@pytest.mark.some_cases(12)
@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(("files", "full", "lite"), CASES)
def test_deleted_files(
    tmp_path: Path, files: Mapping[str, File], full: set[str], lite: set[str], mode: str
) -> None:
    columns = ("_underscore_col_",) if any("_underscore" in path for path in files) else ()
    table = build(tmp_path / "t", files, columns)
    expected = full if mode == "full" else lite
    planned = vacuum(table.log, clock=table.clock, mode=mode, dry_run=True)  # type: ignore[arg-type]
    assert {info.path for info in planned.plan.files} == expected
    before = table.files()
    vacuum(table.log, clock=table.clock, mode=mode, log_commits=False)  # type: ignore[arg-type]
    gone = before - table.files()
    assert gone == expected


VECTORS = ["ab^-aqEH.-t@S}K{vb[*k^", "ab" + "0" * 20, "0" * 19 + "1"]


def vector(number: int, offset: int = 1) -> DeletionVector:
    return DeletionVector(
        storage_type="u",
        path_or_inline_dv=VECTORS[number],
        offset=offset,
        size_in_bytes=1,
        cardinality=1,
    )


def with_vectors(root: Path, *commits: list[Action]) -> tuple[Table, list[str]]:
    """A table of deletion vectors with only old files, and the paths of the vectors."""
    features = ("deletionVectors",)
    table = Table(root, now_ms=NOW)
    first: list[Action] = [
        Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=features,
            writer_features=features,
        ),
        metadata(),
    ]
    for version, actions in enumerate([first, *commits]):
        create_commit(table.log.storage, table.log.log_directory, version, actions)
    paths = [stored_path(vector(number), str(root)) or "" for number in range(len(VECTORS))]
    for path in ("x", "y", *paths):
        place = root / path
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"junk")
    for place in root.rglob("*"):
        os.utime(place, ((NOW - 30 * DAY_MS) / 1000,) * 2)
    return table, paths


def file(name: str, number: int, offset: int = 1) -> AddFile:
    return add(name, deletion_vector=vector(number, offset))


def gone(name: str, number: int, days: float, offset: int = 1) -> Action:
    return remove(
        name,
        deletion_timestamp=int(NOW - days * DAY_MS),
        deletion_vector=vector(number, offset),
    )


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(
    ("commits", "needed"),
    [
        pytest.param([[file("x", 0)]], {"x", 0}, id="the vector of a live file"),
        pytest.param(
            [[file("x", 0)], [gone("x", 0, 6), file("x", 1)]],
            {"x", 0, 1},
            id="a vector replaced this week",
        ),
        pytest.param(
            [[file("x", 0)], [gone("x", 0, 8), file("x", 1)]],
            {"x", 1},
            id="a vector replaced long ago; the file is live by another one",
        ),
        pytest.param(
            [[file("x", 0), file("y", 0, 50)], [gone("x", 0, 8)]],
            {"y", 0},
            id="a file of vectors with one needed vector",
        ),
        pytest.param([[file("x", 0)], [gone("x", 0, 8)]], set(), id="file and vector, long ago"),
        pytest.param(
            [[file("x", 0)], [gone("x", 0, 6)]], {"x", 0}, id="file and vector, this week"
        ),
        pytest.param(
            [[file("x", 2)], [gone("x", 2, 8), add("x")]], {"x"}, id="vectors purged long ago"
        ),
    ],
)
def test_deletion_vectors(
    tmp_path: Path, commits: list[list[Action]], needed: set[str | int], mode: str
) -> None:
    table, paths = with_vectors(tmp_path / "t", *commits)
    names = {path: path for path in ("x", "y")} | dict(enumerate(paths))
    named = {
        names[n]
        for actions in commits
        for action in actions
        for n in (
            action.path,  # type: ignore[union-attr]
            *(VECTORS.index(v.path_or_inline_dv) for v in [action.deletion_vector] if v),  # type: ignore[union-attr]
        )
    }
    everything = set(names.values())
    vacuum(table.log, clock=table.clock, mode=mode)  # type: ignore[arg-type]
    left = everything & table.files()
    kept = {names[each] for each in needed}
    assert left == (kept if mode == "full" else kept | (everything - named))
