"""Options of all JVMs of the tests, with an archive of Spark's classes.

A JVM reads and verifies some 20,000 classes from jars before Spark answers its first query. From an
archive that it maps into memory this takes half the time, and JVMs that run at once share it. Java
checks itself that the archive fits its version and its class path, and does without it otherwise.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[2] / ".servers"
# Most code runs a few times only, so it is not worth a second compiler or parallel garbage
# collection. With one compiler Java keeps 48 MB of compiled code; Spark has more, and would compile
# it again and again. Several JVMs run at once, so each keeps little memory that it does not use.
_ALWAYS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    "-XX:NewSize=192m -XX:MaxNewSize=192m -XX:MetaspaceSize=256m "
    "-XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"
)
_QUIETLY = "-Xlog:disable"
"""Java reports on standard output when an archive does not fit."""
_PROGRAM = """
import sys
from pyspark.sql import SparkSession, functions as sf

session = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
for name in ("one", "two"):
    numbers = session.range(9).select("id", (sf.col("id") % 3).alias("p"), sf.array("id"))
    numbers.write.partitionBy("p").parquet(f"{sys.argv[1]}/{name}")
one, two = (session.read.parquet(f"{sys.argv[1]}/{name}") for name in ("one", "two"))
one.join(two, "id", "full").groupBy(one.p).agg(sf.max("id")).orderBy("p").collect()
session.stop()
"""


def java_options(python: Path = Path(sys.executable)) -> str:
    """The value of `JAVA_TOOL_OPTIONS` for Sparks of an environment; of the tests, by default.

    Classes are taken from the archive if jars are only appended to Spark's class path.
    """
    archive = _archive(python)
    if archive is None or not archive.exists():
        return _ALWAYS
    return f"{_ALWAYS} {_QUIETLY} -XX:SharedArchiveFile={archive}"


def ensure_class_archive(python: Path = Path(sys.executable)) -> None:
    """Make the archive, once for each version of Java and of PySpark."""
    archive = _archive(python)
    if archive is None or archive.exists():
        return
    archive.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made, program = Path(folder) / archive.name, Path(folder) / "program.py"
        program.write_text(_PROGRAM, encoding="utf-8")
        others = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))
        }
        subprocess.run(
            [python.with_name("spark-submit"), program, folder],
            env={
                **others,
                "JAVA_TOOL_OPTIONS": f"{_ALWAYS} {_QUIETLY}",
                "PYSPARK_PYTHON": str(python),
                "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made}",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        made.rename(archive)


def _archive(python: Path) -> Path | None:
    """Path of an environment's archive, which may not exist; None without Java or Spark."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin/java") if home else "java")
    jars = next(python.parents[1].glob("lib/python*/site-packages/pyspark/jars"), None)
    if java is None or jars is None:
        return None
    release = Path(java).resolve().parents[1] / "release"
    if not release.exists():
        return None
    files = "".join([str(jars), *sorted(file.name for file in jars.iterdir())])
    fingerprint = hashlib.sha256(release.read_bytes() + files.encode()).hexdigest()[:12]
    return _FOLDER / f"classes-{fingerprint}.jsa"
