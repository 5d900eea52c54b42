"""Exceptions: delta-spark's exception types, and the conversion of our errors to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from pyspark.errors import PySparkException

from delta_ops.errors import (
    CommitConflictError,
    DeltaOpsError,
    InvalidRequestError,
    MissingDependencyError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.option_words import Surface, speaking
from delta_ops.spark.session.error_conditions import analysis_error, delta_condition
from delta_ops.spark.versions import error_with_condition

P = ParamSpec("P")
R = TypeVar("R")


class DeltaConcurrentModificationException(PySparkException):
    """A concurrent commit invalidates this commit; no more specific exception type applies."""


class ConcurrentWriteException(PySparkException):
    """A concurrent commit wrote data that this operation had read."""


class MetadataChangedException(PySparkException):
    """A concurrent commit changed the columns or properties of the table."""


class ProtocolChangedException(PySparkException):
    """A concurrent commit changed the protocol of the table."""


class ConcurrentAppendException(PySparkException):
    """A concurrent commit added rows that this operation would have read."""


class ConcurrentDeleteReadException(PySparkException):
    """A concurrent commit deleted rows that this operation had read."""


class ConcurrentDeleteDeleteException(PySparkException):
    """A concurrent commit deleted data that this operation deletes."""


class ConcurrentTransactionException(PySparkException):
    """A concurrent commit set the same application id."""


_BY_KIND: Mapping[str, type[PySparkException]] = {
    "": ConcurrentWriteException,
    "protocol": ProtocolChangedException,
    "metadata": MetadataChangedException,
    "txn": ConcurrentTransactionException,
    "concurrent append": ConcurrentAppendException,
    "delete read": ConcurrentDeleteReadException,
    "delete delete": ConcurrentDeleteDeleteException,
}
_OF_THE_CALL = (
    InvalidRequestError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)


def translating(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that its errors become delta-spark's exceptions."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        with translating_errors():
            return function(*args, **options)

    return call


@contextmanager
def translating_errors(surface: Surface = Surface.DELTA_TABLES) -> Iterator[None]:
    """Raise errors of the body as delta-spark's exceptions.

    Errors of the store and of damaged logs have no such exception and stay unchanged.

    Args:
        surface: Where the caller writes options.
    """
    try:
        with speaking(surface):
            yield
    except DeltaOpsError as error:
        found = exception_of(error)
        if found is None:
            raise
        raise found from error


def exception_of(error: DeltaOpsError) -> PySparkException | None:
    """delta-spark's exception for an error; None if there is none."""
    match error:
        case CommitConflictError(kind=kind):
            made = _BY_KIND.get(kind, DeltaConcurrentModificationException)
            return error_with_condition(made, str(error), delta_condition(error))
        case MissingDependencyError():
            return None
    if isinstance(error, _OF_THE_CALL):
        return analysis_error(error)
    return None
