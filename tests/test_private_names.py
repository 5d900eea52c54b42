"""Tests use public names only: they import, patch and read no private name of delta_ops."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
_PRIVATE = re.compile(r"(?:^|\.)_(?!_)\w+")
_MAY_BE_PRIVATE = re.compile(
    r"""(?<!self)\._(?!_)\w|["']_(?!_)\w|from delta_ops\S* import (?:\([^)]*|.*)\b_(?!_)\w"""
)
"""Matches each source that uses a private name; a search is faster than parsing."""


def private_names_in(source: str) -> list[str]:
    """Private names of the package, each with its line."""
    if not _MAY_BE_PRIVATE.search(source):
        return []
    tree = ast.parse(source)
    ours = set(_names_of_package(tree))
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                used = [each.name for each in names if _is_ours(each.name)]
            case ast.ImportFrom(module=str(module), names=names) if _is_ours(module):
                used = [f"{module}.{each.name}" for each in names]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in ours:
                used = [attribute]
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "delattr"),
                args=[ast.Name(id=name), ast.Constant(value=str(attribute)), *_],
            ) if name in ours:
                used = [attribute]
            case ast.Constant(value=str(text)) if re.fullmatch(r"delta_ops(\.\w+)+", text):
                used = [text]
            case _:
                continue
        found += [f"line {node.lineno}: {each}" for each in used if _PRIVATE.search(each)]
    return found


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "delta_ops"


def _names_of_package(tree: ast.AST) -> Iterator[str]:
    """The local names of a module for its imports from the package."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    if _is_ours(each.name):
                        yield each.asname or each.name.partition(".")[0]
            case ast.ImportFrom(module=str(module), names=names) if _is_ours(module):
                for each in names:
                    yield each.asname or each.name


def test_no_test_uses_a_private_name() -> None:
    files = sorted(TESTS.rglob("*.py"))
    found = {str(path.relative_to(TESTS)): private_names_in(path.read_text()) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("from delta_ops.log.replay import _stack", id="a name"),
        pytest.param("from delta_ops.log import (\n    stack,\n    _x,\n)", id="one of several"),
        pytest.param("from delta_ops.orchestration._compat import x", id="of a module"),
        pytest.param("import delta_ops.orchestration._compat", id="a module"),
        pytest.param("from delta_ops import log\nlog._stack()", id="through its module"),
        pytest.param("import delta_ops.arrow as da\nda._write", id="through another name"),
        pytest.param(
            "from delta_ops import log\nmonkeypatch.setattr(log, '_x', 1)", id="what is patched"
        ),
        pytest.param("monkeypatch.setattr('delta_ops.log._x', 1)", id="what is patched by a text"),
    ],
)
def test_a_private_name_is_found(source: str) -> None:
    assert len(private_names_in(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("from dagster._core import x", id="of another package"),
        pytest.param("import delta_ops\ndelta_ops.__version__", id="a name of Python's"),
        pytest.param("class A:\n    def b(self): self._c()", id="of the test's own"),
    ],
)
def test_other_names_pass(source: str) -> None:
    assert private_names_in(source) == []
