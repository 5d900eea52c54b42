"""The Java sources compile without a warning, and have one format.

Janino compiles them where Spark runs, and reports no warnings; other tests cover that.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import delta_ops.spark
from delta_ops.spark.installed_version import VERSION
from delta_ops.spark.java_sources import java_sources
from delta_ops.spark.versions import OLDEST_JAVA

ROOT = Path(delta_ops.spark.__file__).parent
SOURCES = sorted(ROOT.rglob("*.java"))
STAND_INS = "delta_ops.versions"
PACKAGES = {".".join(path.relative_to(ROOT).parent.parts[1:]) for path in SOURCES} - {STAND_INS}
LINT = "-Xlint:all,-cast,-path,-options"
"""Janino ignores type arguments, so it needs casts that javac does not need. The manifests of
Spark's jars name jars that PySpark does not bring, which javac reports as missing paths. Later
compilers report Java 8 as a target."""
TYPE = re.compile(r"^(?:public |abstract |final )*(?:class|interface|enum) (\w+)", re.MULTILINE)
WITHOUT_BRACES = re.compile(r"^\s*(?:\} )?(?:if|else|for|while)\b.*;\s*(?://.*)?$")


def faults_of(line: str) -> Iterator[str]:
    """The format errors of a line."""
    text = line.lstrip(" ")
    if "\t" in line:
        yield "a tab"
    if line != line.rstrip():
        yield "trailing blanks"
    if len(line) > 100:
        yield "more than 100 characters"
    if (len(line) - len(text) - text.startswith("*")) % 4:
        yield "indentation that is no multiple of 4"
    if WITHOUT_BRACES.match(line) and not re.match(r"\s*for \(.*\{", line):
        yield "a statement without braces"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("\tint x;", "a tab"),
        ("    int x; ", "trailing blanks"),
        ("    " + "x" * 97, "more than 100 characters"),
        ("  int x;", "indentation that is no multiple of 4"),
        ("    if (x) return;", "a statement without braces"),
        ("    } else return;", "a statement without braces"),
    ],
)
def test_a_fault_of_the_format_is_found(line: str, fault: str) -> None:
    assert fault in list(faults_of(line))


def test_the_sources_are_formatted_alike() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number} has {fault}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        for fault in faults_of(line)
    ]
    assert found == []
    assert all(path.read_text(encoding="utf-8").endswith("}\n") for path in SOURCES)


def test_each_file_has_one_class_of_its_name_with_a_comment() -> None:
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        (found,) = TYPE.finditer(text)
        package = ".".join(path.relative_to(ROOT).parent.parts[1:])
        assert text.startswith(f"package {package};\n"), path
        assert found[1] == path.stem
        assert "\n/** " in text[: found.start()] or "\n/**\n" in text[: found.start()], path


@pytest.mark.full
def test_the_sources_compile_without_a_warning(tmp_path: Path) -> None:
    """For the installed version of Spark; the tests of versions run this with each version."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin/java") if home else "java"
    jars = Path(pyspark.__file__).parent / "jars"
    (library,) = jars.glob("scala-library-*.jar")
    scala = library.stem.removeprefix("scala-library-")
    sources = [
        _written(tmp_path / "sources" / package / name, text)
        for package in PACKAGES
        for name, text in java_sources(package, VERSION, scala).items()
        if package == min(PACKAGES) or f"package {STAND_INS};" not in text
    ]
    compiler: list[str | Path]
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main", LINT, "-Werror", "-proc:none"]
    target: list[str | Path] = ["--release", str(OLDEST_JAVA), "-d", tmp_path / "classes"]
    made = subprocess.run(
        [*compiler, *target, "-cp", os.pathsep.join(map(str, jars.glob("*.jar"))), *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    found = {path.stem for path in (tmp_path / "classes").rglob("*.class")}
    assert {path.stem for path in sources} <= found


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_version_of_its_own_replaces_a_source() -> None:
    newest = java_sources("delta_ops.streams", (4, 3), "2.13.18")
    before_4_2 = java_sources("delta_ops.streams", (4, 1), "2.13.17")
    assert newest.keys() == before_4_2.keys()
    assert {name for name, text in newest.items() if text != before_4_2[name]} == {
        "NamedSource.java"
    }


@pytest.mark.parametrize(
    ("spark", "scala", "name"),
    [
        ((4, 1), "2.13.17", "org.apache.spark.sql.execution.streaming.runtime.StreamingRelation"),
        ((4, 0), "2.13.16", "org.apache.spark.sql.execution.streaming.StreamingRelation"),
        ((3, 5), "2.13.8", "import org.apache.spark.sql.SparkSession;"),
        ((3, 5), "2.13.8", "import scala.collection.immutable.Seq;"),
        ((3, 5), "2.12.18", "import scala.collection.Seq;"),
        ((3, 5), "2.12.18", "import delta_ops.versions.CollectionConverters;"),
    ],
)
def test_a_source_has_the_names_of_its_version(
    spark: tuple[int, int], scala: str, name: str
) -> None:
    assert name in java_sources("delta_ops.streams", spark, scala)["NamedSource.java"]
