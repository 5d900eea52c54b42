"""The `dg` commands of docs/components.md in a project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

import delta_ops.arrow as da
from delta_ops import components
from delta_ops.orchestration.dagster_versions import PROJECT_ROOT
from tests.components.dagster_project import make_project

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "components.md").read_text()
ROWS = pa.table({"id": [1, 2]})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in the layout of `create-dagster`, beside tables of other writers."""
    root = tmp_path_factory.mktemp("project")
    make_project(root)
    for name in ("orders", "silver/sales/returns", "silver/tmp_1"):
        da.write(root / "lake" / name, ROWS)
    return root


# Imports the packages once, and runs each command in a forked child with its output in a file.
PROGRAM = """
import os
import sys
import dagster
import delta_ops.components
from dagster_dg_cli.cli import main

for number, command in enumerate(sys.argv[1:]):
    child = os.fork()
    if not child:
        with open(f"{number}.printed", "w") as printed:
            for stream in (1, 2):
                os.dup2(printed.fileno(), stream)
        sys.argv = command.split()
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def run_all(project: Path, *commands: str) -> list[tuple[int, str]]:
    """The exit code and the output of each `dg` command."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    paths = f"{PROJECT}{os.pathsep}{project / 'src'}"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *commands],
        cwd=project,
        env={
            **os.environ,
            "PATH": tools,
            "PYTHONPATH": paths,
            "DAGSTER_HOME": str(project),
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes = [int(line) for line in done.stdout.split()]
    return [(code, (project / f"{n}.printed").read_text()) for n, code in enumerate(codes)]


def attributes_of(project: Path, name: str) -> dict[str, object]:
    file = project / "src" / "my_lake" / "defs" / name / "defs.yaml"
    return dict(yaml.safe_load(file.read_text())["attributes"])


def test_the_commands_of_the_documentation_follow_each_other(project: Path) -> None:
    (block,) = re.findall(r"```bash\n(dg scaffold [^`]*)```", PAGE)
    commands = block.splitlines()
    done = dict(zip(commands, run_all(project, *commands), strict=True))
    assert {code for code, _ in done.values()} == {0}, done
    assert attributes_of(project, "orders") == {
        "uri": f"{PROJECT_ROOT}/lake/orders",
        "asset": {"key": "orders"},
    }
    assert attributes_of(project, "silver") == {
        "root": f"{PROJECT_ROOT}/lake/silver",
        "key_prefix": "silver",
    }
    _, listed = done["dg list defs"]
    for key in ("orders", "silver/sales/returns", "silver/tmp_1"):
        assert key in listed


@pytest.mark.full
def test_a_project_lists_the_components_and_checks_their_files(project: Path) -> None:
    folder = project / "src" / "my_lake" / "defs" / "wrong"
    folder.mkdir()
    (folder / "defs.yaml").write_text(
        "type: delta_ops.components.DeltaTableComponent\nattributes:\n  url: s3://lake/orders\n"
    )
    check = f"dg check yaml {folder.relative_to(project)}"
    (listed, names), (checked, reported) = run_all(project, "dg list components", check)
    shutil.rmtree(folder)
    assert listed == 0, names
    for name in components.__all__:
        assert f"delta_ops.components.{name}" in names
    assert checked != 0
    assert "wrong/defs.yaml:3" in reported
    assert "url" in reported
