"""Environments with other versions of Spark and Dagster, made when the first test needs them.

`.peers/<name>-<version>/` holds a virtual environment with the packages of that version. All other
packages come from the environment of the tests.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.peers.environment import PEERS, run_step

SPARK = {"3.5": "3.5.9", "4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1"}
"""The last release of each minor version before the newest, which all other tests run on."""
DAGSTER = {"1.10": "1.10.0", "1.11": "1.11.0", "1.12": "1.12.0"}
"""The first release of each minor version before the newest."""
COMPONENTS = {"1.12"}
"""Versions before the newest that have components, and so the `dg` commands."""
_GENERATED = ("googleapis-common-protos", "grpc-google-iam-v1")
"""Packages with code for one version of protobuf; that of the environment may be older."""
_EXTRAS = ("spark", "dagster", "dagster-spark", "cli")
_LONGEST_S = 3600


def spark_python(version: str) -> Path:
    """The Python of the environment with a minor version of Spark."""
    return _ensure(f"pyspark-{SPARK[version]}", [f"pyspark=={SPARK[version]}"])


def dagster_python(version: str) -> Path:
    """The Python of the environment with a minor version of Dagster."""
    core = DAGSTER[version]
    minor, patch = (int(part) for part in core.split(".")[1:])
    library = f"0.{minor + 16}.{patch}"  # Dagster numbers its libraries so
    packages = [f"{name}=={core}" for name in ("dagster", "dagster-graphql", "dagster-webserver")]
    libraries = [f"dagster-{name}=={library}" for name in ("spark", "postgres")]
    commands = [f"dagster-dg-cli=={core}"] if version in COMPONENTS else []
    return _ensure_pinned(f"dagster-{core}", [*packages, *libraries, *commands, *_GENERATED])


def lowest_python() -> Path:
    """The Python of the environment with the lowest versions that `pyproject.toml` allows."""
    packages = lowest_requirements(Path("pyproject.toml").read_text(encoding="utf-8"))
    return _ensure_pinned("lowest", [*packages, *_GENERATED])


def lowest_requirements(project: str) -> list[str]:
    """The direct requirements of a project, each with its lowest version.

    Clients of stores are left out, since each requires one version of fsspec, and so is Spark
    Connect, which needs a later version of Spark.
    """
    table = tomllib.loads(project)["project"]
    extras = table["optional-dependencies"]
    named = [*table["dependencies"], *(each for name in _EXTRAS for each in extras[name])]
    return sorted({re.sub(r">=([^,]+).*", r"==\1", each) for each in named})


def _ensure_pinned(name: str, packages: Sequence[str]) -> Path:
    """As `_ensure`, with a new environment if the packages change."""
    pins = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:12]
    return _ensure(f"{name}-{pins}", packages)


def _ensure(name: str, packages: Sequence[str]) -> Path:
    folder = PEERS / name
    python, complete = folder / "bin" / "python", folder / "complete"
    PEERS.mkdir(exist_ok=True)
    with (PEERS / f"lock-of-{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            run_step([sys.executable, "-m", "venv", "--without-pip", str(folder)])
            install = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
            run_step([sys.executable, *install, *packages])
            _add_packages_of_tests(python)
            complete.touch()
    return python


def _add_packages_of_tests(python: Path) -> None:
    """Let the environment find the packages that it does not have in that of the tests."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([str(python), "-c", program], check=True, capture_output=True, text=True)
    # The name sorts last, so that the packages of the environment come first.
    link = Path(found.stdout.strip()) / "zz_packages_of_tests.pth"
    link.write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")


def run_in(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module in an environment, in this folder; not checked."""
    variables = {**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(Path.cwd())}
    return subprocess.run(
        [str(python), "-m", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        env={name: value for name, value in variables.items() if name != "SPARK_HOME"},
    )


def run_tests(python: Path, *arguments: str) -> None:
    """Run tests of the main tier in an environment, and require that they pass."""
    options = ["--quiet", "-p", "no:cacheprovider", "-m", "not full and not long"]
    options += ["-W", "ignore"]  # older packages warn in other places
    done = run_in(python, "pytest", *options, *arguments)
    assert done.returncode == 0, done.stdout[-6000:]
