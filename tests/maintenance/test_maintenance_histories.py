"""Random histories of writes and maintenance, against a model of the promised versions."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops import col
from delta_ops.clock import DAY_MS
from delta_ops.maintenance import clean_up_log, create_checkpoint, optimize, vacuum
from tests.maintenance.aged_tables import Table
from tests.support.tables import live_paths, rows_by_deltalake

WEEK = 7 * DAY_MS
MONTH = 30 * DAY_MS

STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from("ab")),
    st.tuples(st.just("overwrite"), st.sampled_from("ab")),
    st.tuples(st.just("replace"), st.sampled_from("ab")),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 3, 7, 31])),
    st.tuples(st.just("orphan"), st.sampled_from(["x.parquet", "p=a/y.parquet", "_z/z.parquet"])),
    st.tuples(st.sampled_from(["optimize", "checkpoint", "vacuum", "clean up"]), st.none()),
)


class History:
    """A table, the rows of each version, and the time when each version was superseded."""

    def __init__(self, root: Path, interval: int) -> None:
        self.table = Table(root)
        self.rows: dict[int, list[dict[str, Any]]] = {}
        self.superseded_ms: dict[int, int] = {}
        self.vacuumed_ms = 0
        self.cleaned_ms = 0
        self.number = 0
        self.configuration = {"delta.checkpointInterval": str(interval)}
        self.write("a")

    def write(self, partition: str, **options: Any) -> None:
        self.number += 1
        self.table.write(
            [self.number],
            partition,
            partition_by=["p"],
            configuration=self.configuration,
            **options,
        )
        self.record()

    def record(self) -> None:
        """Record the version of the last commit, if there is a new version."""
        version = self.table.log.snapshot().version
        if version not in self.rows:
            self.rows[version] = self.table.rows()
            self.superseded_ms[version - 1] = self.table.now_ms

    def record_all(self) -> None:
        """Record the versions of a vacuum's own commits, which change no row."""
        for version in range(max(self.rows) + 1, self.table.log.snapshot().version + 1):
            self.rows[version] = self.rows[version - 1]
            self.superseded_ms[version - 1] = self.table.now_ms

    def step(self, name: str, argument: Any) -> None:
        table = self.table
        table.pass_time(ms=60_000)
        match name:
            case "append":
                self.write(argument)
            case "overwrite":
                self.write(argument, mode="overwrite")
            case "replace":
                self.write(argument, mode="overwrite", replace_where=col("p") == argument)
            case "wait":
                table.pass_time(days=argument)
            case "orphan":
                table.put(argument)
            case "optimize":
                before = table.rows()
                optimize(table.log, clock=table.clock)
                assert table.rows() == before
                self.record()
            case "checkpoint":
                create_checkpoint(table.log, clock=table.clock)
            case "vacuum":
                vacuum(table.log, clock=table.clock)
                self.vacuumed_ms = table.now_ms
                self.record_all()
            case "clean up":
                clean_up_log(table.log, clock=table.clock)
                self.cleaned_ms = table.now_ms
        table.date()

    def must_be_readable(self, version: int) -> bool:
        """Whether no vacuum and no clean-up was allowed to touch the version."""
        until_ms = self.superseded_ms.get(version)
        if until_ms is None:
            return True
        cutoff_ms = (self.cleaned_ms - MONTH) // DAY_MS * DAY_MS
        return until_ms >= self.vacuumed_ms - WEEK and until_ms > cutoff_ms


@settings(max_examples=6, deadline=None)
@given(steps=st.lists(STEPS, max_size=12), interval=st.sampled_from([1, 3, 100]))
def test_no_needed_file_is_ever_deleted(steps: list[tuple[str, Any]], interval: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        history = History(Path(directory) / "t", interval)
        for name, argument in steps:
            history.step(name, argument)
            assert live_paths(history.table.log) <= history.table.data_files()
        for version, rows in history.rows.items():
            if history.must_be_readable(version):
                assert history.table.rows(version) == rows, version
        assert rows_by_deltalake(history.table.root) == history.table.rows()
        history.table.pass_time(days=40)
        history.step("vacuum", None)
        assert history.table.data_files() - {"_z/z.parquet"} == live_paths(history.table.log)
