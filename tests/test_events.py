"""Events, as people read them."""

from __future__ import annotations

from delta_ops.events import Progress


def test_progress_without_a_known_end_is_what_is_done() -> None:
    progress = [Progress(table="t", operation="vacuum", done=1000, total=n) for n in (None, 2000)]
    assert [each.count for each in progress] == ["1,000", "1,000 of 2,000"]
