"""Random histories of main and its refs, beside deltalake, against a model of rows.

A clean-up is so late that it deletes everything that nothing needs, and so are most vacuums, which
also end the sessions. The other vacuums delete every file that nothing needs at this moment. After
each step main, every branch, tag, session and release must have the rows of the model, and main
must have the same rows in deltalake and polars. In every third history the table has deletion
vectors, which these two do not read.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import (
    InvalidRequestError,
    PublishConflictError,
    SessionConflictError,
    TableReplacedError,
    VersionNotFoundError,
)
from delta_ops.maintenance import clean_up_log, create_checkpoint, optimize, vacuum
from delta_ops.versioning import (
    WriteSession,
    begin_session,
    create_anchor,
    create_branch,
    create_release,
    create_tag,
    delete_branch,
    delete_releases,
    delete_tag,
    list_branches,
    list_releases,
    list_sessions,
    list_tags,
    open_branch,
    open_release,
    open_session,
    publish,
    rebase_branch,
    rename_branch,
    roll_back_release,
)
from tests.support.tables import rows_by_deltalake, rows_by_polars
from tests.support.tiers import seeded

Ids = frozenset[int]
_LIFE = timedelta(days=1000)


def late_clock() -> int:
    return system_clock() + 60 * DAY_MS


@dataclass
class Expected:
    """The rows that a branch or session must have."""

    base: Ids
    ids: Ids
    is_published: bool = False


@dataclass
class History:
    """A table, and the rows that it and its refs must hold."""

    root: Path
    chance: random.Random
    main: Ids = frozenset()
    branches: dict[str, Expected] = field(default_factory=dict)
    tags: dict[str, Ids] = field(default_factory=dict)
    sessions: dict[str, Expected] = field(default_factory=dict)
    """By id."""
    releases: dict[int, Ids] = field(default_factory=dict)
    """By number."""
    has_vectors: bool = False
    number: int = 0
    done: list[str] = field(default_factory=list)

    @property
    def log(self) -> DeltaLog:
        return DeltaLog(self.root)

    def new_ids(self) -> Ids:
        first = self.number + 1
        self.number += self.chance.randint(1, 3)
        return frozenset(range(first, self.number + 1))

    @property
    def release_set(self) -> Path:
        return self.root.parent / "releases"

    def begin(self) -> None:
        self.main = self.new_ids()
        settings = {"delta.checkpointInterval": "5"}
        if self.has_vectors:
            settings["delta.enableDeletionVectors"] = "true"
        da.write(self.root, rows_of(self.main), configuration=settings)

    def step(self) -> None:
        name = self.chance.choice(list(_STEPS))
        self.done.append(name)
        _STEPS[name](self)

    def change(self, log: DeltaLog, ids: Ids, *, may_optimize: bool = True) -> Ids:
        """Change rows of a log in some way; returns the rows after it."""
        match self.chance.randint(0, 6 if may_optimize else 5):
            case 0 | 1:
                new = self.new_ids()
                da.write(log, rows_of(new))
                return ids | new
            case 2 if ids:
                gone = frozenset(self.chance.sample(sorted(ids), len(ids) // 2))
                if gone:
                    da.delete(log, f"id IN ({', '.join(map(str, sorted(gone)))})")
                return ids - gone
            case 3:
                new = self.new_ids()
                da.write(log, rows_of(new), mode="overwrite")
                return new
            case 4 if ids:
                new, old = self.new_ids(), self.chance.choice(sorted(ids))
                da.update(log, {"id": str(min(new))}, f"id = {old}")
                return ids - {old} | {min(new)}
            case 5:
                new = self.new_ids()
                known = frozenset(self.chance.sample(sorted(ids), len(ids) // 3))
                merge = da.merge(log, rows_of(new | known), "target.id = source.id")
                merge.when_matched_delete().when_not_matched_insert_all().execute()
                return ids - known | new
        if may_optimize:
            optimize(log)
        return ids

    def change_main(self) -> None:
        self.main = self.change(self.log, self.main)

    def change_by_deltalake(self) -> None:
        if self.has_vectors:
            return
        if self.chance.random() < 0.5:
            new = self.new_ids()
            write_deltalake(str(self.root), rows_of(new), mode="append")
            self.main |= new
        else:
            DeltaTable(str(self.root)).optimize.compact()

    def vacuum_by_deltalake(self) -> None:
        if not self.has_vectors:
            DeltaTable(str(self.root)).vacuum(dry_run=False)

    def vacuum(self) -> None:
        late: dict[str, Any] = {
            "retention": timedelta(0),
            "enforce_retention": False,
            "clock": late_clock,
            "log_commits": self.chance.random() < 0.5,
        }
        if self.chance.random() < 0.3:
            with suppress(InvalidRequestError):  # the log was cleaned up, so it must be a full one
                vacuum(self.log, mode="lite", **late)
        else:
            vacuum(self.log, **late)
        for each in self.sessions:  # they had expired
            with pytest.raises(VersionNotFoundError, match="there is no such session"):
                open_session(self.log, each)
        self.sessions.clear()

    def vacuum_at_this_moment(self) -> None:
        vacuum(self.log, retention=timedelta(0), enforce_retention=False)

    def clean_up(self) -> None:
        if self.chance.random() < 0.5:
            create_checkpoint(self.log)
        clean_up_log(self.log, clock=late_clock)

    def tag(self) -> None:
        name = f"t{len(self.done)}"
        create_tag(self.log, name)
        self.tags[name] = self.main

    def anchor(self) -> None:
        refs = [f"tag:{each}" for each in self.tags] + [f"branch:{each}" for each in self.branches]
        if refs:
            create_anchor(self.log, self.chance.choice(sorted(refs)))

    def release(self) -> None:
        release = create_release(self.release_set, {"t": self.log}, message=f"{len(self.done)}")
        self.releases[release.number] = self.main

    def roll_back_a_release(self) -> None:
        if self.releases:
            number = self.chance.choice(sorted(self.releases))
            again = roll_back_release(self.release_set, number, message=f"{len(self.done)}")
            self.releases[again.number] = self.releases[number]

    def delete_releases(self) -> None:
        if self.releases:
            for each in delete_releases(self.release_set, keep_last=2).releases:
                del self.releases[each.number]

    def rebase_a_branch(self) -> None:
        if not self.branches:
            return
        name = self.chance.choice(sorted(self.branches))
        branch = self.branches[name]
        if branch.is_published:
            with pytest.raises(InvalidRequestError, match="was published"):
                rebase_branch(self.log, name)
            return
        with suppress(PublishConflictError):
            rebase_branch(self.log, name)
            branch.base, branch.ids = self.main, rebased(branch, self.main)

    def delete_a_tag(self) -> None:
        if self.tags:
            name = self.chance.choice(sorted(self.tags))
            delete_tag(self.log, name)
            del self.tags[name]

    def branch(self) -> None:
        name = self.chance.choice("abcd")
        if name in self.branches:
            return
        options: dict[str, Any] = {}
        base = self.main
        if self.tags and self.chance.random() < 0.4:
            tag = self.chance.choice(sorted(self.tags))
            options, base = {"ref": f"tag:{tag}"}, self.tags[tag]
        create_branch(self.log, name, expires_in=_LIFE, enforce_retention=False, **options)
        self.branches[name] = Expected(base=base, ids=base)

    def change_a_branch(self) -> None:
        if not self.branches:
            return self.branch()
        name = self.chance.choice(sorted(self.branches))
        expected, log = self.branches[name], open_branch(self.root, name)
        if not expected.is_published:
            expected.ids = self.change(log, expected.ids)
            return None
        with pytest.raises(TableReplacedError):
            da.write(log, rows_of(self.new_ids()))
        return None

    def publish(self) -> None:
        if not self.branches:
            return
        name = self.chance.choice(sorted(self.branches))
        branch, rebase = self.branches[name], self.chance.random() < 0.5
        try:
            result = publish(self.log, name, rebase=rebase)
        except PublishConflictError:
            assert not branch.is_published
            return
        if branch.is_published or result.version is None:
            assert result.already_published or branch.ids == branch.base
            return
        assert rebase or self.main == branch.base
        self.main = rebased(branch, self.main)
        branch.is_published = True

    def delete_a_branch(self) -> None:
        if self.branches:
            name = self.chance.choice(sorted(self.branches))
            delete_branch(self.log, name)
            del self.branches[name]

    def rename_a_branch(self) -> None:
        free = sorted(set("abcd") - self.branches.keys())
        if self.branches and free:
            name = self.chance.choice(sorted(self.branches))
            rename_branch(self.log, name, free[0])
            self.branches[free[0]] = self.branches.pop(name)

    def begin_a_session(self) -> None:
        if len(self.sessions) < 2:
            session = begin_session(self.log)
            self.sessions[session.id] = Expected(base=self.main, ids=self.main)

    def chosen_session(self) -> tuple[WriteSession, Expected] | None:
        if not self.sessions:
            self.begin_a_session()
            return None
        name = self.chance.choice(sorted(self.sessions))
        return open_session(self.log, name), self.sessions[name]

    def change_a_session(self) -> None:
        if chosen := self.chosen_session():
            session, expected = chosen
            step = f"step {len(self.done)}"
            if self.chance.random() < 0.3:  # an attempt that is repeated
                da.write(session.fork(step), rows_of(self.new_ids()))
            expected.ids = self.change(session.fork(step), expected.ids, may_optimize=False)

    def commit_a_session(self) -> None:
        if chosen := self.chosen_session():
            session, expected = chosen
            try:
                result = session.commit()
            except SessionConflictError:
                assert ids_of(self.root, ref=session.ref) == sorted(expected.ids)
                session.abandon()
            else:
                assert (result.version is None) == (expected.ids == expected.base)
                self.main = rebased(expected, self.main)
                again = session.commit()
                assert (again.version, again.already_committed) == (result.version, True)
            del self.sessions[session.id]

    def rebase_a_session(self) -> None:
        if chosen := self.chosen_session():
            session, expected = chosen
            with suppress(SessionConflictError):
                session.rebase()
                expected.base, expected.ids = self.main, rebased(expected, self.main)

    def abandon_a_session(self) -> None:
        if chosen := self.chosen_session():
            chosen[0].abandon()
            del self.sessions[chosen[0].id]

    def validate(self) -> None:
        assert ids_of(self.root) == sorted(self.main), self.done
        assert {each.name for each in list_branches(self.log)} == self.branches.keys()
        assert {each.name for each in list_tags(self.log)} == self.tags.keys()
        assert {each.id for each in list_sessions(self.log)} == self.sessions.keys()
        for name, branch in self.branches.items():
            found = ids_of(self.root, ref=f"branch:{name}")
            assert found == sorted(branch.ids), (name, self.done)
        for name, session in self.sessions.items():
            found = ids_of(self.root, ref=f"session:{name}")
            assert found == sorted(session.ids), (name, self.done)
        for name, ids in self.tags.items():
            assert ids_of(self.root, ref=f"tag:{name}") == sorted(ids), (name, self.done)
        releases = list_releases(self.release_set) if self.releases else []
        assert [each.number for each in releases] == list(self.releases)
        for number, ids in self.releases.items():
            opened = open_release(self.release_set, number)["t"]
            assert ids_of(opened) == sorted(ids), (number, self.done)
        self.validate_in_other_engines()

    def validate_in_other_engines(self) -> None:
        if self.has_vectors:
            return
        for read in (rows_by_deltalake, rows_by_polars):
            assert sorted(row["id"] for row in read(self.root)) == sorted(self.main), self.done


_STEPS: dict[str, Callable[[History], None]] = {
    "change main": History.change_main,
    "change by deltalake": History.change_by_deltalake,
    "vacuum by deltalake": History.vacuum_by_deltalake,
    "vacuum": History.vacuum,
    "vacuum at this moment": History.vacuum_at_this_moment,
    "clean up": History.clean_up,
    "tag": History.tag,
    "delete a tag": History.delete_a_tag,
    "anchor": History.anchor,
    "release": History.release,
    "roll back a release": History.roll_back_a_release,
    "delete releases": History.delete_releases,
    "branch": History.branch,
    "change a branch": History.change_a_branch,
    "change a branch again": History.change_a_branch,
    "publish": History.publish,
    "publish again": History.publish,
    "rebase a branch": History.rebase_a_branch,
    "rebase a branch again": History.rebase_a_branch,
    "delete a branch": History.delete_a_branch,
    "rename a branch": History.rename_a_branch,
    "begin a session": History.begin_a_session,
    "change a session": History.change_a_session,
    "change a session again": History.change_a_session,
    "commit a session": History.commit_a_session,
    "commit a session again": History.commit_a_session,
    "rebase a session": History.rebase_a_session,
    "abandon a session": History.abandon_a_session,
}


def rebased(changed: Expected, main: Ids) -> Ids:
    """The rows of main with the changes of a branch or session."""
    return (main - (changed.base - changed.ids)) | (changed.ids - changed.base)


def rows_of(ids: Ids) -> pa.Table:
    return pa.table({"id": pa.array(sorted(ids), pa.int64())})


def ids_of(source: Path | Snapshot, **options: Any) -> list[int]:
    return sorted(da.to_table(source, **options)["id"].to_pylist())


def run(history: History, steps: int) -> None:
    history.begin()
    for _ in range(steps):
        history.step()
        history.validate()


@pytest.mark.full
@pytest.mark.parametrize("case", [0, 1, 2])
def test_a_short_history_keeps_all_rows(case: int, tmp_path: Path) -> None:
    run(History(tmp_path / "t", seeded(case), has_vectors=case % 3 == 2), 30)


@pytest.mark.long
@pytest.mark.parametrize("case", range(3, 15))
def test_a_long_history_keeps_all_rows(case: int, tmp_path: Path) -> None:
    run(History(tmp_path / "t", seeded(case), has_vectors=case % 3 == 2), 300)
