"""A recorded run of a suite: the arcs that each test covered, and each test's outcome and time."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import coverage

from scripts.suite.recording import OUTCOMES, TEST

PACKAGE = "delta_ops"
_SETTINGS = """[run]
branch = true
parallel = true
source = {package}
data_file = {folder}/data/arcs
context = ${{{test}-}}
sigterm = true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one test ended."""

    passed: bool
    seconds: float
    """Set-up and tear-down included."""
    tier: str
    """`test`, `full` or `long`, by the marker of the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A folder that `record_suite` filled."""

    folder: Path

    def outcomes(self) -> dict[str, Outcome]:
        """Outcomes by node id."""
        seconds: dict[str, float] = defaultdict(float)
        failed: set[str] = set()
        tiers: dict[str, str] = {}
        with (self.folder / "outcomes.jsonl").open(encoding="utf-8") as file:
            for line in file:
                name, _, outcome, duration, tier = json.loads(line)
                seconds[name] += duration
                tiers[name] = tier
                if outcome != "passed":
                    failed.add(name)
        return {
            name: Outcome(passed=name not in failed, seconds=seconds[name], tier=tiers[name])
            for name in seconds
        }

    def _databases(self) -> Iterator[sqlite3.Connection]:
        for path in sorted((self.folder / "data").glob("arcs.*")):
            with contextlib.closing(
                sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            ) as connection:
                if _is_readable(connection):
                    yield connection

    def tests_by_place(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], set[str]]:
        """Names of the tests that run a line.

        Args:
            places: Paths relative to the checkout, and lines from 1.

        Returns:
            Node ids by place. Empty for a line that only imports run.
        """
        found: dict[tuple[str, int], set[str]] = {place: set() for place in places}
        for database in self._databases():
            files = {
                path[path.rindex(f"/{PACKAGE}/") + 1 :]: number
                for number, path in database.execute("select id, path from file")
            }
            for (path, line), names in found.items():
                if path in files:
                    rows = database.execute(
                        "select distinct context from arc join context on context.id = context_id"
                        " where file_id = ? and ? in (abs(fromno), tono)",
                        (files[path], line),
                    )
                    names.update(context.partition("|")[0] for (context,) in rows)
        return {place: names - {""} for place, names in found.items()}

    def coverage(self, checkout: Path, names: set[str] | None = None) -> float:
        """Share of lines and branches that tests cover, as `coverage report` counts it.

        Args:
            checkout: Root of the checkout whose files were measured.
            names: Node ids; all tests by default.
        """
        data = coverage.CoverageData(no_disk=True)
        for database in self._databases():
            contexts = [
                number
                for number, context in database.execute("select id, context from context")
                if names is None or context in names or context == ""
            ]
            database.execute("create temp table chosen (id integer primary key)")
            database.executemany("insert into chosen values (?)", [(each,) for each in contexts])
            rows = database.execute(
                "select distinct path, fromno, tono from arc join file on file.id = file_id"
                " where context_id in (select id from chosen)"
            )
            arcs: dict[str, set[tuple[int, int]]] = defaultdict(set)
            for path, start, end in rows:
                local = checkout / path[path.rindex(f"/{PACKAGE}/") + 1 :]
                arcs[str(local)].add((start, end))
            data.add_arcs(arcs)
        report = coverage.Coverage(data_file=None, branch=True, source=[str(checkout / PACKAGE)])
        report.get_data().update(data)
        with open(os.devnull, "w", encoding="utf-8") as nothing:
            return report.report(file=nothing)


def _is_readable(database: sqlite3.Connection) -> bool:
    """Whether a process wrote all of its file; one that was killed may not have."""
    try:
        database.execute("select * from arc, context, file limit 1").fetchall()
    except sqlite3.DatabaseError:
        return False
    return True


def record_suite(checkout: Path, folder: Path, options: Iterable[str]) -> int:
    """Run pytest in a checkout and record it.

    Args:
        checkout: Root of the checkout, which has its environment in `.venv` or uses this one.
        folder: Where the record goes; must not exist.
        options: Options of pytest.

    Returns:
        The exit code of pytest.
    """
    (folder / "data").mkdir(parents=True)
    settings = folder / "coveragerc"
    settings.write_text(
        _SETTINGS.format(package=checkout / PACKAGE, folder=folder, test=TEST), encoding="utf-8"
    )
    return subprocess.call(
        [sys.executable, "-m", "pytest", "-p", "scripts.suite.recording", *options],
        cwd=checkout,
        env={
            **suite_environment(checkout),
            # coverage installs a .pth file; through it each Python process reads this variable
            "COVERAGE_PROCESS_START": str(settings),
            OUTCOMES: str(folder / "outcomes.jsonl"),
        },
    )


def suite_environment(checkout: Path) -> Mapping[str, str]:
    """Variables of a run of pytest in a checkout, with the plugin of this checkout."""
    here = Path(__file__).resolve().parents[2]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(checkout), str(here)]),
        "PYSPARK_PYTHON": sys.executable,
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "DAGSTER_HOME": str(checkout / ".dagster"),
    }
