"""Plugin of pytest that sums the processor time of tests by folder.

    PYTEST_ADDOPTS='-p scripts.suite.cpu_times' make test

The time of a test includes its fixtures and all processes that it or its session has started. On
busy cores it says more than the clock does.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

_CPU_S = "cpu_s"
_BEGUN = pytest.StashKey[tuple[float, float]]()
_TICKS = os.sysconf("SC_CLK_TCK")
_NUM_SLOWEST = 30


def read_cpu_s() -> tuple[float, float]:
    """Seconds of processor time of this process, and of all processes below it, ended or not."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system + _live_s()


def _live_s() -> float:
    """Seconds of the processes below this one that have not ended, with their ended children."""
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                # The name of the program, in parentheses, may have blanks.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            seconds[int(folder.name)] = sum(map(int, fields[11:15])) / _TICKS
            children[int(fields[1])].append(int(folder.name))
    total, todo = 0.0, list(children[os.getpid()])
    while todo:
        process = todo.pop()
        total += seconds[process]
        todo += children[process]
    return total


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the time before the fixtures."""
    item.stash[_BEGUN] = read_cpu_s()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Report the time after the fixtures have ended."""
    try:
        yield
    finally:
        (own_s, others_s), begun = read_cpu_s(), item.stash[_BEGUN]
        item.user_properties.append((_CPU_S, [own_s - begun[0], others_s - begun[1]]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the sums by folder, and the slowest functions."""
    by_folder: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    by_function: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "teardown":
                continue
            own_s, others_s = dict(report.user_properties)[_CPU_S]
            file, _, name = report.nodeid.partition("::")
            sums = by_folder[str(Path(file).parent)]
            sums[0], sums[1], sums[2] = sums[0] + 1, sums[1] + own_s, sums[2] + others_s
            by_function[f"{file}::{name.partition('[')[0]}"] += own_s + others_s
    terminalreporter.section("processor time")
    for folder, (num_tests, own_s, others_s) in sorted(
        by_folder.items(), key=lambda each: -sum(each[1][1:])
    ):
        terminalreporter.write_line(
            f"{own_s + others_s:8.1f} s, {others_s:8.1f} s in other processes, "
            f"{num_tests:6.0f} tests: {folder}"
        )
    slowest = sorted(by_function.items(), key=lambda each: -each[1])[:_NUM_SLOWEST]
    for function, seconds in slowest:
        terminalreporter.write_line(f"{seconds:8.1f} s: {function}")
