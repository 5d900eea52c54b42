"""Hadoop's connectors to the servers: jars in a folder of the checkout, created once.

A process with another Hadoop gets its jars by a variable.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pyspark

from delta_ops.spark.session.packages import hadoop_version
from tests.peers.environment import PEERS, MavenMissingError, copy_jars

JARS_OF_OTHER_HADOOP = "JARS_OF_OTHER_HADOOP"
"""Variable with the class path of jars for a PySpark with another Hadoop than the project's."""
NO_CONNECTORS = "there is no Maven to get Hadoop's connectors, or PySpark has another Hadoop"
"""Why a test with the connectors is skipped."""
_POM = Path(__file__).with_name("connectors.xml")


@cache
def connector_jars() -> tuple[Path, ...]:
    """The jars; empty without Maven, or without the variable for another Hadoop."""
    (hadoop,) = re.findall("<hadoop.version>(.*)</hadoop.version>", _POM.read_text("utf-8"))
    if hadoop_version(Path(pyspark.__file__).parent / "jars") != hadoop:
        given = os.environ.get(JARS_OF_OTHER_HADOOP)
        return tuple(map(Path, given.split(os.pathsep))) if given else ()
    pins = hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]
    folder = PEERS / f"hadoop-connectors-{pins}"
    complete = folder / "complete"
    PEERS.mkdir(exist_ok=True)
    with (PEERS / "lock-of-connectors").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                copy_jars(_POM, folder / "jars")
            except MavenMissingError:
                return ()
            complete.touch()
    return tuple(sorted((folder / "jars").glob("*.jar")))


@contextmanager
def connectors_on_class_path() -> Iterator[None]:
    """Start sessions with the jars appended to Spark's own, so Java can use its archive."""
    variable = "SPARK_DIST_CLASSPATH"
    os.environ[variable] = os.pathsep.join(map(str, connector_jars()))
    try:
        yield
    finally:
        del os.environ[variable]
