"""The package as users get it: the cost of an import, and a wheel in another environment."""

from __future__ import annotations

import configparser
import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from datetime import date
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path

import pyarrow as pa
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical_name

import delta_ops
import delta_ops.arrow as da

PROJECT = Path(__file__).resolve().parents[1]


def printed(code: str, *arguments: str) -> str:
    """The output of a new process that runs the code."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def test_an_import_brings_no_spark_dagster_pandas_or_sql() -> None:
    packages = ("delta_ops", *(f"delta_ops.{name}" for name in ("arrow", "ddl", "maintenance")))
    code = "\n".join(f"from {name} import *" for name in packages)
    commands = "from delta_ops.cli.main import cli\nlist(cli.commands.values())"
    heavy = ("pyspark", "dagster", "pandas", "sqlglot")
    shown = f"import sys\nprint([m for m in {heavy} if m in sys.modules])"
    assert printed(f"import delta_ops.pipes\n{code}\n{commands}\n{shown}").strip() == "[]"


IMPORTS = {
    "import delta_ops": (10, 270),
    "from delta_ops import DeltaLog": (150, 470),
    "from delta_ops.arrow import to_table": (195, 520),
    "from delta_ops import begin": (245, 570),
    "from delta_ops.arrow import delete, merge, update, write": (310, 640),
}
"""Most modules of delta_ops, and of all packages, that are imported after each statement."""
UNUSED = {
    "import delta_ops": {"delta_ops.log", "delta_ops.protocol", "pyarrow.compute"},
    "from delta_ops import DeltaLog": {"delta_ops.transaction", "delta_ops.events", "tempfile"},
    "from delta_ops.arrow import to_table": {"delta_ops.transaction", "delta_ops.arrow.dml"},
}
NEVER = ("pyarrow.dataset", "pyarrow.pandas_compat", "fsspec", "asyncio", "http", "email")


def test_a_name_imports_what_it_needs() -> None:
    code = f"""
import sys
for statement in {list(IMPORTS)}:
    exec(statement)
    own = [name for name in sys.modules if name.partition(".")[0] == "delta_ops"]
    unused = set({UNUSED}.get(statement, ())) | set({NEVER})
    print(len(own), len(sys.modules), sorted(unused & sys.modules.keys()))
"""
    for (statement, most), line in zip(IMPORTS.items(), printed(code).splitlines(), strict=True):
        own, total, unused = line.split(" ", 2)
        assert (int(own) <= most[0], int(total) <= most[1], unused) == (True, True, "[]"), statement


def test_the_command_that_shows_a_table_imports_no_engine(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    code = """
import sys
from delta_ops.cli.main import cli
cli(["show", sys.argv[1]], standalone_mode=False)
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("delta_ops.")}
print(sorted(rooms & {"arrow", "maintenance", "transaction", "versioning"}))
"""
    assert printed(code, str(tmp_path)).splitlines()[-1] == "[]"


USES = """
import sys
import pyarrow as pa, delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.maintenance import create_checkpoint, optimize, vacuum
root, rows = sys.argv[1], pa.ipc.open_stream(sys.argv[2]).read_all()
features = ("enableDeletionVectors", "enableChangeDataFeed", "enableRowTracking")
tables = {
    "plain": {},
    "partitioned": {"partition_by": ["name"]},
    "featured": {"configuration": {f"delta.{name}": "true" for name in features}},
}
def uses(table, options):
    yield "write", lambda: da.write(table, rows, **options)
    yield "append", lambda: da.write(table, rows)
    yield "read", lambda: da.to_table(table)
    yield "read by a filter", lambda: da.to_table(table, predicate="day > '2026-01-01' AND id < 9")
    yield "list files", lambda: DeltaLog(table).snapshot().files()
    yield "delete", lambda: da.delete(table, "id = 1 OR name = 'c'")
    yield "update", lambda: da.update(table, {"price": "price + 1"}, "id = 2")
    merge = da.merge(table, rows, "target.id = source.id AND target.name = source.name")
    yield "merge", merge.when_matched_update_all().when_not_matched_insert_all().execute
    if "configuration" in options:
        yield "read changes", lambda: list(da.read_changes(table, 0))
    yield "replace", lambda: da.write(table, rows, mode="overwrite", replace_where="id < 9999")
    yield "checkpoint", lambda: create_checkpoint(table)
    yield "compact", lambda: optimize(table)
    yield "order", lambda: optimize(table, zorder_by=["id", "price"], full=True)
    yield "list dead files", lambda: vacuum(table, dry_run=True)
    yield "history", lambda: DeltaLog(table).history()
