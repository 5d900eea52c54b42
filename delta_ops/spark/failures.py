"""Failures: a failed Spark job as one sentence with a cure; Spark's own error stays its cause."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from delta_ops.errors import DeltaOpsError, InvalidRequestError, StorageError

_STORE_REASONS: Mapping[str, str] = {
    "No space left on device": "no space is left on the device; free some and run again",
    "Disk quota exceeded": "the disk quota is used up; free some space or raise it and run again",
    "Permission denied": "permission is denied; grant it to the user who runs Spark",
    "Read-only file system": "the file system is mounted read-only; mount it for writing",
    "Not a directory": "a part of the path is a file; remove that file or use another path",
    "ParentNotDirectoryException": (
        "a part of the path is a file; remove that file or use another path"
    ),
    "File name too long": (
        "a name is longer than the file system allows, likely a partition value; shorten it"
    ),
    "unmappable characters": (
        "Spark's JVM has a locale without the characters of a partition value or path; start "
        "Python with LC_ALL=C.UTF-8 in the environment and run again"
    ),
    "Input/output error": "the device reports an input/output error; check the disk",
    "Mkdirs failed to create": (
        "Spark could not make a directory in it; check that the disk has space, that the user who "
        "runs Spark may write there, and that no partition value is longer than about 200 bytes"
    ),
}
_SQLSTATE = re.compile(r" SQLSTATE: \w{5}$")
_EXCEPTION = re.compile(r"^(?:Caused by: |: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error): (.+)$", re.M)


@contextlib.contextmanager
def translating_failures(table: str, place: str) -> Iterator[None]:
    """Raise what Spark raises as an error of ours.

    Args:
        table: Whose rows are written.
        place: Where.

    Raises:
        StorageError: The store failed.
        InvalidRequestError: The rows could not be computed.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise failure_of(error, table, place) from error


def failure_of(error: Exception, table: str, place: str) -> DeltaOpsError:
    """The error to raise for one of Spark's."""
    text = f"{error}\n{getattr(error, '_stackTrace', None) or ''}"
    for sign, reason in _STORE_REASONS.items():
        if sign in text:
            return StorageError(place, "written", reason)
    return InvalidRequestError(
        f"{table}: Spark could not compute the rows, and nothing was committed: "
        f"{_reason(error, text)}. Correct the DataFrame or its input, and write again"
    )


def _reason(error: Exception, text: str) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "Traceback (most recent call last):" in lines:  # a Python function's own words come last
        return lines[-1].rstrip(".")
    if isinstance(error, Py4JError):
        lines = _EXCEPTION.findall(text)[-1:] or lines
    return _SQLSTATE.sub("", lines[0]).rstrip(".") if lines else type(error).__name__
