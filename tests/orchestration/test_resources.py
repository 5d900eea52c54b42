"""Resources: each option of `DeltaLog` is an option of each resource."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, RangeCache
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import create_checkpoint
from delta_ops.orchestration import DeltaIOManager, DeltaLogResource, TableRef
from tests.support.servers.s3 import S3Server

KEY = dg.AssetKey("numbers")


class Lock:
    """A lock that records its paths."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    @contextmanager
    def __call__(self, path: str) -> Iterator[None]:
        self.paths.append(path)
        yield


Made = Callable[[str, dict[str, Any], Any, str | None], DeltaLog]


def by_resource(root: str, options: dict[str, Any], lock: Any, cache: str | None) -> DeltaLog:
    made = DeltaLogResource(root=root, storage_options=options, lock=lock, cache_directory=cache)
    return made.log(KEY)


def by_io_manager(root: str, options: dict[str, Any], lock: Any, cache: str | None) -> DeltaLog:
    made = DeltaIOManager(root=root, storage_options=options, lock=lock, cache_directory=cache)
    return made.log(KEY)


def by_shared_resource(
    root: str, options: dict[str, Any], lock: Any, cache: str | None
) -> DeltaLog:
    lake = DeltaLogResource(root=root, storage_options=options, lock=lock, cache_directory=cache)
    return DeltaIOManager(lake=lake).log(KEY)


def by_table_of_resource(
    root: str, options: dict[str, Any], lock: Any, cache: str | None
) -> DeltaLog:
    made = DeltaLogResource(root=root, storage_options=options, lock=lock, cache_directory=cache)
    return made.table(KEY).log()


def by_reference(root: str, options: dict[str, Any], lock: Any, cache: str | None) -> DeltaLog:
    kept = RangeCache(cache) if cache else None
    uri = f"{root}/numbers"
    made = TableRef(asset_key=KEY, uri=uri, storage_options=options, lock=lock, cache=kept)
    return made.log()


WAYS = [by_resource, by_io_manager, by_shared_resource, by_table_of_resource, by_reference]


@pytest.mark.parametrize("made", WAYS)
def test_a_table_is_committed_to_within_the_lock(made: Made, tmp_path: Path) -> None:
    lock = Lock()
    log = made(f"memory://{tmp_path.name}", {}, lock, None)
    da.write(log, pa.table({"id": [1]}))
    assert any(path.endswith(f"_delta_log/{0:020}.json") for path in lock.paths)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("made", WAYS)
def test_parts_of_checkpoints_are_cached_in_the_directory(
    made: Made, tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"s3://{s3_server.new_bucket()}"
    options = s3_server.storage_options
    for name, value in options.items():
        monkeypatch.setenv(f"TEST_{name}", value)
    variables = {name: dg.EnvVar(f"TEST_{name}") for name in options}
    plain = DeltaLog(f"{root}/numbers", options)
    da.write(plain, pa.table({"id": [1]}))
    create_checkpoint(plain)
    log = made(root, variables, None, str(tmp_path / "kept"))
    assert log.snapshot().num_files == 1
    assert any(files for _, _, files in os.walk(tmp_path / "kept"))


@pytest.mark.parametrize("made", [by_resource, by_io_manager, by_shared_resource])
@pytest.mark.parametrize("is_variable", [False, True], ids=["a text", "a variable"])
def test_an_empty_root_is_refused_because_it_would_be_the_root_of_the_file_system(
    made: Made, is_variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_ROOT", "")
    with pytest.raises(InvalidRequestError, match="root is empty; give a folder or a URI"):
        made(dg.EnvVar("TEST_ROOT") if is_variable else "", {}, None, None)


def test_an_asset_is_written_within_a_lock_that_is_a_resource(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    lock = Lock()

    @dg.resource
    def given() -> Lock:
        return lock

    @dg.asset
    def numbers() -> pa.Table:
        return pa.table({"id": [1, 2]})

    manager = DeltaIOManager(root=f"memory://{tmp_path.name}", lock=given)
    done = dg.materialize([numbers], instance=instance, resources={"io_manager": manager})

    assert done.success
    assert any(path.endswith(f"_delta_log/{0:020}.json") for path in lock.paths)
