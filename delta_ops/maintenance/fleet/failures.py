"""Failures of single tables in a fleet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from delta_ops.errors import DeltaOpsError

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a table has no result."""

    kind: str
    """The name of the error's class."""
    message: str


def failure_of(error: Exception) -> Failure:
    """The class and the message of an error; an unexpected error gets a general message."""
    if isinstance(error, DeltaOpsError):
        return Failure(kind=type(error).__name__, message=str(error))
    message = (
        f"delta_ops failed with an unexpected {type(error).__name__}; run the operation on this "
        "table alone, and report the error"
    )
    return Failure(kind=type(error).__name__, message=message)


def attempt(call: Callable[[], T]) -> tuple[T | None, Failure | None]:
    """The result of a call, or a `Failure`: an error of one table does not stop the others."""
    try:
        return call(), None
    except DeltaOpsError as error:
        return None, failure_of(error)
    except Exception as error:
        logger.debug("A table of a fleet failed", exc_info=error)
        return None, failure_of(error)
