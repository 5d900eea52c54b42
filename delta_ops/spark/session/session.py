"""The Spark session: get or create a session, and override settings for one call.

Spark needs an installed Java. Without it PySpark fails with an unclear shell message,
so Java is checked before a session is created.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_ops.arguments import validate_arguments
from delta_ops.errors import MissingDependencyError
from delta_ops.spark.versions import NEWEST_JAVA, OLDEST_JAVA, is_connect

logger = logging.getLogger(__name__)

_VERSION = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_LOCALE_NAMES = ("LC_ALL", "LC_CTYPE", "LANG")
_JAVA_CURE = (
    "install Java 17 (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; macOS: "
    "brew install openjdk@17) "
    "and put it on PATH, or set JAVA_HOME to it"
)


def get_session(
    app_name: str = "delta_ops", configuration: Mapping[str, str] | None = None
) -> SparkSession:
    """Get the active session, or create one.

    Args:
        app_name: Name of a new session.
        configuration: Settings of a new session. An active session is not changed.

    Raises:
        MissingDependencyError: A new session needs Java, and no suitable Java is installed.

    Examples:
        >>> session = ds.get_session(configuration={"spark.sql.shuffle.partitions": "4"})
        >>> session.range(3).count()
        3
    """
    validate_arguments(get_session, locals())
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    settings = dict(configuration or {})
    is_remote = "spark.remote" in settings or bool(os.environ.get("SPARK_REMOTE"))
    java = None if is_remote else java_version()
    # Without it Spark starts the first `python3` on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with _locale_for_file_names():
            return builder.getOrCreate()
    except Exception as error:
        if java is not None and (reason := why_too_new(java)):
            raise MissingDependencyError(
                f"Spark {pyspark.__version__} did not start with Java {java}, because {reason}; "
                f"{_JAVA_CURE}."
            ) from error
        raise


def session_time_zone(spark: SparkSession) -> str:
    """Time zone for partition timestamps without one."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


_warned: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""Warnings that were logged, by session."""


def warn_once(spark: SparkSession, slower: str, why: Exception) -> None:
    """Warn about a slower fallback, once for each session."""
    warned = _warned.setdefault(spark, set())
    if slower not in warned:
        warned.add(slower)
        logger.warning("%s: %s", slower, why)


def is_one_process(spark: SparkSession) -> bool:
    """Whether driver and executor are one process."""
    try:
        return re.fullmatch(r"local(\[[^\]]*\])?", spark.sparkContext.master or "") is not None
    except PySparkException:  # Connect has no context
        return False


def java_version() -> str:
    """The version of the Java that Spark would start.

    Raises:
        MissingDependencyError: Java is missing or too old.
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
            f"Spark needs Java, but {java} from {where} cannot be run; {_JAVA_CURE}."
        ) from error
    found = _VERSION.search(ran.stderr + ran.stdout)
    if found is None or int(found[2]) < OLDEST_JAVA:
        version = f"Java {found[2]}" if found else "no working Java"
        raise MissingDependencyError(
            f"Spark needs Java {OLDEST_JAVA} or later, and {java} is {version}; {_JAVA_CURE}."
        )
    return found[1]


def why_too_new(java: str, newest: int | None = NEWEST_JAVA) -> str:
    """Why this Spark cannot run on a version of Java; empty if it can.

    Args:
        newest: The newest Java that Spark runs on; None: there is no limit.
    """
    if newest is None or _major(java) <= newest:
        return ""
    return f"its Hadoop needs Java {newest} or older"


def _major(java: str) -> int:
    """The number that Java is called by: 8 for 1.8.0_402, 17 for 17.0.1."""
    return int(java.removeprefix("1.").partition(".")[0])


_Key = tuple[object, str]
"""A session and the name of a setting."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _Override:
    """Value of a setting during one call."""

    thread: int
    value: str


class _Overrides:
    """Active calls for each setting, and the value before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.before: dict[_Key, str | None] = {}
        self.calls: dict[_Key, list[_Override]] = {}


_overrides = _Overrides()


def _free_lock() -> None:
    """Recreate the lock in a forked child, because a thread of the parent may have held it."""
    _overrides.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_lock)


@contextlib.contextmanager
def overriding(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Override session settings for the duration of a call.

    In nested calls the inner value applies; afterwards the outer value applies again. Settings
    belong to the session, so other threads see them too. If calls in several threads overlap, the
    value of the first thread applies until its call ends.
    """
    session = _identity(spark)
    with contextlib.ExitStack() as entered:
        for name, value in settings.items():
            call = _Override(thread=threading.get_ident(), value=value)
            _enter(spark, (session, name), call)
            entered.callback(_leave, spark, (session, name), call)
        yield


def _identity(spark: SparkSession) -> object:
    """A value that is equal for all Python objects of one session."""
    session: Any = spark
    try:
        return session.session_id if is_connect(spark) else session._jsparkSession.sessionUUID()
    except (AttributeError, Py4JError):
        return id(spark)


def _enter(spark: SparkSession, key: _Key, call: _Override) -> None:
    with _overrides.lock:
        calls = _overrides.calls.get(key, [])
        before = _overrides.before[key] if calls else spark.conf.get(key[1])
        _set(spark, key[1], _current_value([*calls, call], before))
        _overrides.before[key], _overrides.calls[key] = before, [*calls, call]


def _leave(spark: SparkSession, key: _Key, call: _Override) -> None:
    with _overrides.lock:
        calls = [each for each in _overrides.calls.pop(key) if each is not call]
        before = _overrides.before.pop(key)
        if calls:
            _overrides.before[key], _overrides.calls[key] = before, calls
        _set(spark, key[1], _current_value(calls, before))


def _current_value(calls: Sequence[_Override], before: str | None) -> str | None:
    """The value that applies now; `before` if no call is running.

    The thread of the oldest running call decides, by its innermost call.
    """
    return next((c.value for c in reversed(calls) if c.thread == calls[0].thread), before)


def _set(spark: SparkSession, name: str, value: str | None) -> None:
    if value is None:
        spark.conf.unset(name)
    elif value != spark.conf.get(name):
        spark.conf.set(name, value)


@contextlib.contextmanager
def _locale_for_file_names() -> Iterator[None]:
    """Set a locale for non-ASCII file names in the JVM, if the environment has no locale."""
    if any(os.environ.get(name) for name in _LOCALE_NAMES) or os.name == "nt":
        yield
        return
    os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        del os.environ["LC_ALL"]
