"""Names that load late, and packages that one thread imports while another thread forks."""

from __future__ import annotations

import ast
import pickle
import sys
import threading
import uuid
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import fsspec
import pytest
from pyspark import cloudpickle

from delta_ops.late_imports import importing
from delta_ops.storage import open_storage
from tests.support.forked import call_in_child, needs_fork
from tests.support.gate import Gate

A_MOMENT_S = 0.5
PROJECT = Path(__file__).resolve().parents[1]
LATE_PACKAGES = sorted(
    ".".join(path.parent.relative_to(PROJECT).parts)
    for path in (PROJECT / "delta_ops").rglob("__init__.py")
    if "late_names(" in path.read_text()
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package with the late function `sort` of its module `sort.act`, and a submodule."""
    folder = tmp_path / "lake"
    (folder / "sort").mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from delta_ops.late_imports import late_names\n"
        "late_names(__name__, {'lake.sort.act': ['Rows', 'sort', 'gone'], 'lake': ['paths']})\n"
    )
    (folder / "sort" / "__init__.py").write_text("")
    (folder / "sort" / "act.py").write_text("class Rows: ...\ndef sort(): return Rows()\n")
    (folder / "paths.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("lake")
    for name in [each for each in sys.modules if each.partition(".")[0] == "lake"]:
        del sys.modules[name]


def test_a_late_name_loads_its_module_on_first_access(lake: Any) -> None:
    assert "lake.sort" not in sys.modules
    assert isinstance(lake.sort(), lake.Rows)
    assert vars(lake)["Rows"] is sys.modules["lake.sort.act"].Rows


def test_a_submodule_does_not_replace_a_late_name(lake: Any) -> None:
    act = import_module("lake.sort.act")
    assert lake.sort is act.sort
    assert lake.paths is import_module("lake.paths")


def test_a_package_lists_late_names_and_refuses_others(lake: Any) -> None:
    assert {"Rows", "sort", "paths"} <= set(dir(lake))
    assert not hasattr(lake, "gone")
    with pytest.raises(AttributeError, match="module 'lake' has no attribute 'missing'"):
        _ = lake.missing


def test_a_function_that_uses_a_package_is_pickled(lake: Any) -> None:
    def sorted_rows() -> Any:
        return lake.sort()

    pickled = cloudpickle.dumps(sorted_rows)  # type: ignore[no-untyped-call]
    assert isinstance(pickle.loads(pickled)(), lake.Rows)


@pytest.mark.parametrize("package", LATE_PACKAGES)
def test_type_checkers_and_python_find_the_same_names(package: str) -> None:
    module = import_module(package)
    statements = ast.parse(Path(str(module.__file__)).read_text()).body
    (late,) = (
        each for each in statements if isinstance(each, ast.If) and "late_names" in ast.dump(each)
    )
    typed = {
        alias.name: each.module
        for each in late.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    assert vars(module)["_modules_by_name"] == typed
    submodules = {name for name, place in typed.items() if place == package}
    assert set(module.__all__) - {"__version__"} == typed.keys() - submodules
    assert [name for name in typed if not hasattr(module, name)] == []


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


@needs_fork
def test_a_fork_waits_for_the_rest_of_an_import_with_imports_within(late: LateStore) -> None:
    done: list[bool] = []

    def import_twice() -> None:
        with importing():
            with importing():
                pass
            late.gate.pass_by()
            done.append(True)

    with late.gate.holding([import_twice]):
        threading.Timer(A_MOMENT_S, late.gate.open).start()
        assert call_in_child(lambda: len(done)) == 1


def test_imports_do_not_wait_for_each_other(late: LateStore) -> None:
    with late.gate.holding([late.open]):
        assert open_storage("memory://t").uri == "memory://t"
