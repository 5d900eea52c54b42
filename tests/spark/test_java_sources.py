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

ROOT = Path(delta_ops.spark.__file__).parent / "java"
SOURCES = sorted(ROOT.rglob("*.java"))
LINT = "-Xlint:all,-cast,-path"
"""Janino ignores type arguments, so it needs casts that javac does not need. The manifests of
Spark's jars name jars that PySpark does not bring, which javac reports as missing paths."""
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
        package = ".".join(path.relative_to(ROOT).parent.parts)
        assert text.startswith(f"package {package};\n"), path
        assert found[1] == path.stem
        assert "\n/** " in text[: found.start()] or "\n/**\n" in text[: found.start()], path


def test_the_sources_compile_without_a_warning(tmp_path: Path) -> None:
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin/java") if home else "java"
    jars = os.pathsep.join(map(str, (Path(pyspark.__file__).parent / "jars").glob("*.jar")))
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main", LINT, "-Werror", "-proc:none"]
    made = subprocess.run(
        [*compiler, "-cp", jars, "-d", tmp_path, *SOURCES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert {path.stem for path in SOURCES} <= {path.stem for path in tmp_path.rglob("*.class")}
