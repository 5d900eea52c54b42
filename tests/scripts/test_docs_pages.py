"""The navigation of the documentation site, its generated pages, and links between pages."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml

from delta_ops.cli.main import cli
from scripts.docs.command_page import command_page
from scripts.docs.pages import (
    HOME,
    adapt_links,
    expand_navigation,
    generated_pages,
    page_of,
    pages_of,
    source_of,
    sources_beside_docs,
)
from scripts.docs.pictures import PATHS, PICTURES, layers_picture

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
SETTINGS = yaml.safe_load((PROJECT / "mkdocs.yml").read_text())
NAVIGATION = list(pages_of(expand_navigation(SETTINGS["nav"])))
REPORTS = "checkout/benchmarks/"
"""Pages without a place in the navigation; the page of figures links to them."""


def test_the_navigation_has_each_page_once() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    pages |= {page_of(source) for source in sources_beside_docs() if source.endswith(".md")}
    pages |= {HOME, *generated_pages()}
    assert sorted(NAVIGATION) == sorted(page for page in pages if not page.startswith(REPORTS))


def test_the_list_for_the_checkout_has_the_order_of_the_navigation() -> None:
    listed = re.findall(r"^\| \[[^]]+\]\(([\w/-]+\.md)\)", (DOCS / "README.md").read_text(), re.M)
    assert listed == [page for page in NAVIGATION if page in listed]


@pytest.mark.parametrize(
    ("page", "markdown", "expected"),
    [
        pytest.param("a.md", "[x](b.md#c)", "[x](b.md#c)", id="a page of the same folder"),
        pytest.param("a.md", "[x](../README.md#c)", "[x](index.md#c)", id="the README is the home"),
        pytest.param("a.md", "[x](README.md)", "[x](index.md)", id="so is the list of pages"),
        pytest.param("index.md", "![x](docs/a.png)", "![x](a.png)", id="an image of the README"),
        pytest.param(
            "decisions/a.md",
            "[x](../../benchmarks/b.md)",
            "[x](../checkout/benchmarks/b.md)",
            id="a file beside docs",
        ),
        pytest.param(
            "checkout/CONTRIBUTING.md", "[x](docs/b.md)", "[x](../b.md)", id="back from such a file"
        ),
        pytest.param("decisions/a.md", "[x](../../benchmarks)", "x", id="a folder has no page"),
        pytest.param("a.md", "[x](https://b.c/d)", "[x](https://b.c/d)", id="another site"),
        pytest.param("a.md", "[x](#c)", "[x](#c)", id="a heading of the page"),
    ],
)
def test_a_link_to_a_file_leads_to_its_page(page: str, markdown: str, expected: str) -> None:
    assert adapt_links(markdown, page) == expected


@pytest.mark.parametrize("source", ["README.md", "docs/a/b.md", "CONTRIBUTING.md"])
def test_a_page_knows_its_source(source: str) -> None:
    assert source_of(page_of(source)) == source


def test_a_pattern_of_the_navigation_becomes_its_pages() -> None:
    expanded = expand_navigation([{"Decisions": ["decisions/*.md"]}, "assets.md"])
    assert expanded[1] == "assets.md"
    assert expanded[0]["Decisions"][0] == "decisions/001-dependencies.md"


def test_the_page_of_commands_has_all_commands_and_options() -> None:
    page = command_page()
    commands = [(name, command) for name, command in cli.commands.items()]
    alter = cli.commands["alter"]
    assert isinstance(alter, click.Group)
    commands += [(f"alter {name}", command) for name, command in alter.commands.items()]
    missing = [
        f"{name} {option}"
        for name, command in commands
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option not in page.split(f"# {name}\n", 1)[1].split("\n## ", 1)[0]
    ]
    assert missing == []


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_up_to_date(name: str) -> None:
    picture = (DOCS / "images" / name).read_text()
    assert picture == PICTURES[name](), "run python -m scripts.docs.pictures"


def test_each_step_of_a_path_has_a_layer() -> None:
    steps = [text for path in PATHS.values() for texts in path.values() for text in texts]
    assert [text for text in steps if text not in layers_picture()] == []


def test_each_error_of_a_docstring_has_a_name() -> None:
    """Otherwise the pages of the reference cannot be made."""
    section = re.compile(r"^( +)Raises:\n((?:\1 {4}.*\n)+)", re.MULTILINE)
    unnamed = []
    for path in (PROJECT / "delta_ops").rglob("*.py"):
        for indent, lines in section.findall(path.read_text()):
            first = [line for line in lines.splitlines() if line[len(indent) + 4] != " "]
            unnamed += [f"{path.name}: {line.strip()}" for line in first if ": " not in line + " "]
    assert unnamed == []
