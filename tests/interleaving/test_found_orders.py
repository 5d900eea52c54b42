"""Orders, found by random search, that left files in the wrong table."""

from __future__ import annotations

import pytest

from tests.interleaving.search import replay


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(
            "drop-create[0:1] overwrite[0:1] drop-create[1:2] overwrite[1:4] drop-create[2:8] "
            "overwrite[4:] drop-create[8:]",
            id="the checksum of a table that was deleted as soon as it was created",
        ),
        pytest.param(
            "drop-create[0:2] append[0:4] drop-create[2:8] append[4:8!] drop-create[8:] "
            "append again[0:]",
            id="and of one whose writer was killed",
        ),
        pytest.param(
            "checkpoint[0:8] drop-create[0:] checkpoint[8:]; lost checkpoint:9",
            id="the hint of a checkpoint, without an answer of the store",
        ),
        pytest.param(
            "restore-other[0:1] clean-up[0:1] restore-other[1:4] clean-up[1:2] drop-create[0:1] "
            "restore-other[4:9] clean-up[2:5] drop-create[1:8] clean-up[5:8] clean-up[8:] "
            "drop-create[8:] restore-other[9:]; lost restore-other:8",
            id="a commit that is tried again after the store gave no answer",
        ),
        pytest.param(
            "drop-create[0:2] append[0:3] drop-create[2:6] append[3:] drop-create[6:]",
            id="the file that was to make a table, before the commit",
        ),
        pytest.param(
            "drop-create[0:2] overwrite[0:4] drop-create[2:6] overwrite[4:] drop-create[6:]",
            id="and while it was made",
        ),
        pytest.param(
            "checkpoint-parts[0:5] overwrite[0:1] checkpoint-parts[5:9] drop-create[0:7] "
            "checkpoint-parts[9:11] drop-create[7:12] overwrite[1:2] drop-create[12:19] "
            "overwrite[2:] checkpoint-parts[11:] drop-create[19:]",
            id="a checkpoint of a table that was deleted, and a commit on it",
        ),
    ],
)
def test_it_keeps_every_promise(order: str) -> None:
    assert "keeps every promise" in replay(order)


def test_nothing_to_update_by_a_listing_that_shows_no_restore_yet() -> None:
    # The place in the meeting selects the updated row.
    order = "repair[0:4] restore[0:9] repair[4:9] repair[9:] restore[9:] update-row[0:]; late 5"
    assert "keeps every promise" in replay(order, "restore", "repair", "update-row")


def test_the_hint_of_a_scan_cache_while_the_table_is_replaced() -> None:
    order = "cache[0:33] drop-create[0:] cache[33:]"
    assert "keeps every promise" in replay(order, "cache", "drop-create")


def test_two_runs_of_one_compaction_under_two_names() -> None:
    order = (
        "optimize[0:16] merge-runs[0:2] optimize[16:32] merge-runs[2:6] merge-runs[6:] "
        "optimize[32:]"
    )
    assert "keeps every promise" in replay(order, "optimize", "merge-runs")
