"""The replay properties of `tests/log`, on many more histories."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.log import test_replay as short

pytestmark = pytest.mark.long

test_replay_equals_the_model = settings(max_examples=1500, deadline=None)(
    short.test_replay_equals_the_model_and_a_checkpoint_at_any_version_changes_nothing
)
test_a_refreshed_snapshot_equals_a_new_one = settings(max_examples=1500, deadline=None)(
    short.test_a_refreshed_snapshot_equals_a_new_one
)
