"""Compare the test suites of two checkouts with the same `delta_ops`.

    python -m scripts.suite record CHECKOUT RECORD -- -n 3 -m 'not long'
    python -m scripts.suite choose CHECKOUT --count 120 --seed 1 > mutants.json
    python -m scripts.suite kill CHECKOUT RECORD mutants.json VERDICTS [--tier test] [--known OLD]
    python -m scripts.suite report CHECKOUT RECORD [VERDICTS ...]

Record the old suite, choose mutants and judge them; then do the same with the new suite and the
same mutants, and compare the two reports. `kill` changes files of its checkout while it runs, so
give it a clone of its own. Several may run at once, each with a clone and `--part 1/2`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from scripts.suite.kills import judge_all, read_verdicts
from scripts.suite.mutants import Mutant, choose_mutants
from scripts.suite.record import Outcome, Record, record_suite

FOLDERS = [
    f"delta_ops/{name}"
    for name in (
        *("log", "transaction", "maintenance", "arrow", "planning", "protocol", "orchestration"),
    )
]
TIERS = {"test": ("test",), "test-all": ("test", "full"), "all": ("test", "full", "long")}


def main() -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)

    record = commands.add_parser("record", help="run a suite and record it")
    record.add_argument("checkout", type=Path)
    record.add_argument("record", type=Path)
    record.add_argument("options", nargs="*", help="options of pytest, after --")

    choose = commands.add_parser("choose", help="print random mutants as JSON")
    choose.add_argument("checkout", type=Path)
    choose.add_argument("--count", type=int, default=120)
    choose.add_argument("--seed", type=int, default=1)

    kill = commands.add_parser("kill", help="run the tests that cover each mutant until one fails")
    kill.add_argument("checkout", type=Path)
    kill.add_argument("record", type=Path)
    kill.add_argument("mutants", type=Path)
    kill.add_argument("verdicts", type=Path)
    kill.add_argument("--tier", choices=TIERS, default="all")
    kill.add_argument("--known", type=Path, help="verdicts whose killers are tried first")
    kill.add_argument("--part", default="1/1", help="judge every N-th mutant: 1/2, 2/2")
    kill.add_argument("--budget-seconds", type=float, default=600)

    report = commands.add_parser("report", help="print coverage and the verdicts by status")
    report.add_argument("checkout", type=Path)
    report.add_argument("record", type=Path)
    report.add_argument("verdicts", type=Path, nargs="*")

    arguments = parser.parse_args()
    match arguments.command:
        case "record":
            return record_suite(
                arguments.checkout.resolve(), arguments.record.resolve(), arguments.options
            )
        case "choose":
            chosen = choose_mutants(
                arguments.checkout, FOLDERS, count=arguments.count, seed=arguments.seed
            )
            json.dump([asdict(mutant) for mutant in chosen], sys.stdout, indent=1)
        case "kill":
            _kill(arguments)
        case "report":
            _report(
                arguments.checkout.resolve(), Record(folder=arguments.record), arguments.verdicts
            )
    return 0


def _kill(arguments: argparse.Namespace) -> None:
    record = Record(folder=arguments.record)
    mutants = [Mutant(**each) for each in json.loads(arguments.mutants.read_text(encoding="utf-8"))]
    number, count = map(int, arguments.part.split("/"))
    known = read_verdicts(arguments.known) if arguments.known else []
    judge_all(
        mutants[number - 1 :: count],
        arguments.checkout.resolve(),
        record,
        _outcomes_of_tier(record.outcomes(), arguments.tier),
        arguments.verdicts,
        known={each.mutant: each.killer for each in known if each.killer},
        budget_seconds=arguments.budget_seconds,
    )


def _outcomes_of_tier(outcomes: dict[str, Outcome], tier: str) -> dict[str, Outcome]:
    return {name: each for name, each in outcomes.items() if each.tier in TIERS[tier]}


def _report(checkout: Path, record: Record, verdicts: list[Path]) -> None:
    outcomes = record.outcomes()
    for tier in TIERS:
        chosen = _outcomes_of_tier(outcomes, tier)
        failed = sum(not each.passed for each in chosen.values())
        print(
            f"{tier}: {len(chosen)} tests, {sum(each.seconds for each in chosen.values()):.0f} s, "
            f"{failed} failed or skipped, coverage {record.coverage(checkout, {*chosen}):.2f} %"
        )
    for path in verdicts:
        statuses = Counter(verdict.status for verdict in read_verdicts(path))
        print(f"{path.name}: {dict(statuses)}")


if __name__ == "__main__":
    sys.exit(main())
