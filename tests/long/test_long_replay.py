"""The replay properties of `tests/log`, on many more histories."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.protocol.actions import FileAction
from tests.log.test_replay import check_refresh, check_replay, histories

pytestmark = pytest.mark.long


@given(commits=histories(), checkpoint_at=st.integers(0, 7))
@settings(max_examples=400, deadline=None)
def test_replay_equals_the_model_on_many_histories(
    commits: list[list[FileAction]], checkpoint_at: int
) -> None:
    check_replay(commits, checkpoint_at)


@given(commits=histories(), split=st.integers(0, 7))
@settings(max_examples=400, deadline=None)
def test_a_refreshed_snapshot_equals_a_new_one_on_many_histories(
    commits: list[list[FileAction]], split: int
) -> None:
    check_refresh(commits, split)
