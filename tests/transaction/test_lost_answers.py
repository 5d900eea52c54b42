"""Every operation on a store that carries out requests and loses the answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col, ddl
from delta_ops.errors import DataFileError, DeltaOpsError, StorageError, TableNotFoundError
from delta_ops.maintenance import clean_up_log, compact_log, create_checkpoint
from delta_ops.storage import open_storage
from delta_ops.storage.own_files import create_own, create_unique
from tests.support.commands import Command, age_log, prepared, rows_from
from tests.support.faulty_storage import Faults, FaultyStorage
from tests.support.servers.s3 import Failure, S3Server
from tests.support.tables import rows
from tests.transaction.test_every_operation import OPERATIONS

TEN_PERCENT = Faults(lost_requests=0.1, lost_answers=0.1, resent_creates=0.1)
_V2 = {"delta.checkpointPolicy": "v2"}
_VECTORS = {"delta.enableDeletionVectors": "true"}


def _one_file(log: DeltaLog) -> None:
    da.write(log, rows_from(1), "overwrite", overwrite_schema=True, partition_by=[])


def _delete_beside_a_deletion(log: DeltaLog) -> Any:
    transaction = begin(log)
    da.delete(DeltaLog(log.uri), col("id") == 1)
    return da.delete(transaction, col("id") == 2)


def _leave_old_v2_checkpoints(log: DeltaLog) -> None:
    create_checkpoint(log)
    da.write(log, rows_from(7))
    create_checkpoint(log)
    age_log(log, 40)


def _clone_into(log: DeltaLog) -> Any:
    source = Path(log.uri).with_name("source")
    if not source.exists():
        da.write(source, rows_from(1))
    return ddl.shallow_clone(source, log)


CHANGES: Mapping[str, Command] = {
    **{name: each for name, each in OPERATIONS.items() if name != "shallow clone"},
    "delete of rows of a file that another deletion changes": Command(
        function=da.delete, run=_delete_beside_a_deletion, properties=_VECTORS, prepare=_one_file
    ),
    "V2 checkpoint": Command(function=create_checkpoint, run=create_checkpoint, properties=_V2),
    "checkpoint of parts": Command(
        function=create_checkpoint, run=lambda log: create_checkpoint(log, part_rows=1)
    ),
    "log clean-up": Command(
        function=clean_up_log,
        run=clean_up_log,
        properties=_V2,
        prepare=_leave_old_v2_checkpoints,
    ),
    "log compaction": Command(function=compact_log, run=lambda log: compact_log(log, 0, 1)),
    "shallow clone": Command(function=ddl.shallow_clone, run=_clone_into, is_new=True),
    "manifest": Command(function=ddl.generate_manifest, run=ddl.generate_manifest),
    "drop table": Command(
        function=ddl.drop_table,
        run=lambda log: ddl.drop_table(log, Path(log.uri).name),
    ),
}
HALF_DONE = [
    CHANGES["delete of rows of a file that another deletion changes"],
    CHANGES["drop table"],
    CHANGES["manifest"],
]
"""Operations that leave neither the old nor the new rows and manifests when they fail."""


def state(root: Path) -> Any:
    """The rows of a table and its manifests, or the error of opening it."""
    manifests = {
        str(each.relative_to(root)): len(each.read_text().splitlines())
        for each in root.glob("_symlink_format_manifest/**/manifest")
    }
    try:
        return rows(da.to_table(root)), manifests
    except (TableNotFoundError, DataFileError) as error:
        return type(error)


def run(root: Path, command: Command, faults: Faults, seed: int) -> DeltaOpsError | None:
    """Run a command on a faulty store; return its error, which must be typed."""
    storage = FaultyStorage(open_storage(root), faults, seed)
    try:
        command.run(DeltaLog("", storage=storage))
    except DeltaOpsError as error:
        return error
    return None


@pytest.fixture(params=CHANGES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Command, Callable[[], Path]]:
    """A command, and a function that copies a table for it."""
    command = CHANGES[request.param]
    root = prepared(tmp_path / "table", command, interval="100")
    numbers = iter(range(1_000))

    def copy() -> Path:
        return Path(shutil.copytree(root, tmp_path / str(next(numbers)) / "table"))

    return command, copy


@pytest.mark.some_cases(12)
def test_an_operation_recognizes_each_file_that_it_created(
    case: tuple[Command, Callable[[], Path]],
) -> None:
    command, copy = case
    clean, faulty = copy(), copy()
    command.run(DeltaLog(clean))
    assert run(faulty, command, Faults(resent_creates=1.0), 1) is None
    assert state(faulty) == state(clean)


@pytest.mark.some_cases(12)
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(1), id="once"),
        pytest.param(range(1, 25), id="often", marks=pytest.mark.full),
    ],
)
def test_an_operation_succeeds_or_raises_a_typed_error(
    case: tuple[Command, Callable[[], Path]], seeds: range
) -> None:
    command, copy = case
    clean = copy()
    before = state(clean)
    command.run(DeltaLog(clean))
    for seed in seeds:
        root = copy()
        if run(root, command, TEN_PERCENT, seed) is None:
            assert state(root) == state(clean)
        elif command not in HALF_DONE:
            assert state(root) in (before, state(clean))


def test_a_file_with_other_bytes_is_no_own_file(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    storage.create("a", b"another's")
    assert create_own(storage, "a", b"another's")
    assert not create_own(storage, "a", b"ours")
    with pytest.raises(
        StorageError, match="a could not be created: another file has this random name"
    ):
        create_unique(storage, "a", b"ours")
    assert storage.read("a") == b"another's"


def test_on_s3_a_vector_whose_answer_is_lost_is_recognized(s3_server: S3Server) -> None:
    log = DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    da.write(log, rows_from(1, 3).drop_columns("p"), configuration=_VECTORS)
    with s3_server.failing(Failure(500, "InternalError", lands=True)):
        da.delete(log, col("id") == 1)
    assert da.to_table(log)["id"].to_pylist() == [2, 3]


def test_a_compaction_whose_answer_is_lost_counts_as_written(tmp_path: Path) -> None:
    for first in (1, 5):
        da.write(tmp_path, rows_from(first))
    storage = FaultyStorage(open_storage(tmp_path), Faults(resent_creates=1.0), 1)
    assert compact_log(DeltaLog("", storage=storage), 0, 1).written
