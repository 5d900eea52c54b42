"""A change of a table's definition never lists its files, however many exist."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from delta_ops import DeltaLog, ddl
from delta_ops.maintenance import create_checkpoint
from delta_ops.storage import open_storage
from tests.support.commands import COMMANDS, prepared
from tests.support.counting_storage import CountingStorage

CHANGES = [
    name
    for name, command in COMMANDS.items()
    if command.function.__name__ in ddl.__all__ and not (command.reads_files or command.is_new)
]
IN_EACH_RUN = (
    "set properties",
    "add columns",
    "drop columns",
    "widen a type",
    "cluster by",
    "drop constraint",
    "drop feature",
)
"""Changes in `make test`: one from each module that alters tables."""


def without_files(root: Path) -> int:
    """Delete all of a table except its last version, a V2 checkpoint without sidecars.

    Returns the version.
    """
    create_checkpoint(root)
    version, directory = DeltaLog(root).snapshot().version, root / "_delta_log"
    shutil.rmtree(directory / "_sidecars")
    for name in range(version):
        (directory / f"{name:020}.json").unlink()
    for place in root.glob("p=*"):
        shutil.rmtree(place)
    return version


@pytest.mark.parametrize(
    ("name", "has_checksum"),
    [
        *(
            pytest.param(name, True, id=name, marks=() if name in IN_EACH_RUN else pytest.mark.full)
            for name in CHANGES
        ),
        *(
            pytest.param(name, False, id=f"{name} without a checksum", marks=pytest.mark.full)
            for name in ("set properties", "drop columns", "cluster by", "drop feature")
        ),
    ],
)
def test_a_change_opens_no_list_of_files(tmp_path: Path, name: str, has_checksum: bool) -> None:
    command = COMMANDS[name]
    with_sidecars = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1000"}
    command = replace(command, properties={**command.properties, **with_sidecars})
    version = without_files(prepared(tmp_path / "t", command))
    if not has_checksum:
        for checksum in (tmp_path / "t").rglob("*.crc"):
            checksum.unlink()
    calls: list[tuple[str, str]] = []

    def note(_number: int, method: str, path: str, when: str) -> None:
        if when == "before":
            calls.append((method, path.rpartition("/")[2]))

    storage = CountingStorage(open_storage(tmp_path / "t"), note)
    assert command.run(DeltaLog("", storage=storage)).version == version + 1
    creates = [number for number, (method, _) in enumerate(calls) if method == "create"]
    assert calls[creates[0]][1] == f"{version + 1:020}.json"
    assert len(creates) == 1 + has_checksum
    # Without a checksum, a small file list is read after the commit, to write the first checksum.
    before = calls if has_checksum else calls[: creates[0]]
    assert not [path for _, path in before if path.endswith(".parquet")]
    assert len(calls) <= 10
