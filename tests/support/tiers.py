"""Shards, cases and seeds: the tests of a run, and the values of its random tests.

They do not depend on the date, on the machine or on chance, except `SEED=random`.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

SEED, DEFAULT_SEED = "SEED", "0"
JVM_FOLDERS = tuple(f"tests/{name}/" for name in ("examples", "interop", "peers", "spark"))
"""Folders whose tests share a JVM, because it starts slowly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of `count` parts of the test files."""

    number: int
    """From 1 to `count`."""
    count: int

    def has(self, file: str, files: Sequence[str]) -> bool:
        """Whether this shard runs a file.

        Args:
            file: A member of `files`.
            files: All test files of the run, sorted. Neighbours go to different shards, because
                the files of one folder take about the same time.
        """
        return files.index(file) % self.count == self.number - 1


def parse_shard(text: str) -> Shard:
    """Parse `2/4`, the second of four shards.

    Raises:
        pytest.UsageError: The text is not `K/N` with 1 <= K <= N.
    """
    number, slash, count = text.partition("/")
    if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return Shard(number=int(number), count=int(count))
    raise pytest.UsageError(f"SHARD={text} is not a shard. Give K/N with 1 <= K <= N: SHARD=2/4")


def choose_cases(cases: Sequence[Mapping[str, int]], count: int) -> set[int]:
    """Choose cases of a parametrized test that have as many different parameters as they can.

    Args:
        cases: The parameters of each case: their names, and a number for each of their values.
        count: How many cases to choose.

    Returns:
        Positions in `cases`: spread evenly, with as many values of each name as `count` allows.
    """
    positions = range(len(cases))
    spread = [number * len(cases) // count for number in range(min(count, len(cases)))]
    by_preference = sorted(positions, key=lambda position: (position not in spread, position))
    chosen: set[int] = set()
    seen: set[tuple[str, int]] = set()
    while len(chosen) < min(count, len(cases)):
        best = max(
            (position for position in by_preference if position not in chosen),
            key=lambda position: len(cases[position].items() - seen),
        )
        chosen.add(best)
        seen |= cases[best].items()
    return chosen


def parse_seed(text: str) -> int:
    """Parse the seed of a run: a whole number, or `random` for a new seed.

    Raises:
        pytest.UsageError: The text is not a seed.
    """
    if text == "random":
        return secrets.randbelow(2**31)
    if text.isdecimal():
        return int(text)
    raise pytest.UsageError(f"SEED={text} is not a seed. Give a whole number, or SEED=random")


def seeded(number: int) -> random.Random:
    """Random numbers of one test case, by the seed of the run.

    Args:
        number: Distinguishes the cases of a run. The same number and seed give the same values.
    """
    seed = os.environ.get(SEED, DEFAULT_SEED)  # test subprocesses inherit the environment, too
    return random.Random(number if seed == DEFAULT_SEED else f"{seed}/{number}")
