"""Real Dagster instances for the tests."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from tests.support.instances import new_instance


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with new_instance() as real:
        yield real
