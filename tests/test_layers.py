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


def _lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without its docstring."""
    has_docstring = ast.get_docstring(function) is not None and len(function.body) > 1
    first = function.body[1 if has_docstring else 0]
    return (function.end_lineno or 0) - first.lineno + 1