for name, options in tables.items():
    for use, call in uses(f"{root}/{name}", options):
        call()
        if "pandas" in sys.modules:
            print(f"{use} of a {name} table imported pandas")
            sys.exit()
"""


def test_pandas_is_not_imported_where_no_frame_is_passed(tmp_path: Path) -> None:
    numbers = range(5_000)  # as many rows as the form of a file is chosen by
    rows = pa.table(
        {
            "id": list(numbers),
            "price": [None if number % 7 == 0 else number / 2 for number in numbers],
            "name": [["a", "b", "c", None][number % 4] for number in numbers],
            "day": [date(2026, 1, 1 + number % 3) for number in numbers],
            "tags": [["x"] * (number % 3) for number in numbers],
        }
    )
    with pa.ipc.new_stream(tmp_path / "rows.arrow", rows.schema) as stream:
        stream.write_table(rows)
    assert printed(USES, str(tmp_path), str(tmp_path / "rows.arrow")) == ""


def test_a_name_for_dagster_imports_what_it_needs() -> None:
    unused = {
        "import delta_ops.orchestration": {"delta_ops.log", "delta_ops.maintenance"},
        "from delta_ops.orchestration import TableRef": {"delta_ops.arrow", "delta_ops.spark"},
        "from delta_ops.orchestration import DeltaIOManager": {
            "delta_ops.arrow.engine",
            "delta_ops.arrow.read",
            "delta_ops.arrow.write",
            "delta_ops.maintenance.optimize.run",
            "delta_ops.storage.backends.built_in",
        },
        "from delta_ops.orchestration import *": {"pyspark", "pandas", "polars", "dagster_pyspark"},
        "from delta_ops.components import *": {"pyspark", "pandas", "polars", "dagster_pyspark"},
    }
    most_of_own = {"from delta_ops.orchestration import DeltaIOManager": 265}
    code = f"""
import sys
for statement, unused in {unused}.items():
    exec(statement)
    own = [name for name in sys.modules if name.partition(".")[0] == "delta_ops"]
    print(sorted(unused & sys.modules.keys()), len(own) <= {most_of_own}.get(statement, len(own)))
"""
    assert printed(code).splitlines() == ["[] True"] * len(unused)


def test_without_its_extra_a_package_says_what_to_install() -> None:
    needs = {
        "delta_ops.orchestration": ("dagster", "dagster"),
        "delta_ops.components": ("dagster", "dagster"),
        "delta_ops.spark": ("pyspark", "spark"),
    }
    code = f"""
import importlib, sys
for module, (package, _) in {needs}.items():
    sys.modules[package] = None
    try:
        importlib.import_module(module)
    except ImportError as error:
        print(error)
"""
    assert printed(code).splitlines() == [
        f"{module} needs the package {package}; install it with: pip install 'delta_ops[{extra}]'"
        for module, (package, extra) in needs.items()
    ]


HIDING = """
import importlib.abc, sys

class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {other}:
            raise ModuleNotFoundError(f"no module {{name}}", name=name)

sys.meta_path.insert(0, Hide())
"""
ROWS = """
import sys, delta_ops.arrow as da, pyarrow as pa
from delta_ops import DeltaLog, col
from delta_ops.maintenance import create_checkpoint, optimize, vacuum
place = sys.argv[1] + "/t"
da.write(place, pa.table({"a": [1, 2, 3], "p": ["x", "y", "x"]}), partition_by=["p"])
da.delete(place, col("a") == 1)
da.update(place, {"a": "a + 1"})
merge = da.merge(place, pa.table({"a": [3, 9], "p": ["y", "z"]}), "target.a = source.a")
merge.when_matched_delete().when_not_matched_insert_all().execute()
create_checkpoint(DeltaLog(place))
optimize(DeltaLog(place))
vacuum(DeltaLog(place), dry_run=True)
print(sorted(da.to_table(place)["a"].to_pylist()))
"""
ASSET = """
import sys, dagster as dg, pyarrow as pa
from delta_ops.orchestration import DeltaIOManager

@dg.asset
def numbers() -> pa.Table:
    return pa.table({"a": [4, 9]})

@dg.asset
def same(numbers: pa.Table) -> pa.Table:
    return numbers

