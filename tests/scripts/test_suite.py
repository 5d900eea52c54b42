"""The comparison of test suites: mutants are real changes, and verdicts are the tests' results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.suite.kills import judge_all, read_verdicts
from scripts.suite.mutants import Mutant, choose_mutants, mutants_of
from scripts.suite.record import Record

PROJECT = Path(__file__).resolve().parents[2]
SOURCE = '''"""A module."""

LIMIT = 1


def choose(é: int, other: int | None = None) -> int:
    """Choose."""
    é_is_small = "é" and é < 3
    if not é_is_small:
        return é + 10
    return 5 if other is None else other


def unused() -> bool:
    return True
'''
TESTS = """from delta_ops.numbers import choose

def test_a_large_number():
    assert choose(4) == 14

def test_a_small_number_is_run_and_not_checked():
    choose(1)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A package with one module and its tests."""
    root = tmp_path / "checkout"
    for path, text in {
        "delta_ops/__init__.py": '"""A package."""\n',
        "delta_ops/numbers.py": SOURCE,
        "tests/test_numbers.py": TESTS,
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def test_a_mutant_changes_one_place_and_still_compiles(checkout: Path) -> None:
    file = checkout / "delta_ops" / "numbers.py"
    mutants = list(mutants_of(checkout, file))
    assert {mutant.old for mutant in mutants} >= {"é < 3", "not é_is_small", "é + 10", "True"}
    for mutant in mutants:
        assert mutant.apply(checkout) == SOURCE
        changed = file.read_text(encoding="utf-8")
        assert changed != SOURCE
        compile(changed, file, "exec")
        file.write_text(SOURCE, encoding="utf-8")


def test_a_file_that_has_changed_is_not_mutated(checkout: Path) -> None:
    mutant = Mutant(path="delta_ops/numbers.py", line=1, start=0, old="other", new="text")
    with pytest.raises(ValueError, match="has changed"):
        mutant.apply(checkout)


def test_a_seed_chooses_the_mutants(checkout: Path) -> None:
    def chosen(seed: int) -> list[Mutant]:
        return choose_mutants(checkout, ["delta_ops"], count=4, seed=seed)

    assert chosen(1) == chosen(1) != chosen(2)


@pytest.mark.full
def test_a_mutant_is_killed_where_a_test_checks_it(checkout: Path, tmp_path: Path) -> None:
    subprocess.run(
        [*(sys.executable, "-m", "scripts.suite", "record", str(checkout)), str(tmp_path / "r")],
        cwd=PROJECT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    record, results = Record(folder=tmp_path / "r"), tmp_path / "verdicts.jsonl"
    outcomes = record.outcomes()
    assert [outcome.passed for outcome in outcomes.values()] == [True, True]
    assert 50 < record.coverage(checkout) < 100
    mutants = {
        mutant.old: mutant
        for mutant in mutants_of(checkout, checkout / "delta_ops" / "numbers.py")
        if mutant.old in {"é + 10", "return 5 if other is None else other", "True"}
    }
    judge_all([*mutants.values()], checkout, record, outcomes, results, known={}, budget_seconds=60)
    verdicts = {verdict.mutant.old: verdict for verdict in read_verdicts(results)}
    assert verdicts["é + 10"].killer == "tests/test_numbers.py::test_a_large_number"
    assert {name: verdict.status for name, verdict in verdicts.items()} == {
        "é + 10": "killed",
        "return 5 if other is None else other": "survived",
        "True": "uncovered",
    }
    assert (checkout / "delta_ops" / "numbers.py").read_text(encoding="utf-8") == SOURCE


def test_processor_time_is_summed_by_folder_with_that_of_other_processes(tmp_path: Path) -> None:
    (tmp_path / "test_work.py").write_text(
        "import subprocess, sys\n"
        "LOOP = 'sum(range(20_000_000))'\n"
        "def test_here():\n    eval(LOOP)\n"
        "def test_elsewhere():\n    subprocess.run([sys.executable, '-c', LOOP], check=True)\n"
    )
    options = ["-q", "-p", "scripts.suite.cpu_times", "--rootdir", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_work.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        check=True,
        capture_output=True,
        text=True,
    )
    (line,) = [each for each in ran.stdout.splitlines() if "in other processes" in each]
    found = re.fullmatch(r" *([0-9.]+) s, +([0-9.]+) s in other processes, +2 tests: \.", line)
    assert found is not None, line
    assert float(found[1]) > float(found[2]) > 0
