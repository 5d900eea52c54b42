"""Texts for people in a hurry: docstrings that begin with their subject, decisions of a page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "delta_ops"
DECISIONS = sorted((PROJECT / "docs" / "decisions").glob("*.md"))
PAGE_WORDS = 800
ROOMS = (
    "planning",
    "transaction",
    "arrow",
    "cli",
    "log",
    "maintenance",
    "orchestration",
    "protocol",
    "spark",
    "storage",
)

# A reader of such a docstring must look for its subject above it.
_BEGINS_IN_THE_MIDDLE = re.compile(
    r"(?:\A\s*|^ +[a-z_]+: )(?:Of|That|Those|So many|The same)\b.*", re.MULTILINE
)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else []:
            match each:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield each.lineno, text


def found_in(source: str) -> list[str]:
    return [
        f"line {line}: {found[0].strip()}"
        for line, text in docstrings(source)
        for found in _BEGINS_IN_THE_MIDDLE.finditer(text)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_no_docstring_begins_in_the_middle_of_a_sentence(room: str) -> None:
    files = sorted((PACKAGE / room).rglob("*.py"))
    assert files
    found = {str(path.relative_to(PACKAGE)): found_in(path.read_text()) for path in files}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('"""Of a table."""', id="of a module"),
        pytest.param('class A:\n    """That is none."""', id="of a class"),
        pytest.param('def a():\n    """Those that stay."""', id="of a function"),
        pytest.param('class A:\n    async def a(self):\n        """So many."""', id="of a method"),
        pytest.param('class A:\n    size: int\n    """Of it."""', id="of a field"),
        pytest.param('SIZE = 1\n"""The same."""', id="of a constant"),
        pytest.param('def a():\n    """\n    Of a table."""', id="on its second line"),
        pytest.param(
            'def a():\n    """Do.\n\n    Args:\n        b: Of it."""', id="of an argument"
        ),
    ],
)
def test_the_docstring_is_found(source: str) -> None:
    assert len(found_in(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('"""Offsets of values."""', id="a word that begins alike"),
        pytest.param('"""Keep files.\n\nThose of a table."""', id="a later sentence"),
        pytest.param('name = "Of a table"', id="a text that is no docstring"),
    ],
)
def test_only_the_first_words_count(source: str) -> None:
    assert found_in(source) == []


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: str(path.stem))
def test_a_decision_fits_on_a_page(decision: Path) -> None:
    assert len(decision.read_text().split()) <= PAGE_WORDS, "move details to docs/measurements"
