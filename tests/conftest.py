"""One Spark session for all tests of a process, the servers of `tests/servers`, and the peers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.days import part_of_day, today

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("as long as it takes", deadline=None)  # how long says nothing here
settings.load_profile("as long as it takes")

pytest_plugins = [
    "tests.servers.s3",
    "tests.servers.gcs",
    "tests.servers.azure",
    "tests.servers.postgres",
    "tests.peers.delta_spark",
    "tests.spark.ways_of_writing",
]

_OF_JVM = tuple(f"tests/{folder}/" for folder in ("examples", "interop", "peers", "spark"))
_OF_SPARK = "tests/spark/"
_OF_OTHER_PROCESSES = tuple(
    f"tests/spark/test_{name}.py"
    for name in ("cluster", "connect", "dead_jvm", "killed_merges", "killed_steps")
)
"""Tests whose sessions run in processes of their own."""
_LONGEST = "tests/long/test_orders_"
"""Tests that take many minutes each and have no session: each by itself, and before all others."""
_BY_DAYS = "by_days"
"""The mark of tests and cases of which each day has a part, of each file by itself."""
_DAYS_OF_FOLDERS = {
    **dict.fromkeys(("interop", "peers", "spark"), 3),
    **dict.fromkeys(("browser", "cli", "components", "examples", "interleaving", "maintenance"), 2),
    **dict.fromkeys(("long", "orchestration", "storage"), 2),
}
"""Tests of JVMs, of Dagster's processes and of many interruptions take most of the time."""
_DAYS_OF_LONG = 2
"""Long proofs of a folder take at most so many days."""
TIME_ZONE = "spark.sql.session.timeZone"
# Of all JVMs, also those of steps, clusters and peers: code that runs a few times is not worth
# another compiler, nor a collector with many threads. With one compiler, Java keeps 48 MB of
# compiled code: Spark has more, and would throw it away and compile it again and again.
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
)
_REPORTED = "reported"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """What goes to one process: a file, or one of two parts of what needs a JVM.

    So no process has two sessions. One part is about Spark alone, and the other one about
    delta-spark and the examples.
    """
    return _JvmsInTwoProcesses(config, log)


class _JvmsInTwoProcesses(LoadFileScheduling):  # type: ignore[misc]  # xdist is not typed
    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_LONGEST):
            return nodeid
        if not _is_of_jvm(nodeid):
            return str(super()._split_scope(nodeid))
        return "jvm of Spark" if nodeid.startswith(_OF_SPARK) else "jvm beside others"


def _is_of_jvm(nodeid: str) -> bool:
    return nodeid.startswith(_OF_JVM) and not nodeid.startswith(_OF_OTHER_PROCESSES)


def pytest_configure() -> None:
    """Settle the day before there are other processes."""
    today()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the day its part of the tests, and begin with what takes longest.

    A test that is asked for, by its file or by words of its name, is run on any day.
    So no process is left alone with that in the end, where groups of tests keep this order, by
    `--no-loadscope-reorder`.
    """
    by_file: dict[tuple[str, int], list[pytest.Item]] = {}
    asks_for_some = config.option.keyword or any(Path(each).name != "tests" for each in config.args)
    for item in () if asks_for_some else items:
        by_file.setdefault((item.nodeid.partition("::")[0], _days_of(item)), []).append(item)
    of_others = {
        item.nodeid
        for (file, days), cases in by_file.items()
        for item in {*cases} - {*part_of_day(cases, days, _day_of(file))}
    }
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in of_others])
    items[:] = [item for item in items if item.nodeid not in of_others]
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[bool, ...]:
    """The turn of a test: what has sessions in processes of its own after what shares one."""
    name = item.nodeid
    return not name.startswith(_LONGEST), not name.startswith(_OF_JVM), not _is_of_jvm(name)


def _days_of(item: pytest.Item) -> int:
    """How many days it takes until all tests of its kind and file were run."""
    if mark := item.get_closest_marker(_BY_DAYS):
        days: int = mark.args[0]
        return days
    days = _DAYS_OF_FOLDERS.get(item.nodeid.split("/")[1], 1)
    return min(days, _DAYS_OF_LONG) if item.get_closest_marker("long") else days


def _day_of(file: str) -> int | None:
    """The day for the tests of a file: not all files with few of them have theirs on the same."""
    day = today()
    return None if day is None else day + crc32(file.encode())


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes a sentence of what was measured, for the summary at the end of the run."""
    return lambda sentence: request.node.user_properties.append((_REPORTED, sentence))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for each in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, sentence in each.user_properties:
            if name == _REPORTED:
                terminalreporter.write_line(sentence)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from tests.servers.connectors import connector_jars

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("delta_ops tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraClassPath", os.pathsep.join(map(str, connector_jars())))
        .config("spark.executorEnv.PYTHONPATH", os.getcwd())
        .config(TIME_ZONE, "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def store_spark(spark: SparkSession) -> SparkSession:
    """The session, where it has Hadoop's connectors to the servers."""
    from tests.servers.connectors import connector_jars

    if not connector_jars():
        pytest.skip("Hadoop's connectors come by Maven, which cannot be had")
    return spark


@pytest.fixture
def in_new_york(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, in a time zone that has daylight saving time."""
    spark.conf.set(TIME_ZONE, "America/New_York")
    yield spark
    spark.conf.set(TIME_ZONE, "UTC")