done = dg.materialize([numbers, same], resources={"io_manager": DeltaIOManager(root=sys.argv[1])})
print(done.output_for_node("same")["a"].to_pylist())
"""
COMMAND = """
import json, sys, delta_ops.arrow as da, pyarrow as pa
da.write(sys.argv[1] + "/t", pa.table({"a": [4, 9]}))
from click.testing import CliRunner
from delta_ops.cli.main import cli
shown = CliRunner().invoke(cli, ["show", sys.argv[1] + "/t", "--json"])
print([4, 9] if json.loads(shown.output)["num_files"] == 1 else shown.output)
"""


@pytest.mark.parametrize(
    ("extras", "program"),
    [
        pytest.param([], ROWS, id="the log, rows and maintenance without an extra"),
        pytest.param(["dagster"], ASSET, id="assets of Dagster", marks=pytest.mark.full),
        pytest.param(["cli"], COMMAND, id="the command", marks=pytest.mark.full),
    ],
)
def test_an_extra_installs_all_that_it_needs(
    extras: list[str], program: str, tmp_path: Path
) -> None:
    """Installed packages that the distribution does not require, made unimportable."""
    required = distributions_for("delta_ops", extras)
    owners = packages_distributions()
    other = [name for name, by in owners.items() if required.isdisjoint(map(canonical_name, by))]
    shown = subprocess.run(
        [sys.executable, "-c", HIDING.format(other=set(other)) + program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DAGSTER_HOME": ""},
    )
    assert shown.stdout.strip().splitlines()[-1:] == ["[4, 9]"], shown.stderr[-2000:]


def distributions_for(name: str, extras: Iterable[str] = ()) -> set[str]:
    """The names of a distribution and of all its requirements."""
    found: set[tuple[str, str]] = set()
    todo = [(canonical_name(name), extra) for extra in ("", *extras)]
    while todo:
        one, extra = todo.pop()
        if (one, extra) in found:
            continue
        found.add((one, extra))
        for text in requires(one) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                todo += [(canonical_name(needed.name), each) for each in ("", *needed.extras)]
    return {one for one, _ in found}


def test_the_package_says_its_version() -> None:
    assert delta_ops.__version__ == version("delta_ops")


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


def test_the_wheel_holds_all_java_sources(wheel: Path) -> None:
    sources = {path.relative_to(PROJECT).as_posix() for path in PROJECT.glob("delta_ops/**/*.java")}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".java")}
    assert packed == sources != set()


def test_the_wheel_registers_its_components(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (each for each in packed.namelist() if each.endswith("entry_points.txt"))
        reported = configparser.ConfigParser()
        reported.read_string(packed.read(name).decode())
    (module,) = reported["dagster_dg_cli.registry_modules"].values()
    found = vars(importlib.import_module(module))
    assert {"DeltaTableComponent", "DeltaLakeComponent", "DeltaMaintenanceComponent"} <= set(found)


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed wheel."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--target", str(folder), str(wheel)], check=True)
    return folder


def test_a_wheel_installed_elsewhere_runs_the_command(site: Path, tmp_path: Path) -> None:
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


def test_a_wheel_installed_elsewhere_finds_its_java_sources(site: Path, tmp_path: Path) -> None:
    program = (
        "from delta_ops.spark import java_sources; "
        "found = java_sources.java_sources('delta', (3, 5), '2.12.18'); "
        "print(java_sources.__file__, {'PathCatalog.java', 'ExpressionUtils.java'} <= set(found))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert shown.stdout.split() == [str(site / "delta_ops/spark/java_sources.py"), "True"]


def test_without_its_extra_the_command_says_what_to_install(site: Path, tmp_path: Path) -> None:
    # Modules that fail on import simulate packages that are not installed.
    for name in ("click", "rich"):
        module = tmp_path / f"{name}.py"
        module.write_text(f"raise ModuleNotFoundError('no {name}', name='{name}')")
    shown = subprocess.run(
        [sys.executable, site / "bin" / "delta-ops", "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join((str(tmp_path), str(site)))},
    )
    assert shown.returncode == 1
    assert "delta_ops[cli]" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_an_import_beside_an_old_pyarrow_names_both_versions(tmp_path: Path) -> None:
    (bound,) = (each for each in requires("delta_ops") or () if each.startswith("pyarrow"))
    oldest = bound.removeprefix("pyarrow>=")
    found = f"{int(oldest) - 1}.9.0"
    (tmp_path / "pyarrow.py").write_text(f"__version__ = {found!r}\n")
    done = subprocess.run(
        [sys.executable, "-c", "import delta_ops.arrow"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    assert done.stderr.splitlines()[-1] == (
        f"delta_ops.errors.MissingDependencyError: delta_ops needs pyarrow {oldest} or later, and "
        f"pyarrow {found} is installed; install another one with: pip install 'pyarrow>={oldest}'"
    )
