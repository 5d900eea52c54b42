"""Sentences of findings and of maintenance work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from delta_ops.clock import DAY_MS, HOUR_MS
from delta_ops.maintenance.thresholds import Finding, Measure
from delta_ops.orchestration.checks.check_results import finding_text
from delta_ops.orchestration.maintenance.work_text import done_text, planned_text

REWRITE = {
    "compacted_files": 36,
    "files_after_compaction": 1,
    "compacted_bytes": 55_128,
    "bytes_after_compaction": 2_235,
}


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param(
            {**REWRITE, "checkpoints_written": 1},
            "Compacted 36 files (53.8 KiB) into 1 (2.18 KiB) and wrote a checkpoint.",
            id="a rewrite and a checkpoint",
        ),
        pytest.param(
            {"vacuumed_files": 1, "vacuumed_bytes": 2048},
            "Vacuum deleted 1 file (2 KiB).",
            id="a vacuum",
        ),
        pytest.param(
            {"described_files": 3, "log_files_deleted": 2, "log_bytes_deleted": 10},
            "Added statistics to 3 files and deleted 2 log files (10 B).",
            id="a repair and a clean-up",
        ),
        pytest.param(
            {"log_versions_compacted": 12, "vacuumed_files": 0},
            "Log versions compacted: 12.",
            id="a figure without words of its own",
        ),
        pytest.param(
            {**REWRITE, "checkpoints_written": 1, "vacuum_failures": 2},
            "Compacted 36 files (53.8 KiB) into 1 (2.18 KiB), wrote a checkpoint and failed to "
            "read or delete 2 files.",
            id="failures",
        ),
    ],
)
def test_finished_work_is_a_sentence(figures: Mapping[str, int], text: str) -> None:
    assert done_text(figures) == text


def test_planned_work_is_a_sentence() -> None:
    planned = {
        "compaction_files_planned": 4,
        "compaction_bytes_planned": 2048,
        "checkpoints_planned": 1,
    }
    assert planned_text(planned) == "Dry run: would compact 4 files (2 KiB) and write a checkpoint."
    assert planned_text({}) == ""


VALUES: Mapping[str, tuple[Any, Any]] = {
    "deleted_rows": (0.25, 0.1),
    "partition_skew": (12.5, 10.0),
    "file_size_skew": (12.5, 10.0),
    "stats_coverage": (0.5, 0.95),
    "promised_time_travel": (36 * HOUR_MS, 7 * DAY_MS),
    "readable_time_travel": (2 * HOUR_MS, 7 * DAY_MS),
    "unreachable_files": (7 * DAY_MS, 30 * DAY_MS),
    "lost_commits": (("3", "4"), ()),
    "damaged_checkpoints": (("10",), ()),
    "features": (("fancy",), ()),
}


def text_of(measure: Measure) -> str:
    value, threshold = VALUES.get(measure, (36, 10))
    finding = Finding(
        measure=measure,
        value=value,
        threshold=threshold,
        unit="files",
        verdict="due",
        operation=None,
        advice="",
    )
    return finding_text(finding)


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        ("commits_since_checkpoint", "36 commits since the last checkpoint, limit 10"),
        ("small_files", "36 small files, limit 10"),
        ("lost_commits", "lost versions 3, 4"),
        ("damaged_checkpoints", "damaged checkpoint 10"),
        ("promised_time_travel", "time travel is promised for 1.5 days, required 7 days"),
    ],
)
def test_a_finding_is_a_figure_and_its_limit(measure: Measure, text: str) -> None:
    assert text_of(measure) == text


def test_each_measure_has_a_text() -> None:
    assert all(text_of(measure) for measure in get_args(Measure))
