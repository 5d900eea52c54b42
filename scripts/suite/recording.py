"""A pytest plugin: records which lines each test runs, and how each test ended.

`python -m scripts.suite record` starts it. Coverage is already on in every process of the run, by
`COVERAGE_PROCESS_START`; the plugin names the test whose lines are measured. Processes that a test
starts inherit the name through the environment.

With `SUITE_ONLY`, a file of node ids, only these tests run, in the order of the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

TEST, OUTCOMES, ONLY = "SUITE_TEST", "SUITE_OUTCOMES", "SUITE_ONLY"
_TIER = "tier"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure the lines of a test under its name."""
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(item.nodeid)
    os.environ[TEST] = item.nodeid
    tier = next((name for name in ("long", "full") if item.get_closest_marker(name)), "test")
    item.user_properties.append((_TIER, tier))
    try:
        return (yield)
    finally:
        del os.environ[TEST]
        if measured is not None:
            measured.switch_context("")


def pytest_configure(config: pytest.Config) -> None:
    """Let one process write the outcomes: not the workers of xdist, which send theirs to it."""
    if OUTCOMES in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_OutcomesFile(Path(os.environ[OUTCOMES])))


class _OutcomesFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a line for each step of a test: node id, step, outcome, seconds, tier."""
        tier = dict(report.user_properties).get(_TIER, "test")
        line = [report.nodeid, report.when, report.outcome, round(report.duration, 4), tier]
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that `SUITE_ONLY` names, in its order."""
    if ONLY in os.environ:
        names = Path(os.environ[ONLY]).read_text(encoding="utf-8").splitlines()
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in names if name in by_name]
