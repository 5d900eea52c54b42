"""The commands of `dg` in a project, as docs/components.md has them."""

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
from tests.components.dagster_project import make_project

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "components.md").read_text()
ROWS = pa.table({"id": [1, 2]})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `create-dagster` makes it, beside tables that others wrote."""
    root = tmp_path_factory.mktemp("project")
    make_project(root)
    for name in ("orders", "silver/sales/returns", "silver/tmp_1"):
        da.write(root / "lake" / name, ROWS)
    return root


def dg(project: Path, command: str, *, fails: bool = False) -> str:
    """What a command of `dg` prints."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    paths = f"{PROJECT}{os.pathsep}{project / 'src'}"
    done = subprocess.run(
        command.split(),
        cwd=project,
        env={
            **os.environ,
            "PATH": tools,
            "PYTHONPATH": paths,
            "DAGSTER_HOME": str(project),
            "COLUMNS": "200",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) is fails, done.stdout
    return done.stdout


def attributes_of(project: Path, name: str) -> dict[str, object]:
    file = project / "src" / "my_lake" / "defs" / name / "defs.yaml"
    return dict(yaml.safe_load(file.read_text())["attributes"])


def test_the_commands_of_the_documentation_follow_each_other(project: Path) -> None:
    (block,) = re.findall(r"```bash\n(dg scaffold [^`]*)```", PAGE)
    printed = {line: dg(project, line) for line in block.splitlines()}
    assert attributes_of(project, "orders") == {
        "uri": "{{ context.project_root }}/lake/orders",
        "asset": {"key": "orders"},
    }
    assert attributes_of(project, "silver") == {
        "root": "{{ context.project_root }}/lake/silver",
        "key_prefix": "silver",
    }
    shutil.rmtree(project / "lake")  # what follows is loaded from state
    listed = printed["dg list defs"]
    for key in ("orders", "silver/sales/returns", "silver/tmp_1"):
        assert key in listed


def test_a_project_lists_the_components_and_checks_their_files(project: Path) -> None:
    listed = dg(project, "dg list components")
    for name in components.__all__:
        assert f"delta_ops.components.{name}" in listed
    folder = project / "src" / "my_lake" / "defs" / "wrong"
    folder.mkdir()
    (folder / "defs.yaml").write_text(
        "type: delta_ops.components.DeltaTableComponent\nattributes:\n  url: s3://lake/orders\n"
    )
    said = dg(project, f"dg check yaml {folder.relative_to(project)}", fails=True)
    shutil.rmtree(folder)
    assert "wrong/defs.yaml:3" in said
    assert "url" in said
