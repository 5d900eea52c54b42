"""Zarr's state machines for stores, with rules that commit and open the table again."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

pytest.importorskip("zarr")

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import rule, run_state_machine_as_test
from zarr.testing.stateful import (
    SyncStoreWrapper,
    ZarrHierarchyStateMachine,
    ZarrStoreStateMachine,
)

from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.maintenance import optimize, vacuum

# The machines draw types that Zarr's specification does not have yet.
pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")


def new_store() -> DeltaStore:
    log = DeltaLog(f"memory://machines/{uuid4()}")
    create_array_table(log)
    return DeltaStore.begin(log)


def reopened(store: DeltaStore) -> DeltaStore:
    """Another session, after the commit of this session."""
    store.commit()
    return DeltaStore.begin(store.log)


def maintain(store: DeltaStore) -> None:
    """Compact the table and delete unused files, whatever their age, beside the session."""
    store.flush()
    optimize(store.log)
    vacuum(store.log, retention=timedelta(0), enforce_retention=False)


class KeyMachine(ZarrStoreStateMachine):
    """Keys and bytes, against a dict."""

    def __init__(self) -> None:
        super().__init__(new_store())

    @property
    def delta_store(self) -> DeltaStore:
        store = self.store.store
        assert isinstance(store, DeltaStore)
        return store

    @rule()
    def commit_and_reopen(self) -> None:
        self.store = SyncStoreWrapper(reopened(self.delta_store))

    @rule()
    def flush_and_open_the_session_again(self) -> None:
        self.delta_store.flush()
        other = DeltaStore(self.delta_store.log, session=self.delta_store.session)
        self.store = SyncStoreWrapper(other)

    @rule()
    def maintain_the_table(self) -> None:
        maintain(self.delta_store)


class HierarchyMachine(ZarrHierarchyStateMachine):
    """Groups and arrays, against Zarr's store in memory."""

    store: DeltaStore

    def __init__(self) -> None:
        super().__init__(new_store())

    @rule()
    def commit_and_reopen(self) -> None:
        self.store = reopened(self.store)

    @rule()
    def flush_and_open_the_session_again(self) -> None:
        self.store.flush()
        self.store = DeltaStore(self.store.log, session=self.store.session)

    @rule()
    def maintain_the_table(self) -> None:
        maintain(self.store)


def steps(examples: int, count: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=count,
        deadline=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize(
    "machine", [KeyMachine, pytest.param(HierarchyMachine, marks=pytest.mark.full)]
)
def test_a_short_run_of_the_machine(machine: type[KeyMachine | HierarchyMachine]) -> None:
    run_state_machine_as_test(machine, settings=steps(1, 10))


@pytest.mark.long
@pytest.mark.parametrize("machine", [KeyMachine, HierarchyMachine])
def test_a_long_run_of_the_machine(machine: type[KeyMachine | HierarchyMachine]) -> None:
    run_state_machine_as_test(machine, settings=steps(100, 50))
