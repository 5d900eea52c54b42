"""Java sources: our Java code, adapted to the installed versions of Spark and Scala.

The sources in `java/` are written for the newest Spark. Older versions differ in two ways:

1. A class of Spark has another name. The name is replaced in our sources.
2. A class or method of Spark differs in more than its name. Only small classes of ours use it, and
   `java_before_4_2` has these classes for Spark before 4.2. If several folders have the same class,
   the folder for the oldest versions is used.

Classes in `delta_ops/versions` replace classes that some versions lack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

from delta_ops.spark.installed_version import Version

_BEFORE: tuple[Version, ...] = ((4, 2), (4, 0))
"""Versions with a folder of sources for all versions before; newest first."""
_STAND_INS = "delta_ops.versions"
_STREAMING = "org.apache.spark.sql.execution.streaming"
_RENAMED_BEFORE: Mapping[Version, Mapping[str, str]] = {
    (4, 1): {
        f"{_STREAMING}.runtime.{name}": f"{_STREAMING}.{name}"
        for name in ("SerializedOffset", "StreamingRelation")
    },
    (4, 0): {
        "org.apache.spark.sql.classic.ExpressionUtils": f"{_STAND_INS}.ExpressionUtils",
        "org.apache.spark.sql.classic.": "org.apache.spark.sql.",
    },
}
"""Names in Spark before a version, by their names in the sources."""
_RENAMED_IN_SCALA_2_12: Mapping[str, str] = {
    "scala.collection.immutable.Seq": "scala.collection.Seq",
    "scala.jdk.javaapi.CollectionConverters": f"{_STAND_INS}.CollectionConverters",
}


def java_sources(package: str, spark: Version, scala: str) -> dict[str, str]:
    """The sources of a package, by file name.

    Args:
        package: Name of a Java package of ours.
        spark: Version of Spark.
        scala: Version of Scala, like `2.13.18`.
    """
    is_scala_2_12 = scala.startswith("2.12.")
    renamed: dict[str, str] = {}
    for version, names in _RENAMED_BEFORE.items():
        if spark < version:
            renamed |= names
    if is_scala_2_12:
        renamed |= _RENAMED_IN_SCALA_2_12
    found = {
        path.name: path.read_text(encoding="utf-8")
        for folder in _folders(spark, is_scala_2_12)
        for each in (package, _STAND_INS)
        for path in _files(folder.joinpath(*each.split(".")))
    }
    for old, new in renamed.items():
        found = {name: text.replace(old, new) for name, text in found.items()}
    return found


def _folders(spark: Version, is_scala_2_12: bool) -> Iterator[Traversable]:
    """The folders of sources; files of later folders replace files of earlier folders."""
    root = files("delta_ops.spark")
    yield root / "java"
    for major, minor in _BEFORE:
        if spark < (major, minor):
            yield root / f"java_before_{major}_{minor}"
    if is_scala_2_12:
        yield root / "java_scala_2_12"


def _files(folder: Traversable) -> Iterator[Traversable]:
    if folder.is_dir():
        yield from folder.iterdir()
