"""Few modules exist for one other module only: most belong inside their user.

A module is counted if exactly one other module of the package imports it, by its own name or
through the names of a package. Some modules have one user by design, and are left out: see
`BY_DESIGN` and `is_public`.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "delta_ops"

MOST = 60

BY_DESIGN = {
    "delta_ops.cli.main": "a command is registered once; its name ends with _command",
    "delta_ops.storage": "it chooses between the storage of this machine and remote stores",
    "delta_ops.storage.backends": "the stores load at the first address with a scheme",
    "delta_ops.storage.backends.built_in": "a store is registered once",
    "delta_ops.storage.backends.s3": "a module has one part of the store's backend",
    "delta_ops.storage.backends.azure": "a module has one part of the store's backend",
    "delta_ops.maintenance.registry": "an operation is registered once",
    "delta_ops.maintenance.indexes.refresh": "a module has one part of a refresh",
    "delta_ops.log.version.scan_plan": "a module has one step of a plan",
    "delta_ops.maintenance.optimize.plan_runs": "a module has one step of a plan",
    "delta_ops.arrow.rewrite.rewrite": "a module writes rows in one kind of order",
    "delta_ops.arrow.engine": "a module implements one method of the engine port",
    "delta_ops.spark.statements.parse": "a module has the grammar of one group of statements",
    "delta_ops.spark.statements.routing": "a module implements one step for a statement",
    "delta_ops.tables.statements.run": "a module runs one group of statements",
    "delta_ops.orchestration.arrays.array_io_manager": "a module is loaded with zarr",
    "delta_ops.spark.engine": "a module implements one method of the engine port",
}
"""Modules whose parts are registered once, and why a part has one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """A module, and the name that another module takes from it; no name for all of the module."""

    module: str
    name: str | None


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax of each module, by its name; the name of `a/__init__.py` is `a`."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in PACKAGE.rglob("*.py")
    }


def is_package(module: str) -> bool:
    return (ROOT / module.replace(".", "/")).is_dir()


@cache
def imports_of(module: str) -> list[Import]:
    return list(_imports_of(module))


def _imports_of(module: str) -> Iterator[Import]:
    for node in ast.walk(modules()[module]):
        match node:
            case ast.Import(names=names):
                yield from (Import(module=each.name, name=None) for each in names)
            case ast.ImportFrom(module=str(source), names=names):
                for each in names:
                    inner = f"{source}.{each.name}"
                    is_module = inner in modules()
                    yield Import(module=inner if is_module else source, name=each.name)
            case ast.Constant(value=str(text)) if text in modules():
                yield Import(module=text, name=None)


@cache
def exports_of(module: str) -> dict[str, str]:
    """The public names of a package and the modules that have them."""
    if not is_package(module):
        return {}
    public = {
        element.value
        for node in ast.walk(modules()[module])
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for element in ast.walk(node.value)
        if isinstance(element, ast.Constant)
    }
    return {
        each.name: each.module for each in imports_of(module) if each.name and each.name in public
    }


def definition_of(used: Import) -> str:
    """The module that has a name, found through the packages that export it."""
    exports = exports_of(used.module)
    if used.name is None or used.name not in exports:
        return used.module
    return definition_of(Import(module=exports[used.name], name=used.name))


def users() -> dict[str, dict[str, set[str]]]:
    """For each module the modules that import it, and the names that they take."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for user in modules():
        for each in imports_of(user):
            for used in {each.module, definition_of(each)} & set(modules()) - {user}:
                found[used][user].add(each.name or "")
    return found


def is_public(module: str, user: str) -> bool:
    """Whether the only user is a package that exports the module for Python users."""
    return module in exports_of(user).values()


def is_registered(names: set[str], user: str) -> bool:
    if user == "delta_ops.cli.main":
        return all(name.endswith("_command") for name in names if name)
    return user in BY_DESIGN


def is_used_outside(module: str) -> bool:
    """Whether users start the module, or import it by its own name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    starts = any(target.startswith(f"{module}:") for target in project["scripts"].values())
    return starts or module == "delta_ops.pipes"


def modules_with_one_user() -> dict[str, str]:
    """The counted modules, each with its user."""
    found = {}
    for module, of_module in users().items():
        if len(of_module) > 1 or is_package(module) or is_used_outside(module):
            continue
        ((user, names),) = of_module.items()
        if not is_public(module, user) and not is_registered(names, user):
            found[module] = user
    return found


def test_few_modules_have_a_single_user() -> None:
    counted = modules_with_one_user()
    listed = "\n".join(f"{module} is used by {user}" for module, user in sorted(counted.items()))
    assert len(counted) <= MOST, f"fold a module into its only user, or give it another:\n{listed}"
