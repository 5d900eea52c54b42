"""The gain of each optimisation that costs clarity: the same call with it and without it.

    python benchmarks/optimisations.py [--rounds 5] [--engine arrow|spark] [--only TEXT]
        [--folder DIR] [--json]

Without it, one function is replaced by the plain way. Rounds alternate between both; the first
round warms up and does not count. Figures are medians. `docs/decisions/076` has a verdict for each.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.compute as pc

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.dml import delete as arrow_delete
from delta_ops.arrow.read import file_rows
from delta_ops.arrow.read.scan import plan_reading_kept

VECTORS = {"delta.enableDeletionVectors": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call, and the replacement that disables the optimisation."""

    name: str
    call: Callable[[], object]
    prepare: Callable[[], object] = lambda: None
    """Called before each call, outside the measured time."""
    replaced: object
    """A module."""
    attribute: str
    by: object


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", choices=("arrow", "spark"), help="both if not given")
    parser.add_argument("--only", default="", help="the cases that have this text in their names")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report = measure(Path(folder), arguments.rounds, arguments.engine, arguments.only)
    print(json.dumps(report, indent=2) if arguments.json else render_markdown(report))


def measure(
    folder: Path, rounds: int, engine: str | None, only: str
) -> dict[str, tuple[float, float]]:
    makers = {"arrow": arrow_cases, "spark": spark_cases}
    return {
        case.name: measure_case(case, rounds)
        for name, cases_in in makers.items()
        if engine in (None, name)
        for case in cases_in(folder)
        if only in case.name
    }


