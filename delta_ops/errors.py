"""All errors of delta_ops, grouped by what the caller does next.

    change the call   InvalidRequestError, UnknownColumnError, BrokenRuleError, RepeatedMatchError,
                      ReplacedColumnsError, TableNotFoundError, TableExistsError,
                      VersionNotFoundError, UnsupportedFeatureError, MissingDependencyError,
                      OutsideFileError, SessionTokenError, ArrayKeyError
    repair the table  LogCorruptError, LogPathError, DataFileError, DeletedMeanwhileError
    run again         CommitConflictError, PublishConflictError, SessionConflictError,
                      ChunkConflictError, SessionEndedError, StaleRunError
    look first        CommitStateUnknownError
    open it again     TableReplacedError
    wait              StorageError, TableBusyError

The text names the table, the problem, its cause and the cure. It is a single line, whatever values
it contains; see `error_texts`. Attributes hold the original values. Arguments are plain values and
are all passed to `Exception.__init__`, so that every error pickles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from delta_ops.error_texts import error_text


class DeltaOpsError(Exception):
    """Base class of all errors that delta_ops raises on purpose."""

    def __str__(self) -> str:
        return error_text(self._sentence())

    def _sentence(self) -> str:
        """The message before control characters are escaped; subclasses override it."""
        return super().__str__()


class InvalidRequestError(DeltaOpsError):
    """The call is invalid."""

    def __init__(self, message: str, error_class: str | None = None) -> None:
        super().__init__(*(message,) if error_class is None else (message, error_class))
        self.message = message
        self.error_class = error_class
        """The reference's error class of the mistake; None if it has none."""

    def _sentence(self) -> str:
        return self.message


class UnknownColumnError(InvalidRequestError):
    """There is no column or field of this name."""


class SessionTokenError(InvalidRequestError):
    """The token is not the token of an open session of this table."""


class ArrayKeyError(InvalidRequestError, ValueError):
    """A key of an array table, its row or its bytes are invalid, or the key cannot be written."""

    def __init__(self, table: str, key: str, reason: str) -> None:
        super().__init__(f"{table}: key {key!r} {reason}")
        self.args = (table, key, reason)
        self.table, self.key, self.reason = table, key, reason


class BrokenRuleError(InvalidRequestError):
    """A row breaks a rule of the table; `rule` is its text, such as `NOT NULL id`."""

    def __init__(self, message: str, rule: str) -> None:
        super().__init__(message)
        self.args = (message, rule)
        self.rule = rule


class ReplacedColumnsError(InvalidRequestError):
    """The new list of columns would remove or retype a column."""


class RepeatedMatchError(InvalidRequestError):
    """Several rows of a merge's source would change the same row of the table."""


@contextmanager
def naming_table(table: str) -> Iterator[None]:
    """Prefix errors about names, conditions and values with the table, unless they name it."""
    try:
        yield
    except InvalidRequestError as error:
        kind = type(error)
        named = (InvalidRequestError, UnknownColumnError, ReplacedColumnsError)
        if kind not in named or table in error.message:
            raise
        raise kind(f"{table}: {error.message}", error.error_class) from error


class MissingDependencyError(InvalidRequestError, ImportError):
    """A program or package that the call needs is not installed."""


class UnsupportedStorageError(InvalidRequestError):
    """The store lacks the exclusive create that commits need."""


class TableNotFoundError(DeltaOpsError):
    """There is no Delta table at this location."""

    def __init__(self, table: str, cure: str = "") -> None:
        super().__init__(table, cure)
        self.table = table
        self.cure = cure or "Check the path, or create the table by writing to it."

    def _sentence(self) -> str:
        return (
            f"{self.table} is not a Delta table: it has no commit and no checkpoint under "
            f"_delta_log. {self.cure}"
        )


class TableExistsError(DeltaOpsError):
    """A table exists where a new table should be created; nothing was written."""

    def __init__(self, table: str, is_named: bool = False) -> None:
        super().__init__(table, is_named)
        self.table = table
        self.is_named = is_named
        """Whether `table` is a name in a catalog."""

    def _sentence(self) -> str:
        return (
            f"{self.table} is already a table. Nothing was written; append to it, overwrite it, "
            "or write to another path."
        )


class VersionNotFoundError(DeltaOpsError):
    """The table cannot be read at the requested version or time."""

    def __init__(self, table: str, requested: str, reason: str) -> None:
        super().__init__(table, requested, reason)
        self.table, self.requested, self.reason = table, requested, reason

    def _sentence(self) -> str:
        return f"{self.table} cannot be read at {self.requested}: {self.reason}."

    @property
    def is_too_late(self) -> bool:
        """Whether the requested time is after the latest version."""
        return self.reason.startswith("that is after its latest version")

    @property
    def asked(self) -> str:
        """Alias of `requested`."""
        return self.requested


