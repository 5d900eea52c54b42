"""Sentences of maintenance work."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from delta_ops.maintenance.work_text import done_text, planned_text

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
