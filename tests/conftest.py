"""Tiers, shards and seeds of the suite; the Spark session of a process; servers and peers."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.support.class_archive import java_options
from tests.support.memory import ignore_present_objects, release_memory
from tests.support.memory_folder import place_in_memory
from tests.support.tiers import (
    DEFAULT_SEED,
    JVM_FOLDERS,
    SEED,
    choose_cases,
    parse_seed,
    parse_shard,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline, because the machine may be busy. No database, so a run repeats no earlier example.
settings.register_profile("fixed", deadline=None, database=None, print_blob=True)
settings.load_profile("fixed")

pytest_plugins = [
    "tests.support.servers.s3",
    "tests.support.servers.gcs",
    "tests.support.servers.azure",
    "tests.support.servers.postgres",
    "tests.peers.delta_spark",
    "tests.spark.ways_of_writing",
]

_USES_SPARK_ALONE = (
    "tests/spark/",
    "tests/versioning/test_branches_with_spark",
    "tests/versioning/test_sessions_with_spark",
)
_STARTS_PROCESSES = tuple(
    f"tests/spark/test_{name}.py"
    for name in ("cluster", "connect", "dead_jvm", "killed_merges", "killed_steps")
)
"""Files of tests/spark with sessions in processes of their own."""
_LONGEST = (
    "tests/long/test_orders_",
    "tests/interleaving/test_dangerous_pairs.py",
    "tests/sweep/test_typed_errors.py::test_all_changes_of_damaged_tables",
    "tests/versions/test_older_spark",
)
"""Tests that take many minutes each: each runs alone, and first."""
TIME_ZONE = "spark.sql.session.timeZone"
# All JVMs of the tests, also of steps and clusters.
os.environ.setdefault("JAVA_TOOL_OPTIONS", java_options())
# Folders of tests are in memory, since a disk would wait for each of thousands of small files. To
# have them on the disk, set TMPDIR.
if "TMPDIR" not in os.environ and (_place := place_in_memory(1 << 32)):
    tempfile.tempdir = str(_place)
_REPORTED = "reported"
_STARTED = pytest.StashKey[float]()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Send a whole file to one process, and all files that share a JVM to the same process."""
    return _OneJvmPerProcess(config, log)


