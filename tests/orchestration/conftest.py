"""Real Dagster instances for the tests."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from tests.support.instances import new_instance

# Before Dagster 1.11, `resolve_job_def` and its siblings have the names `get_job_def` and so on.
for _name in dir(dg.Definitions):
    if _name.startswith("get_") and not hasattr(dg.Definitions, f"resolve_{_name[4:]}"):
        setattr(dg.Definitions, f"resolve_{_name[4:]}", getattr(dg.Definitions, _name))


@pytest.fixture(scope="session")
def instance_in_memory() -> Iterator[dg.DagsterInstance]:
    """An instance that tests share, because creating its tables takes longer than most tests."""
    with dg.DagsterInstance.ephemeral() as real:
        yield real


@pytest.fixture
def instance(instance_in_memory: dg.DagsterInstance) -> Iterator[dg.DagsterInstance]:
    """An instance in memory without runs or events, for runs in this process."""
    yield instance_in_memory
    instance_in_memory.wipe()


@pytest.fixture
def instance_on_disk() -> Iterator[dg.DagsterInstance]:
    """An instance as users have it by default, for runs in several processes."""
    with new_instance() as real:
        yield real
