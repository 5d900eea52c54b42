"""Version to keep: checks that a version can be kept readable from now on, for a new ref.

Vacuum and log clean-up announce in the journal of refs which versions may lose files. A new ref of
such a version is rejected, or its files are looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from delta_ops.errors import InvalidRequestError, TableBusyError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.delta_log import LOG_DIRECTORY
from delta_ops.log.outside_files import TableFiles
from delta_ops.log.refs.branches import branch_id_of
from delta_ops.log.refs.refs import Refs, RunningDeletion, create_format_file
from delta_ops.log.refs.side_logs import is_side_log
from delta_ops.log.same_table import validate_same_table
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.arrow_schemas import ADD, add_files
from delta_ops.protocol.deletion_vectors import stored_path
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.storage.concurrency import run_parallel
from delta_ops.units import count_text


@dataclass(slots=True, kw_only=True)
class VersionToKeep:
    """A version that a new ref keeps readable.

    Raises:
        InvalidRequestError: The version is not of the table's own log.
    """

    log: DeltaLog
    snapshot: Snapshot
    """The version."""
    verb: str
    """The verb of messages, such as `tag`."""
    files_seen_at: int = 0
    """`Refs.complete_from` when the files of the version were found."""

    def __post_init__(self) -> None:
        if is_side_log(self.snapshot.log_directory):
            is_branch = branch_id_of(self.snapshot.log_directory) is not None
            cure = "publish the branch" if is_branch else "commit the session"
            raise InvalidRequestError(
                f"{self.log.uri}: version {self.snapshot.version} is of a "
                f"{'branch' if is_branch else 'session'}; {cure}, then {self.verb} a version of "
                "main"
            )
        if self.snapshot.base is not None or self.log.log_directory != LOG_DIRECTORY:
            raise InvalidRequestError(
                f"{self.log.uri}: the log in {self.log.log_directory} is not the table's own, "
                f"which is in {LOG_DIRECTORY}; {self.verb} a version of the table's own log"
            )

    def validate_kept(self, refs: Refs) -> None:
        """Validate the version for a new ref; create the format file before the first ref.

        Args:
            refs: The refs before the new ref.

        Raises:
            VersionNotFoundError, TableBusyError, TableReplacedError: As `validate_readable`.
            UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        """
        self.validate_readable(refs)
        if refs.is_empty:
            create_format_file(self.log.storage)

    def validate_readable(self, refs: Refs) -> None:
        """Reject the version if it has lost files, or if a running deletion may delete some.

        Args:
            refs: The current refs.

        Raises:
            VersionNotFoundError: Files of the version were deleted.
            TableBusyError: A vacuum or log clean-up may be deleting files of the version.
            TableReplacedError: The table was deleted, or another table is in its place.
        """
        version = self.snapshot.version
        for deletion in refs.deletions:
            if version < deletion.version:
                raise self._busy(deletion)
        if version < refs.complete_from != self.files_seen_at:
            self._validate_files_exist()
            self.files_seen_at = refs.complete_from
        validate_same_table(self.snapshot)

    def _validate_files_exist(self) -> None:
        """Look up the files that the version has and the latest version lacks.

        The version is opened again, because its log files may be gone, too.
        """
        version = self.log.snapshot(self.snapshot.version)
        wanted = sorted(stored_paths(version) - stored_paths(self.log.snapshot()))
        exist = run_parallel(partial(_exists, self.snapshot.table_files), wanted)
        missing = [path for path, is_there in zip(wanted, exist, strict=True) if not is_there]
        if missing:
            raise VersionNotFoundError(
                self.log.uri,
                f"version {self.snapshot.version}",
                f"{count_text(len(missing), 'file')} of this version were deleted, such as "
                f"{missing[0]}",
            )

    def _busy(self, deletion: RunningDeletion) -> TableBusyError:
        begun = datetime.fromtimestamp(deletion.begun_ms / 1000, UTC).isoformat(timespec="seconds")
        return TableBusyError(
            self.log.uri,
            f"a vacuum or log clean-up that began at {begun} may be deleting files of version "
            f"{self.snapshot.version}",
            f"Wait until it ends, or {self.verb} version {deletion.version} or a later one. If it "
            "was killed, older versions stay blocked until another vacuum deletes files, at least "
            "a week later",
        )


def stored_paths(snapshot: Snapshot) -> set[str]:
    """Canonical paths of the data files and the files of vectors of a version."""
    found: set[str] = set()
    for files in snapshot.stream_live(ADD.names):
        for add in add_files(files):
            found |= paths_of_file(add.path, add.deletion_vector, snapshot.uri)
    return found


def paths_of_file(path: str, vector: DeletionVector | None, uri: str) -> set[str]:
    """Canonical paths of a data file and of the file of its vector."""
    file = canonical_path(path, uri)
    stored = None if vector is None else stored_path(vector, uri)
    return {file, stored} if stored else {file}


def _exists(files: TableFiles, path: str) -> bool:
    storage, place = files.find(path)
    try:
        storage.stat(place)
    except FileNotFoundError:
        return False
    return True
