"""Installation: versions of Spark, Scala, Java and Hadoop, and which code the engine uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyspark

from delta_ops.errors import MissingDependencyError
from delta_ops.spark.installed_version import VERSION, version_text
from delta_ops.spark.session.packages import hadoop_version
from delta_ops.spark.session.session import java_version, why_too_new
from delta_ops.spark.versions import CONNECT, HAS_CONNECT

_WITHOUT_JARS = "none, PySpark has no jars"
_SCALA_JAR = re.compile(r"scala-library-(.+)\.jar")


def installation() -> Iterator[tuple[str, str]]:
    """Yield the name and version of each part, and which code runs in each kind of session."""
    jars = Path(pyspark.__file__).parent / "jars"
    scala = _scala_version(jars)
    yield "PySpark", pyspark.__version__
    yield "Scala", scala or _WITHOUT_JARS
    yield "Hadoop", _or_reason(jars)
    yield "Java", _java()
    if scala is not None:
        spark = ".".join(map(str, VERSION))
        classes = f"compiled classes for Spark {spark} and Scala {scala}"
        yield "Spark engine", f"in a classic session: {classes}"
    reason = "Spark's public API, because there is no local JVM"
    if not HAS_CONNECT:
        reason = f"not supported; it needs Spark {version_text(CONNECT)} or later"
    yield "Spark engine", f"over Spark Connect: {reason}"


def _scala_version(jars: Path) -> str | None:
    found = (_SCALA_JAR.fullmatch(jar.name) for jar in jars.glob("scala-library-*.jar"))
    return next((match[1] for match in found if match), None)


def _or_reason(jars: Path) -> str:
    try:
        return hadoop_version(jars)
    except MissingDependencyError:
        return _WITHOUT_JARS


def _java() -> str:
    try:
        found = java_version()
    except MissingDependencyError as error:
        return f"unusable: {error}"
    reason = why_too_new(found)
    return f"{found}, which is too new for this Spark: {reason}" if reason else found
