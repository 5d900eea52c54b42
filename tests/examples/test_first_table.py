"""The first steps of docs/first-table.md, as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "first-table.md").read_text()
_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\w+)\n(?P<code>.*?)^ *```", re.M | re.S)
_NOT_RUN = ("python3 -m venv", "dagster dev")
"""Commands for installation, and commands that keep running; tests/browser runs the latter."""


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": tools, "PYTHONPATH": str(PROJECT)}
    blocks = [(found["language"], dedent(found["code"])) for found in _BLOCK.finditer(PAGE)]
    for language, code in blocks:
        if language == "text" or code.startswith(_NOT_RUN):
            continue
        if "Definitions" in code:
            (tmp_path / "shop.py").write_text(code)
            continue
        if language == "python":
            exec(
                compile(code, "docs/first-table.md", "exec", dont_inherit=True),
                {"__name__": "__main__"},
            )
            continue
        done = subprocess.run(
            ["bash", "-ec", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    orders = da.to_table(DeltaLog(tmp_path / "lake" / "orders"))
    assert sorted(orders["amount"].to_pylist()) == [10, 20, 30, 40]


def test_the_screenshot_is_small() -> None:
    assert (PROJECT / "docs" / "images" / "asset.png").stat().st_size < 200_000


def test_the_index_names_every_chapter() -> None:
    index = (PROJECT / "docs" / "README.md").read_text()
    docs = PROJECT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"README.md"}
    chapters = {page for page in pages if not page.startswith(("decisions/", "measurements/"))}
    assert {name for name in chapters if f"]({name})" not in index} == set()
