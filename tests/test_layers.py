"""The page on layers shows the contracts of the import linter, and every folder of the package."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "delta_ops"
PAGE = (PROJECT / "docs" / "architecture.md").read_text()

FIXED_PARAMETERS = {
    "spark/delta_format/dispatch.py:_to_table": "the parameters of Spark's `toTable`",
    "spark/delta_format/dispatch.py:_start": "the parameters of Spark's `start`",
    "cli/rows.py:head_command": "one parameter for each option of the command",
}
"""Functions with more than eight parameters that somebody else determines."""


def test_the_page_shows_the_layers_that_are_held() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (each["layers"] for each in settings["contracts"] if each["type"] == "layers")
    shown = PAGE.split("```\n")[1].splitlines()
    names = [re.split(r"  +", line)[0].split(" | ") for line in shown]
    assert names == [layer.split(" : ") for layer in layers]


def test_the_page_says_one_sentence_of_each_room() -> None:
    rows = re.findall(r"^\| (`[^|]+) \| (.+) \|$", PAGE, re.MULTILINE)
    named = [name for names, _ in rows for name in rooms_in(names)]
    rooms = [
        str(path.parent.relative_to(PACKAGE))
        for path in PACKAGE.rglob("__init__.py")
        if len(path.relative_to(PACKAGE).parts) > 2
    ]
    assert sorted(named) == sorted(rooms)


def test_the_page_names_existing_modules_for_the_sections_of_the_protocol() -> None:
    section = PAGE.split("## From the protocol to the code\n")[1].split("\n## ")[0]
    named = re.findall(r"`([a-z_/]+/(?:[a-z_0-9]+\.py)?)`", section)
    assert len(named) > 40
    assert [path for path in named if not (PACKAGE / path).exists()] == []


def rooms_in(names: str) -> list[str]:
    """`a/b/`, `c/` are `a/b` and `a/c`; `a/b/`, `c/d/` are themselves."""
    rooms = [each.strip("/") for each in re.findall(r"`([^`]+)`", names)]
    return [each if "/" in each else str(Path(rooms[0]).parent / each) for each in rooms]


def test_no_folder_has_more_than_twenty_modules() -> None:
    counts = Counter(
        path.parent.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    )
    assert {folder: count for folder, count in counts.items() if count > 20} == {}


def test_no_file_is_longer_than_450_lines() -> None:
    lengths = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert {path: length for path, length in lengths.items() if length > 450} == {}


def test_no_function_is_longer_than_sixty_lines() -> None:
    too_long = {
        f"{path.relative_to(PACKAGE)}:{node.name}": lines
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := _lines_of_code(node)) > 60
    }
    assert too_long == {}


def test_no_function_but_public_functions_has_more_than_eight_parameters() -> None:
    public = {
        each.value
        for path in PACKAGE.rglob("__init__.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for each in ast.walk(node.value)
        if isinstance(each, ast.Constant)
    }
    counts = {
        f"{path.relative_to(PACKAGE)}:{node.name}": _num_parameters(node)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in public
    }
    assert {name for name, count in counts.items() if count > 8} == set(FIXED_PARAMETERS)


def _num_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Number of parameters without `self` and `cls`."""
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    own = len(names) - (names[:1] in (["self"], ["cls"]))
    return own + (arguments.vararg is not None) + (arguments.kwarg is not None)


def _lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without its docstring."""
    has_docstring = ast.get_docstring(function) is not None and len(function.body) > 1
    first = function.body[1 if has_docstring else 0]
    return (function.end_lineno or 0) - first.lineno + 1
