"""Answers: whether an operation's result or error is true."""

from __future__ import annotations

from collections.abc import Iterator

from delta_ops import DeltaLog
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DataFileError,
    DeltaOpsError,
    InvalidRequestError,
    LogCorruptError,
    ReleaseConflictError,
    SessionEndedError,
    StorageError,
    TableBusyError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.maintenance import (
    LogCleanupResult,
    LogCompactionResult,
    RestorePlan,
    VacuumResult,
)
from delta_ops.versioning import Branch, Release, Tag
from tests.interleaving.cases import Case
from tests.interleaving.readers import commit_differences


def untrue_answers(case: Case) -> Iterator[str]:
    """A sentence for each untrue answer; a killed operation gave no answer."""
    for name, outcome in case.run.outcomes.items():
        if outcome.error is None:
            yield from _untrue_result(case, name, outcome.value)
        elif not outcome.is_killed:
            yield from _untrue_error(case, name, outcome.error)


def was_done_before(result: object) -> bool:
    """Whether an operation reports that its work was already done."""
    names = ("already_committed", "already_published")
    return any(getattr(result, name, False) for name in names)


def _untrue_result(case: Case, name: str, result: object) -> Iterator[str]:
    if isinstance(result, Tag | Branch | Release):
        return  # its version is that of another commit; `checks` reads it
    version = getattr(result, "version", None)
    own = [commit.version for commit in case.commits(name)]
    operation = case.actors[name].operation
    if was_done_before(result):
        makers = [each.who for each in case.commits() if each.version == version]
        if own:
            yield f"{name} says that it was done before, and committed version {own[0]}"
        elif version is not None and not any(_requests_same(case, name, who) for who in makers):
            yield f"{name} says that version {version} has done it before"
        return
    if operation.always_commits and version is None:
        yield f"{name} says that it had nothing to do"
    if version is not None and version not in own:
        yield f"{name} says that version {version} is its own"
    if len(own) > (version is not None) and not operation.is_many:
        yield f"{name} committed versions {own}, and reports {version}"
    yield from _untrue_figures(case, name, result)


def _requests_same(case: Case, name: str, maker: str) -> bool:
    """Whether two operations make the same call, or restored the same version."""
    if case.actors[name].operation.run is case.actors[maker].operation.run:
        return True
    plans = [getattr(case.run.outcomes[who].value, "plan", None) for who in (name, maker)]
    restored = [each.version for each in plans if isinstance(each, RestorePlan)]
    return len(restored) == 2 and restored[0] == restored[1]


def _untrue_figures(case: Case, name: str, result: object) -> Iterator[str]:
    deletions = [step for step in case.run.steps if step.call.method == "delete_many"]
    deleted = sum(step.who == name and not step.error for step in deletions)
    match result:
        case (
            VacuumResult(deleted_files=reported_files)
            | LogCleanupResult(deleted_files=reported_files)
        ):
            if reported_files != deleted:
                yield f"{name} says that it deleted {reported_files} files, and deleted {deleted}"
    if isinstance(result, LogCleanupResult) and case.deleted_at is None:
        earliest = result.earliest_version
        if earliest is not None:
            DeltaLog(case.root).snapshot(earliest)
    if isinstance(result, LogCompactionResult) and result.written and case.deleted_at is None:
        plan = result.plan
        yield from commit_differences(case.root, plan.start_version, plan.end_version)


def _untrue_error(case: Case, name: str, error: BaseException) -> Iterator[str]:
    reported = f"{name} raised {type(error).__name__}: {error}"
    if not isinstance(error, DeltaOpsError):
        yield reported
        return
    kept = [version for version, commit in case.left_commits().items() if commit.who == name]
    is_reported = case.actors[name].operation.is_many or isinstance(error, CommitStateUnknownError)
    if case.deleted_at is None and not (
        _is_provoked(case, name, error) and (is_reported or not kept)
    ):
        yield reported + (f"; and version {kept[0]} is its own" if kept else "")


def _runs_beside(case: Case, name: str, other: str) -> bool:
    """Whether another operation is of this kind."""
    return other in {case.actors[each].operation.name for each in case.run.outcomes if each != name}


def _is_provoked(case: Case, name: str, error: DeltaOpsError) -> bool:
    """Whether the other operation, or the store, explains such an error."""
    others = [commit for commit in case.commits() if commit.who != name]
    taken = case.takes()
    match error:
        case CommitConflictError():
            return bool(others)
        case SessionEndedError():
            is_brief = case.actors[name].operation.name == "session-brief"
            return is_brief and not {"removed files", "old files"}.isdisjoint(taken)
        case ReleaseConflictError():
            kinds = [case.actors[each].operation.name for each in case.run.outcomes]
            return kinds.count("release") > 1
        case DataFileError():
            return not {"removed files", "old files"}.isdisjoint(taken)
        case TableNotFoundError():
            return not case.scene.versions
        case TableBusyError():
            return not {"removed files", "old files", "old commits"}.isdisjoint(taken)
        case VersionNotFoundError():
            is_taken = not {"removed files", "old files", "old commits"}.isdisjoint(taken)
            return len(case.scene.versions) <= 2 or is_taken
        case InvalidRequestError() if _runs_beside(case, name, "drop-index"):
            return True
        case InvalidRequestError():
            return bool(others) or len(case.scene.versions) <= 2 or "old commits" in taken
        case LogCorruptError():
            # A log may show a version before the previous version; or a whole checkpoint may be
            # replaced by its parts during a read.
            return case.order.lag > 0 or _runs_beside(case, name, "checkpoint-parts")
        case StorageError() | CommitStateUnknownError():
            return case.order.lost is not None and case.order.lost[0] == name
    return False
