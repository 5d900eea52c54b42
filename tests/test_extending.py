"""The lists of docs/extending.md are complete: each file that would have to be touched is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from delta_ops.maintenance import Operation
from delta_ops.protocol.features import FEATURES

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text()

# These are names of actions and of fields, too.
FEATURE_NAMES = {each.name for each in FEATURES} - {"domainMetadata", "inCommitTimestamp"}
# The others are words of other things, too.
OPERATION_NAMES = {"clean_up_log", "compact_log"}
SCHEMES = {"gs"}


def texts_in(path: Path) -> Iterator[str]:
    """The texts of a module, but for those that are its documentation."""
    tree = ast.parse(path.read_text())
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            yield from [node.value] if isinstance(node.value, str) else []


def files_with(wanted: set[str], *, all_of: bool) -> set[str]:
    found = set()
    for path in (ROOT / "delta_ops").rglob("*.py"):
        texts = wanted & set(texts_in(path))
        if texts == wanted or (texts and not all_of):
            found.add(path.relative_to(ROOT).as_posix())
    return found


def listed_under(heading: str) -> set[str]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        pytest.param("A table feature", files_with(FEATURE_NAMES, all_of=False), id="feature"),
        pytest.param(
            "A maintenance operation", files_with(OPERATION_NAMES, all_of=False), id="operation"
        ),
        pytest.param("A storage", files_with(SCHEMES, all_of=True), id="storage"),
    ],
)
def test_a_list_names_every_file(heading: str, expected: set[str]) -> None:
    assert listed_under(heading) == expected


def test_every_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:delta_ops|tests|docs|scripts)/[a-z0-9_/]+\.(?:py|md))`", PAGE))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_names_that_are_looked_for_are_operations() -> None:
    assert set(get_args(Operation)) >= OPERATION_NAMES
