"""The install lines of the documentation, in an empty environment: its commands run as printed."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from tests.components.dagster_project import make_project
from tests.test_install_lines import PAGES
from tests.test_package import distributions_for
from tests.versions.installed import PROJECT, Installed, installed

pytestmark = pytest.mark.full

_LINE = re.compile(r"pip install '[^'\[]*\[([\w,-]+)\]'")
_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\w+)\n(?P<code>.*?)^ *```", re.M | re.S)
QUICKSTART = "dagster,dev-ui,cli"
README = "dagster-spark,dev-ui,cli"
ARRAYS = "zarr,cli"
ARRAYS_IN_DAGSTER = "zarr,dagster,dev-ui"
LIKE_THE_QUICKSTART = {"dagster", "dagster,dev-ui", QUICKSTART}
_ASSETS = "{ assetNodes { assetKey { path } } }"


def blocks_of(page: str) -> Iterator[tuple[str, str]]:
    """Language and code of each block of a page."""
    for found in _BLOCK.finditer((PROJECT / page).read_text()):
        yield found["language"], dedent(found["code"])


def assets_at(address: str) -> set[str]:
    """The keys of the assets that a server of the UI has loaded."""
    request = urllib.request.Request(
        f"{address}/graphql",
        data=json.dumps({"query": _ASSETS}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        nodes = json.load(response)["data"]["assetNodes"]
    return {"/".join(node["assetKey"]["path"]) for node in nodes}


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with installed(QUICKSTART, tmp_path_factory.mktemp("quickstart")) as found:
        yield found


@pytest.fixture(scope="module")
def of_readme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    java = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    with installed(README, tmp_path_factory.mktemp("readme"), java) as found:
        yield found


@pytest.fixture(scope="module")
def of_arrays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with installed(ARRAYS, tmp_path_factory.mktemp("arrays")) as found:
        yield found


def test_every_install_line_is_run_or_brings_no_more_than_one_that_is() -> None:
    lines = {extras for page in PAGES for extras in _LINE.findall(page.read_text())}
    assert lines == LIKE_THE_QUICKSTART - {"dagster"} | {
        "dagster",
        README,
        ARRAYS,
        ARRAYS_IN_DAGSTER,
    }
    assert distributions_for("delta_ops", ["dagster", "dev-ui"]) == distributions_for(
        "delta_ops", QUICKSTART.split(",")
    )


def test_the_quickstart_runs_after_its_install_line(quickstart: Installed) -> None:
    for language, code in blocks_of("docs/first-table.md"):
        if language == "text" or code.startswith("python3 -m venv"):
            continue
        if language == "python":
            name = "shop.py" if "Definitions" in code else "look.py"
            (quickstart.folder / name).write_text(code)
            if name == "look.py":
                quickstart.run("python look.py")
        elif code.startswith("dagster dev"):
            with quickstart.serving(code) as address:
                assert assets_at(address) == {"orders", "revenue"}
        else:
            quickstart.run(code)
    assert da.to_table(str(quickstart.folder / "lake" / "orders")).num_rows == 4


def test_the_commands_of_components_run_after_their_install_line(
    quickstart: Installed, tmp_path: Path
) -> None:
    # A project's own package is installed in its environment; a path has the same effect.
    variables = {"DAGSTER_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "src")}
    project = replace(quickstart, folder=tmp_path, variables=variables)
    make_project(tmp_path)
    for name in ("orders", "silver/sales/returns"):
        da.write(tmp_path / "lake" / name, pa.table({"id": [1, 2]}))
    (commands,) = (code for _, code in blocks_of("docs/components.md") if "dg scaffold" in code)
    project.run(commands)
    for command in ("dg dev", "dagster dev -m my_lake.definitions"):
        with project.serving(command) as address:
            assert {"orders", "silver/sales/returns"} <= assets_at(address)


def test_the_first_examples_run_after_the_install_line_of_the_readme(of_readme: Installed) -> None:
    examples = [code for language, code in blocks_of("README.md") if language == "python"]
    commands = [code for _, code in blocks_of("README.md") if code.startswith("delta-ops")]
    (of_readme.folder / "orders.py").write_text(examples[0])
    (of_readme.folder / "with_spark.py").write_text(examples[1])
    of_readme.run("python orders.py")
    of_readme.run(commands[0])
    with of_readme.serving("dagster dev -f orders.py") as address:
        assert assets_at(address) == {"raw_orders", "orders"}
    of_readme.run("python with_spark.py")
    assert da.to_table(str(of_readme.folder / "lake" / "orders_per_day")).num_rows == 1


def test_the_examples_of_arrays_run_after_their_install_line(of_arrays: Installed) -> None:
    examples = examples_of_arrays()
    in_dagster = next(place for place, code in enumerate(examples) if "dagster" in code)
    (of_arrays.folder / "examples.py").write_text("\n".join(examples[:in_dagster]))
    of_arrays.run("python examples.py")
    assert "/rain\t" in of_arrays.run("delta-ops head lake/climate")


def test_the_assets_of_arrays_run_after_their_install_line(tmp_path: Path) -> None:
    with installed(ARRAYS_IN_DAGSTER, tmp_path, packages=["xarray"]) as arrays:
        (arrays.folder / "examples.py").write_text("\n".join(examples_of_arrays()))
        arrays.run("python examples.py")


def examples_of_arrays() -> list[str]:
    return [code for language, code in blocks_of("docs/arrays.md") if language == "python"]
