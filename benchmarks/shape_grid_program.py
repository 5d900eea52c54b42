"""Run every operation of one engine on copies of a table; prints a JSON line for each.

    python -m benchmarks.shape_grid_program delta_ops|deltalake GIVEN.json

A line has the name of the operation, its seconds, and its seconds of CPU; or null twice if the
engine cannot do it. Each operation first runs on a tiny table: imports do not count. A short
operation is repeated, and its figures are medians.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa


class Given(NamedTuple):
    """A table, and what the operations use."""

    base: str
    """The table; it stays unchanged."""
    rows: str
    """Arrow stream of the rows that are appended."""
    source: str
    """Arrow stream of the source of the merge."""
    column: str
    """The column that is read alone."""
    key: int
    """The `id` that is looked up."""


class Work(NamedTuple):
    """The arguments of an operation."""

    table: str
    rows: pa.Table
    source: pa.Table
    column: str
    key: int


Operations = Mapping[str, Callable[[Work], object]]
MOST_RUNS, SHORT_S = 7, 0.1
"""An operation that takes less CPU is repeated."""


def main() -> None:
    side, place = sys.argv[1:]
    tiny, given = (Given(**each) for each in json.loads(Path(place).read_text()))
    operations = ours() if side == "delta_ops" else peers()
    copy = Path(place).with_suffix(f".{side}")
    possible = {
        name: operate
        for name, operate in operations.items()
        if runs(operate, tiny, copy, f"{side}: {name}")
    }
    for name in operations:
        found = runs(possible[name], given, copy, f"{side}: {name}") if name in possible else []
        medians = map(statistics.median, zip(*found, strict=True)) if found else (None, None)
        print(json.dumps([name, *medians]), flush=True)
    shutil.rmtree(copy, ignore_errors=True)


def runs(
    operate: Callable[[Work], object], given: Given, copy: Path, name: str
) -> list[tuple[float, float]]:
    """Return the seconds and the seconds of CPU of each run; nothing if it fails."""
    rows, source = read(given.rows), read(given.source)
    work = Work(str(copy), rows, source, given.column, given.key)
    found: list[tuple[float, float]] = []
    while len(found) < MOST_RUNS and sum(cpu_s for _, cpu_s in found) < SHORT_S:
        shutil.rmtree(copy, ignore_errors=True)
        # No engine writes into an existing file.
        shutil.copytree(given.base, copy, copy_function=os.link)
        began, cpu = time.perf_counter(), time.process_time()
        try:
            operate(work)
        except Exception as error:
            print(f"{name}: {str(error)[:200]}", file=sys.stderr)
            return []
        found.append((time.perf_counter() - began, time.process_time() - cpu))
    return found


def read(place: str) -> pa.Table:
    with pa.OSFile(place) as file:
        return pa.ipc.open_stream(file).read_all()


def ours() -> Operations:
    import delta_ops.arrow as da
    from delta_ops import DeltaLog, col, parse_expression
    from delta_ops.maintenance import optimize, vacuum

    for name in da.__all__:
        getattr(da, name)  # imports, which are not the work
    columns = ("path", "size", "partition_values")
    changed = {"x": parse_expression("x * 2")}

    def merge(work: Work) -> None:
        merge = da.merge(work.table, work.source, "target.id = source.id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return {
        "open": lambda work: DeltaLog(work.table).snapshot().version,
        "plan": lambda work: DeltaLog(work.table).snapshot().files(columns),
        "read": lambda work: da.to_table(work.table),
        "column": lambda work: da.to_table(work.table, columns=[work.column]),
        "filter": lambda work: da.to_table(work.table, predicate=col("id") == work.key),
        "append": lambda work: da.write(work.table, work.rows),
        "overwrite": lambda work: da.write(work.table, work.rows, "overwrite"),
        "delete": lambda work: da.delete(work.table, col("k") == 7),
        "update": lambda work: da.update(work.table, changed, col("k") == 7),
        "merge": merge,
        "optimize": lambda work: optimize(work.table),
        "vacuum": lambda work: vacuum(work.table, dry_run=True),
        "history": lambda work: list(DeltaLog(work.table).history()),
        "changes": lambda work: da.read_changes(work.table, 0).read_all(),
    }


def peers() -> Operations:
    from deltalake import DeltaTable, QueryBuilder, write_deltalake

    def read_all(work: Work, columns: list[str] | None = None, **filters: Any) -> object:
        table = DeltaTable(work.table)
        if "deletionVectors" not in (table.protocol().reader_features or ()):
            return table.to_pyarrow_table(columns=columns, **filters)
        where = f" where id = {work.key}" if filters else ""
        query = f"select {', '.join(columns or ['*'])} from t{where}"
        return pa.table(QueryBuilder().register("t", table).execute(query))

    def merge(work: Work) -> None:
        merge = DeltaTable(work.table).merge(
            work.source, "t.id = s.id", source_alias="s", target_alias="t"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return {
        "open": lambda work: DeltaTable(work.table).version(),
        "plan": lambda work: DeltaTable(work.table).get_add_actions(),
        "read": read_all,
        "column": lambda work: read_all(work, [work.column]),
        "filter": lambda work: read_all(work, filters=[("id", "=", work.key)]),
        "append": lambda work: write_deltalake(work.table, work.rows, mode="append"),
        "overwrite": lambda work: write_deltalake(work.table, work.rows, mode="overwrite"),
        "delete": lambda work: DeltaTable(work.table).delete("k = 7"),
        "update": lambda work: DeltaTable(work.table).update({"x": "x * 2"}, predicate="k = 7"),
        "merge": merge,
        "optimize": lambda work: DeltaTable(work.table).optimize.compact(),
        "vacuum": lambda work: DeltaTable(work.table).vacuum(dry_run=True),
        "history": lambda work: DeltaTable(work.table).history(),
        "changes": lambda work: pa.table(DeltaTable(work.table).load_cdf(starting_version=0)),
    }


if __name__ == "__main__":
    main()
