"""The package as others meet it: what an import costs, and a wheel installed elsewhere."""

from __future__ import annotations

import configparser
import importlib
import json
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da

PROJECT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    "module",
    [
        "delta_ops",
        "delta_ops.arrow",
        "delta_ops.ddl",
        "delta_ops.maintenance",
        "delta_ops.pipes",
        "delta_ops.cli.entry",
    ],
)
def test_an_import_brings_no_spark_dagster_or_sql(module: str) -> None:
    heavy = ("pyspark", "dagster", "sqlglot")
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["delta_ops.orchestration", "delta_ops.components"])
def test_importing_what_is_for_dagster_starts_no_spark(module: str) -> None:
    code = f"import sys, {module}; print('pyspark' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        pytest.param("delta_ops.orchestration", "dagster", "dagster", id="Dagster"),
        pytest.param("delta_ops.components", "dagster", "dagster", id="components of Dagster"),
        pytest.param("delta_ops.spark", "pyspark", "spark", id="Spark"),
    ],
)
def test_without_its_extra_a_package_says_what_to_install(
    module: str, package: str, extra: str
) -> None:
    code = (
        f"import sys; sys.modules['{package}'] = None\n"
        f"try:\n    import {module}\nexcept ImportError as error:\n    print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == (
        f"{module} needs the package {package}; install it with: pip install 'delta_ops[{extra}]'\n"
    )


def test_the_package_says_its_version() -> None:
    code = "import delta_ops; print(delta_ops.__version__)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == version("delta_ops")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(PROJECT / name, source)
    shutil.copytree(PROJECT / "delta_ops", source / "delta_ops")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} <= {
        "delta_ops",
        f"{wheel.name.split('-py3')[0]}.dist-info",
    }
    assert "delta_ops/py.typed" in names


def test_the_wheel_tells_dagster_of_its_components(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (each for each in packed.namelist() if each.endswith("entry_points.txt"))
        told = configparser.ConfigParser()
        told.read_string(packed.read(name).decode())
    (module,) = told["dagster_dg_cli.registry_modules"].values()
    found = vars(importlib.import_module(module))
    assert {"DeltaTableComponent", "DeltaLakeComponent", "DeltaMaintenanceComponent"} <= set(found)


def test_a_wheel_installed_elsewhere_runs_the_command(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*pip, str(site), str(wheel)], check=True)
    da.write(tmp_path / "t", pa.table({"x": [1, 2]}))
    shown = subprocess.run(
        [sys.executable, site / "bin" / "delta-ops", "show", tmp_path / "t", "--json"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(site)},
    )
    assert json.loads(shown.stdout)["num_files"] == 1


def test_without_its_extra_the_command_says_what_to_install(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*pip, str(site), str(wheel)], check=True)
    # Modules that cannot be imported stand for packages that are not installed.
    for name in ("click", "rich"):
        (site / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name='{name}')")
    shown = subprocess.run(
        [sys.executable, site / "bin" / "delta-ops", "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(site)},
    )
    assert shown.returncode == 1
    assert "delta_ops[cli]" in shown.stderr
    assert "Traceback" not in shown.stderr
