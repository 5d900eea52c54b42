"""Which mutants a suite kills: for each mutant, its covering tests run until one fails."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.suite.mutants import Mutant
from scripts.suite.record import Outcome, Record, suite_environment
from scripts.suite.recording import ONLY, OUTCOMES
from tests.support.tiers import JVM_FOLDERS

BATCH = 60
"""Tests of one run of pytest; the first failure ends it."""
_START_SECONDS = 90.0
"""Allowed for pytest to start and to import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a mutant."""

    mutant: Mutant
    status: str
    """`killed`, `survived` (all tests ran), `unknown` (out of time) or `uncovered`."""
    killer: str | None = None
    """Node id of the failed test, or of the first test of a batch that did not end."""
    num_tests: int = 0
    """Number of tests that cover the line."""


def judge(
    mutant: Mutant,
    covering: Collection[str],
    checkout: Path,
    outcomes: Mapping[str, Outcome],
    *,
    first: Sequence[str] = (),
    budget_seconds: float,
) -> Verdict:
    """Run the tests that cover a mutant, fastest first, until one fails.

    Args:
        mutant: Applied to the checkout, and taken back at the end.
        covering: Node ids of the tests that run its line.
        checkout: A checkout that nothing else uses.
        outcomes: Outcomes of the tests that may run. A test that failed there never runs.
        first: Node ids to try before all others, such as known killers.
        budget_seconds: Recorded time of the tests to run at most. Then the verdict is unknown.
    """
    usable = [name for name in covering if name in outcomes and outcomes[name].passed]
    if not usable:
        return Verdict(mutant=mutant, status="uncovered")
    usable.sort(
        key=lambda name: (name not in first, name.startswith(JVM_FOLDERS), outcomes[name].seconds)
    )
    original = mutant.apply(checkout)
    spent = 0.0
    try:
        for begin in range(0, len(usable), BATCH):
            batch = usable[begin : begin + BATCH]
            seconds = sum(outcomes[name].seconds for name in batch)
            if begin and spent + seconds > budget_seconds:
                return Verdict(mutant=mutant, status="unknown", num_tests=len(usable))
            spent += seconds
            if killer := _first_failure(checkout, batch, _START_SECONDS + 10 * seconds):
                return Verdict(mutant=mutant, status="killed", killer=killer, num_tests=len(usable))
    finally:
        (checkout / mutant.path).write_text(original, encoding="utf-8")
    return Verdict(mutant=mutant, status="survived", num_tests=len(usable))


def _first_failure(checkout: Path, names: Sequence[str], timeout: float) -> str | None:
    """The first test that fails, or that does not end in time."""
    with tempfile.TemporaryDirectory() as folder:
        only, outcomes = Path(folder) / "only.txt", Path(folder) / "outcomes.jsonl"
        only.write_text("\n".join(names), encoding="utf-8")
        files = dict.fromkeys(name.partition("::")[0] for name in names)
        try:
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "scripts.suite.recording"),
                    *("-p", "no:cacheprovider", f"--basetemp={folder}/tests", *files),
                ],
                cwd=checkout,
                env={
                    **suite_environment(checkout),
                    ONLY: str(only),
                    OUTCOMES: str(outcomes),
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return names[0]
        if done.returncode == 0:
            return None
        lines = outcomes.read_text(encoding="utf-8").splitlines() if outcomes.exists() else []
        failed = [name for name, _, outcome, *_ in map(json.loads, lines) if outcome == "failed"]
        return failed[0] if failed else names[0]  # the mutant breaks the import


def judge_all(
    mutants: Sequence[Mutant],
    checkout: Path,
    record: Record,
    outcomes: Mapping[str, Outcome],
    results: Path,
    *,
    known: Mapping[Mutant, str],
    budget_seconds: float,
) -> None:
    """Judge mutants one after the other, and append each verdict to a file of JSON lines.

    Mutants in the file are skipped, so a stopped run continues.
    """
    done = {verdict.mutant for verdict in read_verdicts(results)}
    left = [mutant for mutant in mutants if mutant not in done]
    covering = record.tests_by_place((mutant.path, mutant.line) for mutant in left)
    for mutant in left:
        started = time.monotonic()
        verdict = judge(
            mutant,
            covering[mutant.path, mutant.line],
            checkout,
            outcomes,
            first=[known[mutant]] if mutant in known else [],
            budget_seconds=budget_seconds,
        )
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(verdict)) + "\n")
        took = time.monotonic() - started
        print(f"{verdict.status:9} {took:5.0f} s  {mutant}", flush=True)


def read_verdicts(results: Path) -> list[Verdict]:
    """The verdicts in a file of `judge_all`; empty without a file."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return [
        Verdict(**{**fields, "mutant": Mutant(**fields["mutant"])})
        for fields in map(json.loads, lines)
    ]
