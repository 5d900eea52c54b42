"""Zarr's state machines for stores, with rules that commit, branch, publish, expire and maintain.

Both machines read and write through a session. Tags and branches keep what they name, until a
vacuum of deltalake, which does not know them.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("zarr")

import hypothesis.strategies as st
import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore
from zarr.testing.stateful import (
    SyncStoreWrapper,
    ZarrHierarchyStateMachine,
    ZarrStoreStateMachine,
)

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrays import DeltaStore, create_array_table
from delta_ops.clock import system_clock
from delta_ops.errors import SessionEndedError
from delta_ops.maintenance import optimize, vacuum
from delta_ops.versioning import create_branch, create_tag, open_branch, publish

# The machines draw types that Zarr's specification does not have yet.
pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")

NOW: dict[str, Any] = {"retention": timedelta(0), "enforce_retention": False}
THREE_DAYS_LATER = {**NOW, "clock": lambda: system_clock() + 3 * 24 * 3600 * 1000}
"""A vacuum that ends sessions of a day, and keeps branches of six days."""


def content(store: DeltaStore) -> dict[str, bytes]:
    found = {key: store.get_sync(key) for key in SyncStoreWrapper(store).list()}
    return {key: each.to_bytes() for key, each in found.items() if each is not None}


class TableRules:
    """Rules about the table of a machine; a mixin of both machines."""

    def begin_table(self) -> DeltaStore:
        """A session of a new table."""
        self.folder = TemporaryDirectory()
        self.names = map(str, count())
        self.saved: dict[str, dict[str, bytes]] = {}
        self.committed: Any = None
        create_array_table(self.folder.name)
        return DeltaStore.begin(self.folder.name)

    def teardown(self) -> None:
        self.folder.cleanup()

    @property
    def delta_store(self) -> DeltaStore:
        raise NotImplementedError

    def use(self, store: DeltaStore) -> None:
        """Go on with another store."""
        raise NotImplementedError

    def model_now(self) -> Any:
        """A copy of the model."""
        raise NotImplementedError

    def roll_back(self, model: Any) -> None:
        """Go back to a copy of the model."""
        raise NotImplementedError

    @property
    def log(self) -> DeltaLog:
        return self.delta_store.log

    def commit(self) -> None:
        """Commit the session. The model is then what a session that expires goes back to."""
        self.delta_store.commit()
        self.committed = self.model_now()

    def reopen(self) -> None:
        self.use(DeltaStore.begin(self.log))

    @rule()
    def commit_and_reopen(self) -> None:
        self.commit()
        self.reopen()

    @rule()
    def flush_and_open_the_session_again(self) -> None:
        self.delta_store.flush()
        self.use(DeltaStore(self.log, session=self.delta_store.session))

    @rule()
    def maintain_the_table(self) -> None:
        """Compact the table and delete unused files, whatever their age, beside the session."""
        self.delta_store.flush()
        optimize(self.log)
        vacuum(self.log, **NOW)

    @rule()
    def compact_by_deltalake(self) -> None:
        DeltaTable(self.folder.name).optimize.compact()

    @rule()
    def vacuum_by_deltalake(self) -> None:
        """The vacuum deletes files of sessions, tags and branches, and no chunk."""
        self.commit()
        table = DeltaTable(self.folder.name)
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        self.saved.clear()
        self.reopen()

    @rule()
    def tag_and_branch(self) -> None:
        name = next(self.names)
        create_tag(self.log, name)
        create_branch(self.log, name)
        self.saved[name] = content(DeltaStore(self.log))

    @rule()
    def read_tags_and_branches(self) -> None:
        for name, keys in self.saved.items():
            for ref in (f"tag:{name}", f"branch:{name}"):
                assert content(DeltaStore(self.log, ref=ref)) == keys

    @precondition(lambda self: self.committed is not None)
    @rule()
    def let_the_session_expire(self) -> None:
        self.delta_store.flush()
        vacuum(self.log, **THREE_DAYS_LATER)
        with pytest.raises(SessionEndedError):
            self.delta_store.commit()
        self.roll_back(self.committed)
        self.committed = self.model_now()
        self.reopen()


class KeyMachine(TableRules, ZarrStoreStateMachine):
    """Keys and bytes, against a dict."""

    def __init__(self) -> None:
        super().__init__(self.begin_table())

    @property
    def delta_store(self) -> DeltaStore:
        store = self.store.store
        assert isinstance(store, DeltaStore)
        return store

    def use(self, store: DeltaStore) -> None:
        self.store = SyncStoreWrapper(store)

    def model_now(self) -> Any:
        return dict(self.model)

    def roll_back(self, model: Any) -> None:
        self.model = model

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def publish_a_deletion(self, data: st.DataObject) -> None:
        """Delete the row of a key on a branch, and publish the branch."""
        key, name = data.draw(st.sampled_from(sorted(self.model))), next(self.names)
        self.commit()
        create_branch(self.log, name)
        da.delete(open_branch(self.log, name), col("key") == key)
        publish(self.log, name)
        del self.model[key]
        self.committed = self.model_now()
        self.reopen()

    @rule(number=st.integers(0, 3))
    def publish_a_key(self, number: int) -> None:
        """Append the row of a key on a branch, and publish the branch."""
        key, name = f"published/c/{number}", next(self.names)
        if key in self.model:
            return
        self.commit()
        row = {"node": "/published", "block": "10000-0", "key": key, "data": key.encode()}
        create_branch(self.log, name)
        schema = da.to_table(self.log).schema
        da.write(open_branch(self.log, name), pa.Table.from_pylist([row], schema=schema))
        publish(self.log, name)
        self.model[key] = cpu.Buffer.from_bytes(key.encode())
        self.committed = self.model_now()
        self.reopen()


class HierarchyMachine(TableRules, ZarrHierarchyStateMachine):
    """Groups and arrays, against Zarr's store in memory."""

    def __init__(self) -> None:
        super().__init__(self.begin_table())

    @property
    def delta_store(self) -> DeltaStore:
        assert isinstance(self.store, DeltaStore)
        return self.store

    def use(self, store: DeltaStore) -> None:
        self.store = store

    def model_now(self) -> Any:
        return dict(self.model._store_dict), set(self.all_groups), set(self.all_arrays)

    def roll_back(self, model: Any) -> None:
        keys, self.all_groups, self.all_arrays = model
        self.model = MemoryStore(dict(keys))


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
