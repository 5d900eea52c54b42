"""Sentences of findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from delta_ops.clock import DAY_MS, HOUR_MS
from delta_ops.maintenance.thresholds import Finding, Measure
from delta_ops.orchestration.checks.check_results import finding_text

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
    "refs_at_risk": (("tag:a", "branch:b"), ()),
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
        ("refs_at_risk", "refs tag:a, branch:b at risk"),
        ("promised_time_travel", "time travel is promised for 1.5 days, required 7 days"),
    ],
)
def test_a_finding_is_a_figure_and_its_limit(measure: Measure, text: str) -> None:
    assert text_of(measure) == text


def test_each_measure_has_a_text() -> None:
    assert all(text_of(measure) for measure in get_args(Measure))
