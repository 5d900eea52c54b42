"""The parts of all days are the whole, and no two share a test."""

from __future__ import annotations

import pytest

from tests.days import part_of_day, today


@pytest.mark.parametrize("days", range(1, 7))
@pytest.mark.parametrize("first_day", [0, 5, 739_948])
def test_days_that_follow_each_other_have_each_item_once(days: int, first_day: int) -> None:
    for num_items in (0, 1, days, 20):
        parts = [part_of_day(range(num_items), days, first_day + day) for day in range(days)]
        assert sorted(item for part in parts for item in part) == list(range(num_items))


def test_a_day_is_chosen_and_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTA_OPS_DAY", "2")
    assert today() == 2
    monkeypatch.setenv("DELTA_OPS_DAY", "all")
    assert today() is None
    assert part_of_day(range(9), 3, None) == range(9)