class UnsupportedFeatureError(DeltaOpsError):
    """The table requires a feature that delta_ops does not support."""

    def __init__(self, table: str, features: tuple[str, ...], to: str) -> None:
        super().__init__(table, features, to)
        self.table, self.features, self.to = table, features, to

    def _sentence(self) -> str:
        return (
            f"{self.table} cannot be {self.to}: it uses {', '.join(self.features)}, which this "
            "version of delta_ops does not support. Use an engine that does, or drop the feature."
        )


class OutsideFileError(DeltaOpsError):
    """A file in the log is outside of the table and may not be read."""

    def __init__(self, table: str, file: str, reason: str) -> None:
        super().__init__(table, file, reason)
        self.table, self.file, self.reason = table, file, reason

    def _sentence(self) -> str:
        return f"{self.table}: file {self.file} lies outside of the table: {self.reason}."


class LogCorruptError(DeltaOpsError):
    """The transaction log contradicts the protocol."""

    def __init__(self, table: str, file: str, reason: str) -> None:
        super().__init__(table, file, reason)
        self.table, self.file, self.reason = table, file, reason

    def _sentence(self) -> str:
        return f"{self.table}: {self.file}: {self.reason}."


class LogPathError(LogCorruptError):
    """The log has an error about a file; `file` is the file's path in the log."""


class DataFileError(DeltaOpsError):
    """A data file in the log is missing, unreadable or contradicts the log."""

    def __init__(self, table: str, version: int, file: str, reason: str) -> None:
        super().__init__(table, version, file, reason)
        self.table, self.version, self.file, self.reason = table, version, file, reason

    def _sentence(self) -> str:
        return f"{self.table}, version {self.version}: data file {self.file} {self.reason}."


class DeletedMeanwhileError(DataFileError):
    """Files were deleted while a commit restored them to the table.

    `undone_by` is the version that removed them again; None if the commit was not undone.
    """

    def __init__(
        self, table: str, version: int, file: str, reason: str, undone_by: int | None = None
    ) -> None:
        super().__init__(table, version, file, reason)
        self.args = (table, version, file, reason, undone_by)
        self.undone_by = undone_by


class CommitConflictError(DeltaOpsError):
    """A concurrent commit invalidates this one; nothing was committed."""

    def __init__(
        self, table: str, version: int, reason: str, kind: str = "", evidence: tuple[str, ...] = ()
    ) -> None:
        """Store which commit conflicts with ours, and why.

        Args:
            kind: `transaction.ConflictKind`, or "" for any other reason.
            evidence: Some of the affected files, application ids or domains.
        """
        super().__init__(table, version, reason, kind, evidence)
        self.table, self.version, self.reason = table, version, reason
        self.kind, self.evidence = kind, evidence

    def _sentence(self) -> str:
        return (
            f"{self.table}: version {self.version} was committed first and {self.reason}. "
            "Re-read the table and run the operation again."
        )


class PublishConflictError(CommitConflictError):
    """Main got a commit that the branch contradicts; it was neither published nor rebased."""

    def __init__(
        self,
        table: str,
        version: int,
        reason: str,
        kind: str = "",
        evidence: tuple[str, ...] = (),
        branch: str = "",
        cure: str = "",
        verb: str = "published",
    ) -> None:
        """Store which commit conflicts with the branch.

        Args:
            verb: The failed change of the branch: `published` or `rebased`.
        """
        super().__init__(table, version, reason, kind, evidence)
        self.args = (table, version, reason, kind, evidence, branch, cure, verb)
        self.branch, self.cure, self.verb = branch, cure, verb

    def _sentence(self) -> str:
        return (
            f"{self.table}: branch {self.branch!r} cannot be {self.verb}, because version "
            f"{self.version} was committed to main since the branch began and {self.reason}. "
            f"{self.cure}."
        )


class ReleaseConflictError(DeltaOpsError):
    """Another release was made first, or this release was given up; nothing was released."""

    def __init__(self, release_set: str, reason: str, cure: str) -> None:
        super().__init__(release_set, reason, cure)
        self.release_set, self.reason, self.cure = release_set, reason, cure

    def _sentence(self) -> str:
        return f"{self.release_set}: {self.reason}, so nothing was released. {self.cure}."


