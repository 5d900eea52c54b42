"""The install lines of the documentation bring what the commands on their page need."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[1]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PACKAGES = {"dagster dev": "dagster-webserver", "dg": "dagster-dg-cli", "delta-ops": "rich"}
"""The package of each command that Dagster or Python alone does not bring."""
_INSTALL = re.compile(r"pip install '[^'\[]*\[([\w,-]+)\]'([^\n`#]*)")
_COMMAND = re.compile(r"(?:^|`)(dagster dev|dg|delta-ops) ", re.MULTILINE)


def installed(page: str) -> set[str]:
    """The packages that all install lines of a page bring together."""
    found: set[str] = set()
    for extras, more in _INSTALL.findall(page):
        found |= set(more.split())
        for extra in extras.split(","):
            found |= {Requirement(each).name for each in EXTRAS[extra]}
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_that_installs_brings_the_packages_of_its_commands(path: Path) -> None:
    page = path.read_text()
    if not _INSTALL.search(page):
        return
    missing = {c for c in _COMMAND.findall(page) if PACKAGES[c] not in installed(page)}
    assert missing == set()


def test_three_pages_install_and_run_commands() -> None:
    pages = [path.name for path in PAGES if _INSTALL.search(path.read_text())]
    assert {"README.md", "first-table.md", "components.md"} <= set(pages)


def test_the_readme_lists_every_extra_for_users() -> None:
    (line,) = re.findall(r"# extras: (.*)", (PROJECT / "README.md").read_text())
    assert set(line.split()) == set(EXTRAS) - {"dev", "docs"}
