"""Packages that one thread imports while another thread forks."""

from __future__ import annotations

import sys
import threading
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import fsspec
import pytest

from delta_ops.late_imports import importing
from delta_ops.storage import open_storage
from tests.support.forked import call_in_child, needs_fork
from tests.support.gate import Gate

A_MOMENT_S = 0.5


class LateStore(NamedTuple):
    """A file system of fsspec that is not imported yet, and the gate within its package."""

    name: str
    gate: Gate

    def open(self) -> str:
        return open_storage(f"{self.name}://t").uri


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LateStore:
    store = LateStore(f"late{uuid.uuid4().hex}", Gate())
    monkeypatch.setitem(sys.modules, f"gate_of_{store.name}", SimpleNamespace(gate=store.gate))
    (tmp_path / f"{store.name}.py").write_text(
        "from fsspec.implementations.memory import MemoryFileSystem\n"
        f"from gate_of_{store.name} import gate\n"
        "gate.pass_by()\n"
        "class LateFileSystem(MemoryFileSystem):\n"
        f"    protocol = {store.name!r}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    fsspec.register_implementation(store.name, f"{store.name}.LateFileSystem")
    return store


@needs_fork
def test_a_child_forked_while_a_store_is_imported_opens_it(late: LateStore) -> None:
    with late.gate.holding([late.open]):
        threading.Timer(A_MOMENT_S, late.gate.open).start()
        assert call_in_child(late.open) == f"{late.name}://t"


@needs_fork
def test_a_fork_during_an_import_does_not_wait_for_itself() -> None:
    with importing():
        assert call_in_child(lambda: open_storage("memory://t").uri) == "memory://t"


def test_imports_do_not_wait_for_each_other(late: LateStore) -> None:
    with late.gate.holding([late.open]):
        assert open_storage("memory://t").uri == "memory://t"