class SessionConflictError(CommitConflictError):
    """The rows of a session contradict a commit of main, or each other; nothing was committed."""

    def __init__(
        self,
        table: str,
        version: int,
        reason: str,
        kind: str = "",
        evidence: tuple[str, ...] = (),
        steps: tuple[str, ...] = (),
        cure: str = "",
    ) -> None:
        """Store the conflict.

        Args:
            version: The commit of main, or the base version if two steps contradict each other.
            reason: Why the session conflicts with the commit, as a sentence.
            steps: The steps to run again, as far as they are known.
        """
        super().__init__(table, version, reason, kind, evidence)
        self.args = (table, version, reason, kind, evidence, steps, cure)
        self.steps, self.cure = steps, cure

    def _sentence(self) -> str:
        return f"{self.table}: {self.reason}. {self.cure}."


class ChunkConflictError(CommitConflictError):
    """Another commit, or another writer of the session, has changed keys that a session changes."""

    def __init__(
        self,
        table: str,
        version: int,
        keys: tuple[str, ...],
        node: str,
        coordinates: tuple[tuple[int, ...], ...],
        reason: str,
        cure: str,
    ) -> None:
        """Store the conflict.

        Args:
            version: The version of main that the session cannot follow.
            keys: The keys of the conflict; for metadata, the keys that a change depends on.
            node: The node of the first key, such as `/air/temperature`.
            coordinates: The places of these chunks of the node in its chunk grid; empty for
                metadata.
            reason: The conflicting change, as a sentence.
        """
        super().__init__(table, version, reason, "", keys[:10])
        self.args = (table, version, keys, node, coordinates, reason, cure)
        self.keys, self.node, self.coordinates, self.cure = keys, node, coordinates, cure

    def _sentence(self) -> str:
        shown = ", ".join(self.keys[:5])
        more = f" and {len(self.keys) - 5} more" if len(self.keys) > 5 else ""
        return f"{self.table}: key {shown}{more}: {self.reason}. {self.cure}."


class SessionEndedError(DeltaOpsError):
    """The session takes no more rows from this writer; these rows are not in its commit."""

    def __init__(self, table: str, session: str, reason: str, cure: str) -> None:
        super().__init__(table, session, reason, cure)
        self.table, self.session, self.reason, self.cure = table, session, reason, cure

    def _sentence(self) -> str:
        return f"{self.table}: session {self.session} {self.reason}. {self.cure}."


class StaleRunError(DeltaOpsError):
    """A newer run has already written the data that this run would overwrite."""

    def __init__(self, table: str, app_id: str, version: int, stored_version: int) -> None:
        super().__init__(table, app_id, version, stored_version)
        self.table, self.app_id = table, app_id
        self.version, self.stored_version = version, stored_version

    def _sentence(self) -> str:
        return (
            f"{self.table}: {self.app_id} was written by a newer run (txn version "
            f"{self.stored_version}, ours is {self.version}). Nothing was changed; "
            "start a new run if this write is still wanted."
        )


class TableReplacedError(DeltaOpsError):
    """The opened table was replaced by another table, or deleted."""

    def __init__(self, table: str, reason: str, consequence: str = "Nothing was changed.") -> None:
        super().__init__(table, reason, consequence)
        self.table, self.reason, self.consequence = table, reason, consequence

    def _sentence(self) -> str:
        return (
            f"{self.table}: the opened table {self.reason}. {self.consequence} Open the table "
            "again, and check that it is the right table."
        )


class CommitStateUnknownError(DeltaOpsError):
    """The store confirmed neither success nor failure; the commit may or may not exist."""

    def __init__(self, table: str, version: int, txn_id: str, reason: str) -> None:
        super().__init__(table, version, txn_id, reason)
        self.table, self.version, self.txn_id, self.reason = table, version, txn_id, reason

    def _sentence(self) -> str:
        return (
            f"{self.table}: it is not known whether version {self.version} was committed "
            f"({self.reason}). No file was deleted. Read that version: if its commitInfo.txnId is "
            f"{self.txn_id} the commit succeeded, else run the operation again."
        )


class TableBusyError(DeltaOpsError):
    """Another call is working on the table, so this call cannot start or continue."""

    def __init__(self, table: str, reason: str, cure: str) -> None:
        super().__init__(table, reason, cure)
        self.table, self.reason, self.cure = table, reason, cure

    def _sentence(self) -> str:
        return f"{self.table}: {self.reason}. {self.cure}."


class StorageError(DeltaOpsError):
    """The store failed: no space, no permission, no connection."""

    def __init__(self, path: str, action: str, reason: str) -> None:
        super().__init__(path, action, reason)
        self.path, self.action, self.reason = path, action, reason

    def _sentence(self) -> str:
        return f"{self.path} could not be {self.action}: {self.reason}."
