"""The examples of the README and of some pages run as printed, in order, in one empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.support.servers.connectors import connector_jars
from tests.support.servers.s3 import S3Server

PROJECT = Path(__file__).resolve().parents[2]
README = PROJECT / "README.md"
PAGES = [
    README,
    *(
        PROJECT / "docs" / f"{name}.md"
        for name in ("assets", "stores", "without-dagster", "maintenance-jobs", "terminal")
    ),
]
"""Pages whose examples use the tables of the README's examples."""
DOCUMENTS = [README, *sorted((PROJECT / "docs").rglob("*.md"))]

# Users type them in the checkout; they install the packages of this test run.
ABOUT_THE_CHECKOUT = ("Two commands", "Install")

_BLOCK_OR_HEADING = re.compile(
    r"^#+ (?P<title>.*)$|^```(?P<language>.*)\n(?P<code>[^`]*)^```", re.MULTILINE
)
_ANCHOR = re.compile(r"\]\((?!https?://)([^)#]*)#([^)]+)\)")
_LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


IN_THE_CHECKOUT = {"PYTHONPATH": str(PROJECT), "DAGSTER_DISABLE_TELEMETRY": "yes"}


class Example(NamedTuple):
    """Code that runs together: consecutive blocks of one language in one section of a page."""

    page: str
    section: str
    language: str
    code: str


def read_examples(page: Path) -> Iterator[Example]:
    section, blocks = "", []
    for found in _BLOCK_OR_HEADING.finditer(page.read_text()):
        if found["title"]:
            section = found["title"]
        elif found["language"] in ("python", "bash"):
            blocks.append((section, found["language"], found["code"]))
    for (section, language), same in groupby(blocks, lambda block: block[:2]):
        yield Example(page.name, section, language, "\n\n".join(code for _, _, code in same))


EXAMPLES = [example for page in PAGES for example in read_examples(page)]
IN_A_PROJECT = [each for each in EXAMPLES if each.section not in ABOUT_THE_CHECKOUT]


def run(command: list[str], folder: Path, settings: dict[str, str]) -> str:
    """Run a command that must succeed; return its output, with errors and warnings."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": tools, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, s3_server: S3Server
) -> None:
    monkeypatch.chdir(tmp_path)
    s3_server.make_bucket("my-bucket")
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    for example in IN_A_PROJECT:
        if example.language == "bash":
            run(["bash", "-euo", "pipefail", "-c", example.code], tmp_path, IN_THE_CHECKOUT)
        elif "s3://" in example.code and not connector_jars():
            continue
        else:
            code = compile(
                example.code, f"{example.page}, {example.section}", "exec", dont_inherit=True
            )
            exec(code, {"__name__": "__main__"})
    assert sorted(da.to_table(DeltaLog("lake/orders"))["id"].to_pylist()) == [1, 2, 4, 5]
    assert da.to_table(DeltaLog("lake/orders_per_day"))["count"].to_pylist() == [2]


def test_an_example_needs_no_folder_that_only_root_can_make() -> None:
    for example in IN_A_PROJECT:
        assert re.findall(r"""(?<=["' =])/\w+""", example.code) == []


def test_the_readme_is_one_screen_and_explains_the_terms() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 150
    assert len(re.findall(r"[.](?:\s|$)", text.split("\n\n")[1])) == 3
    glossary = (PROJECT / "docs" / "glossary.md").read_text()
    terms = set(re.findall(r"\*\*([^*]+)\*\*", glossary))
    assert terms >= {"txn", "tombstone", "checkpoint", "log clean-up"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "Makefile", "constraints.txt"):
        shutil.copy(PROJECT / name, folder)
    for name in ("delta_ops", "scripts"):
        shutil.copytree(PROJECT / name, folder / name)
    return folder


def test_the_two_commands_are_there(checkout: Path) -> None:
    (commands,) = (each.code for each in EXAMPLES if each.section == "Two commands")
    # Make with -n prints the commands and does not run them.
    shown = run(["bash", "-euc", commands], checkout, {"MAKEFLAGS": "n"})
    assert "examples.flights.demo" in shown
    assert "pytest" in shown


def test_the_package_is_installed_from_the_checkout(checkout: Path, tmp_path: Path) -> None:
    (command,) = (each.code for each in EXAMPLES if each.section == "Install")
    site = tmp_path / "site"
    settings = {
        "PIP_TARGET": str(site),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
    }
    assert "does not provide the extra" not in run(["bash", "-euc", command], checkout, settings)
    assert (site / "bin" / "delta-ops").is_file()


def test_every_link_leads_to_a_file() -> None:
    assert len(DOCUMENTS) > 1
    links = [(each, link) for each in DOCUMENTS for link in _LINK.findall(each.read_text())]
    broken = [
        f"{document.relative_to(PROJECT)}: {link}"
        for document, link in links
        if not (document.parent / link).exists()
    ]
    assert broken == []


def test_every_anchor_is_a_heading() -> None:
    links = [
        (each, (each.parent / file if file else each).resolve(), anchor)
        for each in DOCUMENTS
        for file, anchor in _ANCHOR.findall(each.read_text())
    ]
    assert links
    broken = [
        f"{document.relative_to(PROJECT)}: {target.name}#{anchor}"
        for document, target, anchor in links
        if anchor not in anchors_in(target)
    ]
    assert broken == []


def anchors_in(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site name them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
