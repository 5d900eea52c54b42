"""A table under everybody's maintenance, and the rows that each version must still have.

A version is promised until a vacuum may delete one of its files, or a clean-up its log. Writers and
maintenance use the machine's clock, as foreign engines do; a test passes time by making commits and
files older.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.read.scan import read_files
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_names import commit_name
from delta_ops.protocol.file_paths import canonical_path
from tests.support.tables import live_paths
from tests.transaction.row_changes import Row, rows_in

LOG_RETENTION_MS = 30 * DAY_MS
_PART = re.compile(r"(\d{20}\.checkpoint)\.\d{10}\.(\d{10})\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The visible state of a version."""

    rows: tuple[Row, ...]
    """In order."""
    txns: Mapping[str, int] = field(default_factory=dict)
    """Txns of applications, without maintenance txns."""
    retention_ms: int
    """`delta.deletedFileRetentionDuration`."""


class MaintainedTable:
    """A table and its model."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = DeltaLog(root)
        self.states: list[State] = []
        """The state of each version."""
        self._removing: list[int | None] = []
        """By version: start of the step that committed its removes; None without removes."""
        self._first_removed_ms: dict[str, int] = {}
        """By path: the start of the step that first removed the file, even if it was restored."""
        self._committed_ms: list[int] = []
        """By the commit files' times, which a test makes older."""
        self._unpromised: set[int] = set()
        self._forgotten: set[int] = set()
        """Versions whose tombstones may be missing from a checkpoint."""
        self._orphans: dict[Path, int] = {}
        self._began_ms = 0

    @property
    def state(self) -> State:
        return self.states[-1]

    @property
    def latest(self) -> int:
        return len(self.states) - 1

    @property
    def promised(self) -> list[int]:
        """The versions that must be readable, ascending; the latest is the last."""
        return [version for version in range(len(self.states)) if version not in self._unpromised]

    @contextmanager
    def step(self) -> Iterator[None]:
        """Wrap a step that may commit; `becomes` records the result."""
        self._began_ms = system_clock()
        yield
        assert self._num_new() == 0, "an unreported commit"
        self._forget()

    def becomes(self, state: State) -> None:
        """Record new versions; without new versions the table must be unchanged."""
        num_new = self._num_new()
        assert num_new or not self.states or state == self.state, "it should have committed"
        for version in range(len(self.states), len(self.states) + num_new):
            place = self._commit(version)
            actions = [json.loads(line) for line in place.read_text().splitlines()]
            removes = [action["remove"]["path"] for action in actions if "remove" in action]
            self._removing.append(self._began_ms if removes else None)
            for path in removes:
                decoded = canonical_path(path, self.log.uri)
                self._first_removed_ms.setdefault(decoded, self._began_ms)
            self._committed_ms.append(place.stat().st_mtime_ns // 1_000_000)
            self.states.append(state)

    def may_have_vacuumed(
        self, retention_ms: int, keep: Collection[int] = (), *, now_ms: int | None = None
    ) -> None:
        """Somebody was allowed to delete files removed before this time."""
        self._forget()  # by a checkpoint after the vacuum's commit, before the listing
        horizon_ms = (system_clock() if now_ms is None else now_ms) - retention_ms
        self._unpromised |= (self._removed_before(horizon_ms) | self._forgotten) - set(keep)
        for place, modified_ms in self._orphans.items():
            assert modified_ms < horizon_ms or place.exists(), f"{place} was too young to go"
        # A file deleted by right is not expected after a vacuum with a longer retention.
        self._orphans = {place: each for place, each in self._orphans.items() if place.exists()}

    def deltalake_may_have_vacuumed(self, retention_ms: int, keep: Collection[int] = ()) -> None:
        """A file that was restored and removed again counts from its first removal."""
        self.may_have_vacuumed(retention_ms, keep)
        horizon_ms = system_clock() - retention_ms
        old = {path for path, ms in self._first_removed_ms.items() if ms < horizon_ms}
        old -= live_paths(self.log)
        for version in set(self.promised) - set(keep):
            if not old.isdisjoint(live_paths(self.log, version)):
                self._unpromised.add(version)

    def may_have_cleaned_up(self) -> None:
        """We were allowed to delete versions superseded before the log's retention."""
        cutoff_ms = (system_clock() - LOG_RETENTION_MS) // DAY_MS * DAY_MS
        for version, until_ms in enumerate(self._committed_ms[1:]):
            if until_ms <= cutoff_ms:
                self._unpromised.add(version)

    def others_may_have_cleaned_up(self) -> None:
        """deltalake and delta-spark judge each commit below the newest checkpoint by its age.

        So a version is lost that was the latest until now, if its own commit is old; and a version
        with a young commit is lost, if reading it needs an older commit.
        """
        cutoff_ms = system_clock() - LOG_RETENTION_MS
        if any(committed_ms <= cutoff_ms for committed_ms in self._committed_ms):
            names = [place.name for place in (self.root / "_delta_log").glob("[0-9]*.checkpoint*")]
            newest = max((int(name[:20]) for name in names), default=0)
            self._unpromised |= set(range(newest))

    def rows_without(self, file: AddFile) -> list[Row]:
        """The rows of the latest version without one file."""
        left = [add for add in self.log.snapshot().add_files() if add.path != file.path]
        tables = read_files(self.log.snapshot(), left, ["id", "p"])
        return [row for table in tables for row in rows_in(table)]

    def loses_file(self, file: AddFile) -> None:
        """Delete a file behind everybody's back."""
        path = canonical_path(file.path, self.log.uri)
        for version in self.promised:
            if path in live_paths(self.log, version):
                self._unpromised.add(version)
        (self.root / path).unlink()

    def removed_ms(self, version: int) -> int:
        """The earliest removal of a file of the version; now if no file was removed."""
        return min(self._removals_after(version), default=system_clock())

    def ages(self, days: int) -> None:
        """Make every file, and so every commit, older."""
        past_ms = days * DAY_MS
        for place in self.root.rglob("*"):
            if place.is_file():
                modified_ns = place.stat().st_mtime_ns - past_ms * 1_000_000
                os.utime(place, ns=(modified_ns, modified_ns))
        self._committed_ms = [each - past_ms for each in self._committed_ms]
        self._orphans = {place: each - past_ms for place, each in self._orphans.items()}

    def put_orphan(self, path: str) -> None:
        """A file that no commit names."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"junk")
        self._orphans[place] = place.stat().st_mtime_ns // 1_000_000

    def has_incomplete_checkpoint(self) -> bool:
        """Whether an incomplete multi-part checkpoint exists without a whole checkpoint."""
        names = {place.name for place in (self.root / "_delta_log").iterdir()}
        found = [match.groups() for match in map(_PART.fullmatch, names) if match]
        whole = {checkpoint for checkpoint, n in found if found.count((checkpoint, n)) == int(n)}
        whole |= {name.removesuffix(".parquet") for name in names}
        return any(checkpoint not in whole for checkpoint, _ in found)

    def files(self) -> set[str]:
        """All existing log files; only the hint ever changes."""
        return {str(place) for place in self.root.rglob("*") if place.is_file()}

    def check(self) -> None:
        """Read every promised version, by us and by deltalake."""
        snapshot = self.log.snapshot()
        assert snapshot.version == self.latest
        validate_checksum(snapshot)
        txns = {app: each.version for app, each in snapshot.transactions().items()}
        assert {app: txns[app] for app in txns if app in self.state.txns} == self.state.txns
        assert snapshot.properties.deleted_file_retention_ms == self.state.retention_ms
        assert all((self.root / path).exists() for path in live_paths(self.log))
        for version in self.promised:
            expected = self.states[version].rows
            found = rows_in(da.to_table(self.log.snapshot(version)))
            assert tuple(sorted(found)) == expected, f"version {version} by us"
            found = rows_in(rows_of_deltalake(self.root, version))
            assert tuple(sorted(found)) == expected, f"version {version} by deltalake"

    def num_committed(self) -> int:
        """The number of existing versions, with commits that nobody reported."""
        number = len(self.states)
        while self._commit(number).exists():
            number += 1
        return number

    def _num_new(self) -> int:
        return self.num_committed() - len(self.states)

    def _commit(self, version: int) -> Path:
        return self.root / "_delta_log" / commit_name(version)

    def _forget(self) -> None:
        """A checkpoint may have been written without the expired tombstones."""
        self._forgotten |= self._removed_before(system_clock() - self.state.retention_ms)

    def _removed_before(self, horizon_ms: int) -> set[int]:
        """Versions with a file that was removed before the horizon."""
        versions = range(self.latest)
        return {v for v in versions if any(ms < horizon_ms for ms in self._removals_after(v))}

    def _removals_after(self, version: int) -> list[int]:
        return [ms for ms in self._removing[version + 1 :] if ms is not None]


def rows_of_deltalake(root: Path, version: int) -> pa.Table:
    """The rows, for any table features that deltalake can read."""
    query = QueryBuilder().register("t", DeltaTable(str(root), version))
    return pa.table(query.execute("SELECT id, p FROM t"))
