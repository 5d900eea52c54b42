"""The install lines of the documentation work in an empty environment, with their commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PROJECT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/first-table.md", "docs/components.md")
INSTALL = re.compile(r"pip install '[^'\[]*(\[[\w,-]+\])'")
COMMANDS = {
    "cli": ["delta-ops", "--version"],
    "dev-ui": ["dagster-webserver", "--version"],
    "dagster": ["dagster", "--version"],
    "dagster-spark": ["python", "-c", "import delta_ops.spark, dagster_pyspark"],
}
"""What a user calls first after installing an extra."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a package is built from; a build leaves files in its folder."""
    root = tmp_path_factory.mktemp("sources")
    shutil.copytree(PROJECT / "delta_ops", root / "delta_ops")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, root)
    return root


@pytest.mark.parametrize("page", PAGES)
def test_the_line_of_a_page_brings_its_commands(sources: Path, tmp_path: Path, page: str) -> None:
    extras = INSTALL.findall((PROJECT / page).read_text())[-1]
    venv.create(tmp_path / "env", with_pip=True)
    found = {"PATH": f"{tmp_path}/env/bin{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    kept = {name: text for name, text in os.environ.items() if name.startswith(("PIP_", "SSL_"))}

    def run(*command: str) -> None:
        result = subprocess.run(
            command, cwd=tmp_path, env=found | kept, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"

    constraints = str(PROJECT / "constraints.txt")
    run("python", "-m", "pip", "install", "-q", "-c", constraints, f"{sources}{extras}")
    for extra in extras.strip("[]").split(","):
        run(*COMMANDS[extra])
    run("python", "-c", "import delta_ops.arrow, delta_ops.maintenance")
