"""Error conditions: the reference's error classes of our errors, for code that catches them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException, PySparkException

from delta_ops.errors import (
    BrokenRuleError,
    CommitConflictError,
    DeltaOpsError,
    InvalidRequestError,
    RepeatedMatchError,
    ReplacedColumnsError,
    TableExistsError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.spark.versions import error_condition, error_with_condition

_CONFLICTS: Mapping[str, str] = {
    "": "DELTA_CONCURRENT_WRITE",
    "protocol": "DELTA_PROTOCOL_CHANGED",
    "metadata": "DELTA_METADATA_CHANGED",
    "txn": "DELTA_CONCURRENT_TRANSACTION",
    "concurrent append": "DELTA_CONCURRENT_APPEND",
    "delete read": "DELTA_CONCURRENT_DELETE_READ",
    "delete delete": "DELTA_CONCURRENT_DELETE_DELETE",
}
"""The reference's error classes of conflicts."""
_UNRESOLVED: Mapping[type[DeltaOpsError], str] = {
    UnknownColumnError: "UNRESOLVED_COLUMN.WITH_SUGGESTION"
}
"""Spark's conditions of errors that Spark did not cause."""
_RAISED = "USER_RAISED_EXCEPTION"
"""Spark's condition of an error that an expression raises."""


def analysis_error(error: DeltaOpsError) -> AnalysisException:
    """The error as Spark's error about a statement, with the reference's error class."""
    return error_with_condition(AnalysisException, str(error), delta_condition(error))


def delta_condition(error: DeltaOpsError) -> str | None:
    """The reference's error class of an error; None if it has none."""
    match error:
        case InvalidRequestError(error_class=str() as found):
            return found
        case CommitConflictError(kind=kind):
            return _CONFLICTS.get(kind)
        case BrokenRuleError(rule=rule) if rule.startswith("NOT NULL"):
            return "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
        case BrokenRuleError(rule=rule) if rule.startswith("CHECK"):
            return "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
        case ReplacedColumnsError():
            return "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"
        case RepeatedMatchError():
            return "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
        case TableNotFoundError():
            return "DELTA_MISSING_DELTA_TABLE"
        case TableExistsError(is_named=is_named):
            return "TABLE_OR_VIEW_ALREADY_EXISTS" if is_named else "DELTA_TABLE_ALREADY_EXISTS"
        case VersionNotFoundError(requested=requested) if requested.startswith("timestamp "):
            end = "GREATER_THAN_COMMIT" if error.is_too_late else "EARLIER_THAN_COMMIT_RETENTION"
            return f"DELTA_TIMESTAMP_{end}"
        case VersionNotFoundError(requested=requested) if requested.startswith("version "):
            return "DELTA_VERSION_NOT_FOUND"
        case UnsupportedFeatureError(to=to):
            end = "READ" if to == "read" else "WRITE"
            return f"DELTA_UNSUPPORTED_FEATURES_FOR_{end}"
        case InvalidRequestError():
            return _condition_of_cause(error) or _UNRESOLVED.get(type(error))
    return None


def _condition_of_cause(error: DeltaOpsError) -> str | None:
    """The condition of the error that caused an error."""
    match error.__cause__:
        case DeltaOpsError() as cause:
            return delta_condition(cause)
        case PySparkException() as cause:
            found = error_condition(cause)
            return None if found == _RAISED else found
    return None