class _OneJvmPerProcess(LoadFileScheduling):  # type: ignore[misc]  # xdist is not typed
    """Two groups share a JVM: tests of Spark, and tests of peers and examples."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_LONGEST):
            return nodeid
        if not _shares_a_jvm(nodeid):
            return str(super()._split_scope(nodeid))
        return "JVM of Spark" if nodeid.startswith(_USES_SPARK_ALONE) else "JVM of peers"


def _shares_a_jvm(nodeid: str) -> bool:
    return nodeid.startswith((*_USES_SPARK_ALONE, *JVM_FOLDERS)) and not nodeid.startswith(
        _STARTS_PROCESSES
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options, not variables: a pytest that a test starts must not inherit them."""
    parser.addoption("--shard", help="K/N: run every N-th file, beginning with the K-th")
    parser.addoption("--shuffle", help="run the files in a random order, by this seed")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    """Fix the seed of Hypothesis and of our own random tests."""
    config.stash[_STARTED] = time.monotonic()
    seed = str(parse_seed(os.environ.get(SEED, DEFAULT_SEED)))
    os.environ[SEED] = seed  # the processes of xdist draw the same
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = seed


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the shard, and order the files.

    Cases that `some_cases` leaves out become `full`. The tests that take longest come first. With
    `--shuffle=7` the files come in a random order, the same for each run with that number.
    """
    _mark_other_cases(items)
    if text := config.getoption("--shard"):
        shard = parse_shard(text)
        files = sorted({_file_of(item) for item in items})
        kept = {file for file in files if shard.has(file, files)}
        config.hook.pytest_deselected(items=[each for each in items if _file_of(each) not in kept])
        items[:] = [item for item in items if _file_of(item) in kept]
    if text := config.getoption("--shuffle"):
        files = sorted({_file_of(item) for item in items})
        random.Random(text).shuffle(files)
        items.sort(key=lambda item: files.index(_file_of(item)))
    else:
        items.sort(key=_rank)


def _mark_other_cases(items: list[pytest.Item]) -> None:
    """Mark the cases that `make test` leaves out as `full`."""
    by_test: dict[tuple[str, int], list[pytest.Function]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("some_cases")
        if mark and isinstance(item, pytest.Function) and not _is_of_a_later_tier(item):
            by_test[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, count), cases in by_test.items():
        chosen = choose_cases(
            # The same value in two cases is the same object.
            [{name: id(value) for name, value in case.callspec.params.items()} for case in cases],
            count,
        )
        for position, case in enumerate(cases):
            if position not in chosen:
                case.add_marker("full")


def _is_of_a_later_tier(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(tier) for tier in ("full", "long"))


def pytest_collection_finish() -> None:
    ignore_present_objects()


@pytest.hookimpl(trylast=True)  # after the fixtures of the file
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Release memory after each file."""
    if nextitem is None or _file_of(item) != _file_of(nextitem):
        release_memory()


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _rank(item: pytest.Item) -> tuple[bool, ...]:
    """Sorts the slowest files first; `--no-loadscope-reorder` keeps this order among processes."""
    name = item.nodeid
    return (
        not name.startswith(_LONGEST),
        not name.startswith(JVM_FOLDERS),
        not _shares_a_jvm(name),
    )


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes a sentence about a measurement, for the summary at the end of the run."""
    return lambda sentence: request.node.user_properties.append((_REPORTED, sentence))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the measurements, how to repeat failures, and the size of the run."""
    if terminalreporter.config.option.collectonly:
        return
    reports = {
        outcome: terminalreporter.getreports(outcome)
        for outcome in ("passed", "failed", "error", "skipped")
    }
    for each in (*reports["passed"], *reports["failed"]):
        for name, sentence in each.user_properties:
            if name == _REPORTED:
                terminalreporter.write_line(sentence)
    failures = sorted({each.nodeid for each in (*reports["failed"], *reports["error"])})
    for name in failures:
        terminalreporter.write_line(
            f"To repeat: SEED={os.environ[SEED]} make test-one TEST='{name}'"
        )
    num_tests = len({each.nodeid for outcome in reports.values() for each in outcome})
    minutes, seconds = divmod(round(time.monotonic() - terminalreporter.config.stash[_STARTED]), 60)
    terminalreporter.write_line(
        f"{num_tests} tests in {minutes} min {seconds} s, seed {os.environ[SEED]}, "
        f"{len(reports['skipped'])} skipped"
    )
    reasons = Counter(str(each.longrepr[2]) for each in reports["skipped"])
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"  {count} skipped: {reason.removeprefix('Skipped: ')}")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from tests.support.servers.connectors import connectors_on_class_path

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("delta_ops tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "768m")
        # Spark keeps a thousand of each in memory for its UI, and no test opens the UI.
        .config("spark.ui.retainedJobs", "100")
        .config("spark.ui.retainedStages", "100")
        .config("spark.sql.ui.retainedExecutions", "20")
        .config("spark.executorEnv.PYTHONPATH", os.getcwd())
        .config(TIME_ZONE, "UTC")
    )
    with connectors_on_class_path():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def store_spark(spark: SparkSession) -> SparkSession:
    """The session, if it has Hadoop's connectors to the servers."""
    from tests.support.servers.connectors import NO_CONNECTORS, connector_jars

    if not connector_jars():
        pytest.skip(NO_CONNECTORS)
    return spark


@pytest.fixture
def in_new_york(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, in a time zone with daylight saving time."""
    spark.conf.set(TIME_ZONE, "America/New_York")
    yield spark
    spark.conf.set(TIME_ZONE, "UTC")
