"""Index table: the runs of an index, as the log of its Delta table lists them."""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.errors import LogCorruptError, TableNotFoundError
from delta_ops.lazy import lazy
from delta_ops.log.checkpoint.read import OpenCheckpoint
from delta_ops.log.segment import Checkpoint, Segment, find_segment, retry_if_vanished
from delta_ops.log.version.files import Version, stream_live
from delta_ops.log.version.indexes.definitions import IndexDefinition
from delta_ops.log.version.indexes.run_file import DamagedRunError, RunFile
from delta_ops.log.version.load import (
    LoadedVersion,
    load_readable_version,
    open_listed_checkpoint,
)
from delta_ops.log.version.reconciliation import Tail
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import Storage
from delta_ops.storage.below import StorageBelow

_LOG = "_delta_log"


def list_runs(
    definition: IndexDefinition, storage: Storage
) -> tuple[int | None, list[RunFile | tuple[str, DamagedRunError]]]:
    """The version of the table of an index, and its runs; None without a table.

    A run whose add action lacks tags is a pair of its path and the error.

    Args:
        storage: The storage of the indexed table.

    Raises:
        LogCorruptError: The log of the index is damaged.
        UnsupportedFeatureError: The index has a feature that delta_ops cannot read.
        StorageError: The store failed.
    """
    inner = StorageBelow(storage, definition.directory)
    try:
        table: Version = retry_if_vanished(inner, _LOG, lambda: _open(inner))
    except TableNotFoundError:
        return None, []
    runs: list[RunFile | tuple[str, DamagedRunError]] = []
    for adds in stream_live(table, ["path", "size", "modificationTime", "tags"]):
        for each in adds.to_pylist():
            path, size, modified_ms, tags = each.values()
            try:
                runs.append(RunFile.parse_add(path, size, modified_ms, dict(tags or ())))
            except DamagedRunError as error:
                runs.append((path, error))
    return table.version, runs


def _open(storage: Storage) -> _IndexVersion:
    segment: Segment = find_segment(storage, _LOG)
    return _IndexVersion(storage, load_readable_version(storage, _LOG, segment))


@dataclass(frozen=True, eq=False)
class _IndexVersion:
    """The latest version of the table of an index; see `Version`."""

    storage: Storage
    loaded: LoadedVersion
    log_directory: str = _LOG
    base: None = None
    scan_cache: None = None

    @property
    def uri(self) -> str:
        return self.storage.uri

    @property
    def version(self) -> int:
        return self.loaded.segment.version

    @property
    def commits_since_checkpoint(self) -> int:
        return len(self.loaded.segment.commits)

    @property
    def checkpoint(self) -> Checkpoint | None:
        return self.loaded.segment.checkpoint

    @lazy
    def opened_checkpoint(self) -> OpenCheckpoint | None:
        loaded, checkpoint = self.loaded, self.checkpoint
        if loaded.read_checkpoint is not None or checkpoint is None:
            return loaded.read_checkpoint
        checksum = loaded.state_checksum.checksum
        return open_listed_checkpoint(self.storage, checkpoint, None, checksum, loaded.commit_state)

    @property
    def tail(self) -> Tail:
        return self.loaded.tail

    @property
    def definition(self) -> TableDefinition:
        return self.loaded.definition

    def equivalent(self, error: LogCorruptError) -> Version:
        """See `Version`; an index with a damaged checkpoint is passed over."""
        raise error
