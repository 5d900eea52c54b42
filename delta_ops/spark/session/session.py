"""The Spark session: get or create one, and settings that hold for one call.

Spark needs Java 17 or later from the machine; without it PySpark fails with the text of a shell, so
it is looked for before a session is created.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_ops.arguments import validate_arguments
from delta_ops.errors import MissingDependencyError

logger = logging.getLogger(__name__)

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_LOCALE_NAMES = ("LC_ALL", "LC_CTYPE", "LANG")
_JAVA_CURE = (
    f"install Java {OLDEST_JAVA} or later (Debian and Ubuntu: apt-get install "
    f"openjdk-{OLDEST_JAVA}-jre-headless; macOS: brew install openjdk@{OLDEST_JAVA}) "
    "and put it on PATH, or set JAVA_HOME to it"
)


def get_session(
    app_name: str = "delta_ops", configuration: Mapping[str, str] | None = None
) -> SparkSession:
    """The active session, or a new one.

    Args:
        app_name: Name of a new session.
        configuration: Settings of a new session; an active one is taken as it is.

    Raises:
        MissingDependencyError: A session has to be created, and there is no Java to run it on.
    """
    validate_arguments(get_session, locals())
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    settings = dict(configuration or {})
    is_remote = "spark.remote" in settings or bool(os.environ.get("SPARK_REMOTE"))
    if not is_remote:
        validate_java()
    # Without it Spark starts whatever `python3` is on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _locale_for_file_names():
        return builder.getOrCreate()


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of a Connect server and so has no JVM of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def session_time_zone(spark: SparkSession) -> str:
    """The zone in which partition values of type timestamp are read that name none."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


_told: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""What was said of sessions."""


def tell_once(spark: SparkSession, slower: str, why: Exception) -> None:
    """Warn of a slower way that a session goes, once for each."""
    told = _told.setdefault(spark, set())
    if slower not in told:
        told.add(slower)
        logger.warning("%s: %s", slower, why)


def is_one_process(spark: SparkSession) -> bool:
    """Whether the driver is its own executor."""
    try:
        return re.fullmatch(r"local(\[[^\]]*\])?", spark.sparkContext.master or "") is not None
    except PySparkException:  # Connect has no context
        return False


def validate_java() -> None:
    """Check that the Java which Spark would start is there and new enough.

    Raises:
        MissingDependencyError: It is not.
    """
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise MissingDependencyError(f"Spark needs Java, which is not on PATH; {_JAVA_CURE}.")
    try:
        ran = subprocess.run(  # noqa: S603  (the program that Spark is about to start itself)
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        where = "JAVA_HOME" if home else "PATH"
        raise MissingDependencyError(
            f"Spark needs Java, and {java}, to which {where} leads, cannot be run; {_JAVA_CURE}."
        ) from error
    found = _VERSION.search(ran.stderr + ran.stdout)
    if found is None or int(found[1]) < OLDEST_JAVA:
        version = f"Java {found[1]}" if found else "no working Java"
        raise MissingDependencyError(
            f"Spark needs Java {OLDEST_JAVA} or later, and {java} is {version}; {_JAVA_CURE}."
        )


class _Overrides:
    """What settings were before the first of the calls that are under way changed them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.before: dict[tuple[object, str], tuple[int, str | None]] = {}


_overrides = _Overrides()


def _free_lock() -> None:
    """Make the lock anew in a child, where a thread that holds it does not exist."""
    _overrides.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_lock)


@contextlib.contextmanager
def overriding(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Session settings for the duration of a call; where threads overlap, the first one's count.

    Settings belong to the session, so what else runs in it meanwhile sees them too.
    """
    session = _identity(spark)
    with contextlib.ExitStack() as entered:
        for name, value in settings.items():
            _enter(spark, (session, name), value)
            entered.callback(_leave, spark, (session, name))
        yield


def _identity(spark: SparkSession) -> object:
    """Equal for all objects of Python that stand for one session."""
    session: Any = spark
    try:
        return session.session_id if is_connect(spark) else session._jsparkSession.sessionUUID()
    except (AttributeError, Py4JError):
        return id(spark)


def _enter(spark: SparkSession, key: tuple[object, str], value: str) -> None:
    name = key[1]
    with _overrides.lock:
        users, before = _overrides.before.get(key, (0, spark.conf.get(name)))
        if users == 0 and before != value:
            spark.conf.set(name, value)
        _overrides.before[key] = (users + 1, before)


def _leave(spark: SparkSession, key: tuple[object, str]) -> None:
    name = key[1]
    with _overrides.lock:
        users, before = _overrides.before.pop(key)
        if users > 1:
            _overrides.before[key] = (users - 1, before)
        elif before is None:
            spark.conf.unset(name)
        elif before != spark.conf.get(name):
            spark.conf.set(name, before)


@contextlib.contextmanager
def _locale_for_file_names() -> Iterator[None]:
    """A locale in which the JVM can name files beyond ASCII, where the environment has none."""
    if any(os.environ.get(name) for name in _LOCALE_NAMES) or os.name == "nt":
        yield
        return
    os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        del os.environ["LC_ALL"]
