"""The page on layers shows the contracts of the import linter, and every folder of the package."""

from __future__ import annotations

import re
import tomllib
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
