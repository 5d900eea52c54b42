"""Selection of a run: the shards cover everything, and a seed fixes the random tests."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.tiers import Shard, choose_cases, parse_seed, parse_shard, seeded

PROJECT = Path(__file__).resolve().parents[1]
FILES = [f"tests/test_{number:02}.py" for number in range(11)]


@pytest.mark.parametrize("count", [1, 2, 4, 11, 12])
def test_the_shards_hold_each_file_once(count: int) -> None:
    shards = [Shard(number=number, count=count) for number in range(1, count + 1)]
    parts = [[file for file in FILES if shard.has(file, FILES)] for shard in shards]
    assert sorted(file for part in parts for file in part) == FILES


@pytest.mark.full
def test_the_shards_of_a_collection_hold_each_test_once() -> None:
    whole = collected_tests("")
    parts = [collected_tests(f"{number}/2") for number in (1, 2)]
    assert whole
    assert all(parts)
    assert sorted(name for part in parts for name in part) == whole


def test_cases_are_spread_over_one_list() -> None:
    cases = [{"value": position} for position in range(30)]
    assert choose_cases(cases, 3) == {0, 10, 20}
    assert choose_cases(cases[:2], 3) == {0, 1}


def test_cases_have_each_value_of_every_list_if_there_is_room() -> None:
    cases = [
        {"engine": engine, "store": store, "value": value}
        for value in range(3)
        for store in range(4)
        for engine in range(2)
    ]
    chosen = [cases[position] for position in choose_cases(cases, 4)]
    assert len(chosen) == 4
    for name, count in {"engine": 2, "store": 4, "value": 3}.items():
        assert {case[name] for case in chosen} == set(range(count))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("value", [0, 1, 2])
def test_other_cases_are_full(value: int, request: pytest.FixtureRequest) -> None:
    is_full = request.node.get_closest_marker("full") is not None
    assert is_full == (value == 2)


def test_each_test_file_has_a_name_of_its_own() -> None:
    """Otherwise a run of several folders cannot import the second file of a name."""
    names = [file.name for file in (PROJECT / "tests").rglob("test_*.py")]
    assert [name for name, number in Counter(names).items() if number > 1] == []


def collected_tests(shard: str) -> list[str]:
    """Tests of one folder in a tier, collected by a separate process."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-m",
            "not long",
            "tests/planning",
            *([f"--shard={shard}"] if shard else []),
        ],
        cwd=PROJECT,
        env={"PATH": "", "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(line for line in done.stdout.splitlines() if "::" in line)


@pytest.mark.parametrize("text", ["0/4", "5/4", "4", "1/", "/4", "a/b", "-1/4", "1/4/2"])
def test_a_shard_that_does_not_exist_is_an_error(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="Give K/N"):
        parse_shard(text)


def test_a_seed_is_a_number_or_random() -> None:
    assert parse_seed("17") == 17
    assert parse_seed("random") != parse_seed("random")
    with pytest.raises(pytest.UsageError, match="whole number"):
        parse_seed("soon")


def test_a_seed_decides_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = {}
    for seed in ("0", "5", "6"):
        monkeypatch.setenv("SEED", seed)
        drawn[seed] = [seeded(case).random() for case in range(3)]
        assert [seeded(case).random() for case in range(3)] == drawn[seed]
    assert len({value for values in drawn.values() for value in values}) == 9
