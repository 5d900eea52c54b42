"""Real Dagster instances for the tests."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from tests.support.instances import new_instance


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory, for runs in this process."""
    with dg.DagsterInstance.ephemeral() as real:
        yield real


@pytest.fixture
def instance_on_disk() -> Iterator[dg.DagsterInstance]:
    """An instance as users have it by default, for runs in several processes."""
    with new_instance() as real:
        yield real