def measure_case(case: Case, rounds: int) -> tuple[float, float]:
    """Median seconds with the optimisation and without it."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds + 1):
        for is_with in (True, False) if number % 2 else (False, True):
            case.prepare()
            with ExitStack() as stack:
                if not is_with:
                    stack.enter_context(patch.object(case.replaced, case.attribute, case.by))
                started = time.monotonic()
                case.call()
                took = time.monotonic() - started
            if number:
                seconds[is_with].append(took)
    return statistics.median(seconds[True]), statistics.median(seconds[False])


def import_program() -> str:
    return "from delta_ops.arrow import *"


def arrow_cases(folder: Path) -> Iterator[Case]:
    yield Case(
        name="import delta_ops.arrow: without datasets (pyarrow._acero for pyarrow.acero)",
        call=lambda: subprocess.run([sys.executable, "-c", import_program()], check=True),
        replaced=sys.modules[__name__],
        attribute="import_program",
        by=lambda: "from delta_ops.arrow import *; import pyarrow.acero",
    )
    many, work = folder / "many", folder / "work"
    fill(many)

    def renew() -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(many, work)

    def delete_some() -> None:
        da.delete(work, "v = 7")

    def read_plainly(snapshot: Any, *args: Any, encoded: Any = (), **options: Any) -> Any:  # noqa: ARG001
        return plan_reading_kept(snapshot, *args, **options)

    by_number: dict[str, Any] = {
        "replaced": file_rows,
        "attribute": "repeated_texts",
        "by": lambda *_: [],
    }
    yield Case(
        name="read: texts by their numbers (dictionary_pages)",
        call=lambda: da.to_table(many),
        **by_number,
    )
    yield Case(
        name="delete by copy: texts by their numbers (dictionary_pages)",
        call=delete_some,
        prepare=renew,
        **by_number,
    )
    yield Case(
        name="delete by copy: strings that stay encoded (dictionary_columns)",
        call=delete_some,
        prepare=renew,
        replaced=arrow_delete,
        attribute="plan_reading_kept",
        by=read_plainly,
    )
    yield Case(
        name="read: memory from jemalloc (memory_pools)",
        call=lambda: da.to_table(many),
        replaced=file_rows,
        attribute="fast_pool",
        by=lambda: None,
    )


def fill(root: Path) -> None:
    """Twenty files of 100,000 rows with numbers and repeated texts."""
    for number in range(20):
        ids = pa.array(range(number * 100_000, (number + 1) * 100_000), pa.int64())
        v = pc.bit_wise_and(ids, 1023)
        rows = {"id": ids, "v": v, "x": pc.sqrt(ids)}
        for name in ("s", "t"):
            rows[name] = pc.binary_join_element_wise(f"text {name}", v.cast(pa.string()), " ")
        da.write(root, pa.table(rows))


def spark_cases(folder: Path) -> Iterator[Case]:
    import delta_ops.spark as ds
    from benchmarks.spark_beside_delta_program import session
    from delta_ops.spark.dml import merge as merge_module
    from delta_ops.spark.read import file_index, live_rows
    from delta_ops.spark.read.file_index import IndexUnavailableError
    from delta_ops.spark.read.live_rows import FilterUnavailableError
    from delta_ops.spark.session import call_sites
    from delta_ops.spark.write import data_files
    from delta_ops.spark.write.commit_protocol import ProtocolUnavailableError

    spark = session("delta_ops", "")
    tables, work = folder / "numbered", folder / "spark"
    base = spark.range(0, 2_000_000, 1, 20).selectExpr(
        "id", "id % 1000 AS v", "concat('text ', id % 1000) AS s"
    )
    ds.write(base, str(tables))
    small_files = folder / "small files"
    ds.write(spark.range(0, 100_000, 1, 1000).selectExpr("id", "id AS v"), str(small_files))
    deleted = folder / "deleted"
    ds.write(base, str(deleted), configuration=VECTORS)
    ds.delete(spark, str(deleted), "id % 100 = 7")
    source = spark.range(0, 22_000).selectExpr(
        "CASE WHEN id < 20000 THEN id * 5 ELSE id + 2000000 END AS id",
        "id % 7 AS v",
        "concat('new ', id) AS s",
    )
    source = source.cache()
    source.count()

    def renew() -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(tables, work)

    def upsert() -> None:
        builder = ds.merge(str(work), source, "target.id = source.id")
        builder.when_matched_update_all().when_not_matched_insert_all().execute()

    def scan(table: Path) -> object:
        return ds.read(spark, DeltaLog(table).snapshot()).selectExpr("sum(v)").collect()

    def append() -> object:
        shutil.rmtree(work, ignore_errors=True)
        return ds.write(base, str(work))

    merged: dict[str, Any] = {"call": upsert, "prepare": renew}
    yield Case(
        name="upsert of 5% of the files: in one pass (merge_in_one_pass, find_likely_ranges)",
        replaced=merge_module,
        attribute="merge_in_one_pass",
        by=lambda *_: None,
        **merged,
    )
    yield Case(
        name="upsert of 5% of the files: no call sites (call_sites)",
        replaced=call_sites,
        attribute="REMEMBERED",
        by="a name that PySpark does not have",
        **merged,
    )
    yield Case(
        name="read of 1,000 small files by Spark: files of the log (file_index)",
        call=partial(scan, small_files),
        replaced=file_index,
        attribute="relation",
        by=raising(IndexUnavailableError),
    )
    yield Case(
        name="read by Spark: vectors in generated code (live_rows)",
        call=partial(scan, deleted),
        replaced=live_rows,
        attribute="is_named",
        by=raising(FilterUnavailableError),
    )
    yield Case(
        name="append by Spark: final names in tasks (commit_protocol)",
        call=append,
        replaced=data_files,
        attribute="write_parquet",
        by=raising(ProtocolUnavailableError),
    )
    spark.stop()


def raising(error: type[Exception]) -> Callable[..., object]:
    def unavailable(*_args: object, **_options: object) -> object:
        raise error("left out to measure the time without it")

    return unavailable


def render_markdown(report: dict[str, tuple[float, float]]) -> str:
    lines = ["| | with it, s | without, s | ratio |", "|---|---|---|---|"]
    for name, (used, left_out) in report.items():
        lines.append(f"| {name} | {used:.2f} | {left_out:.2f} | {used / left_out:.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
