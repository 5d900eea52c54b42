"""Failures: converts the error of a Spark job to one sentence with a cure.

Spark's own error is kept as its cause.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    MissingDependencyError,
    StorageError,
)
from delta_ops.option_words import option
from delta_ops.storage.failures import scrub

_STORE_REASONS: Mapping[str, str] = {
    "No space left on device": (
        "no space is left on the device of the table or of a worker's spark.local.dir; free some "
        "and run again"
    ),
    "File too large": (
        "a file is larger than the file system, or a limit of the process, allows; raise the "
        "limit, or repartition the rows into more tasks"
    ),
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
_OF_STORES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"UnknownStoreException|NoSuchBucket|ContainerNotFound|FilesystemNotFound|"
            r"specified (?:bucket|container|filesystem) does not exist"
        ),
        "its bucket or container does not exist; check its name and the endpoint",
    ),
    (
        re.compile(
            r"AccessDenied|AccountIsDisabled|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|"
            r"InvalidToken|AuthenticationFailed|AuthorizationFailure|AuthorizationPermission|"
            r"NoAuthWithAWS|NoAwsCredentials|KeyProviderException|Status Code: 40[13]\b|"
            r", 40[13],|\b40[13] (?:Forbidden|Unauthorized)|InvalidConfigurationValueException|"
            r"Unable to load credentials|TokenAccessProviderException|AzureADAuthenticator"
        ),
        "the store rejects the credentials; check the credentials in "
        "{storage_options}, that they have not expired, and that they allow listing, reading and "
        "writing",
    ),
    (
        re.compile(
            r"UnknownHost|ConnectException|ConnectTimeout|SocketTimeout|NoRouteToHost|"
            r"Connection (?:refused|reset)|NoHttpResponse|SSL(?:Handshake)?Exception"
        ),
        "its endpoint does not answer; check the address and the network, and run again",
    ),
    (
        re.compile(
            r"Status Code: 5\d\d\b|, 5\d\d,|\b50[0-4] [A-Z]|AWSStatus500Exception|"
            r"AWSServiceThrottledException|ServerErrorException"
        ),
        "the store fails or is overloaded, and did so at each try; run again later, or set more "
        "retries in the session: fs.s3a.retry.limit for S3, fs.azure.io.retry.max.retries for "
        "Azure",
    ),
    (
        re.compile(
            r"ClassNotFoundException: (?:Class )?(?:org\.apache\.hadoop\.fs|software\.amazon)|"
            r"NoSuchMethodError|NoClassDefFoundError|NoSuchFieldError"
        ),
        "Hadoop's connector for the store is missing or does not fit the session's Hadoop "
        "version; set spark.jars.packages to the connector that delta_ops.spark.packages names, "
        "and no other",
    ),
)
_IN_STORE = re.compile(r"org\.apache\.hadoop\.fs\.(?:s3a|gs|azurebfs)\.")
"""Class names of store clients.

Text like "Connection refused" alone may also come from a user function or another service.
"""
_RAISED_BY_STORE = re.compile(
    r"^Caused by: org\.apache\.hadoop\.fs\.(?:s3a|gs|azurebfs)\.[\w.$]*(?:Exception|Error)\b", re.M
)
_JVM_IS_GONE = (
    "Spark's JVM has ended before it was done, and nothing was committed; find the cause in its "
    "log or the machine's log, often a lack of memory (spark.driver.memory, or the container's "
    "limit), and run again with a new session"
)
_EXECUTOR_IS_GONE = (
    "an executor has ended and lost cached or unwritten rows, and nothing was committed; find "
    "the cause in its log or its machine's log, often a lack of memory, and run again"
)
_JAVA_IS_TOO_NEW = "getSubject is not supported"
"""The message of Java 24 and later to the Hadoop of Spark before 4.2."""
_LOST = re.compile(r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|ExecutorLostFailure")
_GONE = re.compile(r"FILE_NOT_EXIST|java\.io\.FileNotFoundException")
_ERROR_CLASS = re.compile(r"\[(DELTA_CAST_OVERFLOW_IN_TABLE_WRITE|CAST_INVALID_INPUT)\] ")
"""The error class in an error of our own expressions."""
_SQLSTATE = re.compile(r" SQLSTATE: \w{5}$")
_EXCEPTION = re.compile(r"^(?:Caused by: |: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error): (.+)$", re.M)


@contextlib.contextmanager
def translating_failures(table: str, place: str) -> Iterator[None]:
    """Convert Spark errors to delta_ops errors.

    Args:
        table: The table of the operation.
        place: The written location.

    Raises:
        StorageError: The store failed, or the JVM or an executor has ended.
        InvalidRequestError: The rows could not be computed.
    """
    try:
        yield
    except (ConnectionError, Py4JNetworkError) as error:  # the JVM did not answer
        raise StorageError(place, "written", _JVM_IS_GONE) from error
    except (PySparkException, Py4JError) as error:
        raise failure_of(error, table, place) from error


def failure_of(error: Exception, table: str, place: str) -> DeltaOpsError:
    """Convert an error of Spark."""
    text = f"{error}\n{getattr(error, '_stackTrace', None) or ''}"
    if _JAVA_IS_TOO_NEW in text:
        return MissingDependencyError(
            f"{table}: Java 24 and later lack a method that this Hadoop calls, and nothing "
            "was committed; start Spark with Java 17, or use Spark 4.2 or later"
        )
    for sign, of_disk in _STORE_REASONS.items():
        if sign in text:
            return StorageError(place, "written", of_disk)
    reason = _reason_of_store(text) if _IN_STORE.search(text) else None
    if reason is not None:
        hint = "if the rows come from another store, check that store too"
        return StorageError(place, "written", f"{reason}; {hint}")
    if _RAISED_BY_STORE.search(text):
        reason = f"the store failed ({_reason(error, text)}); check it, and run again"
        return StorageError(place, "written", reason)
    if _LOST.search(text):
        return StorageError(place, "written", _EXECUTOR_IS_GONE)
    if _GONE.search(text):
        return InvalidRequestError(
            f"{table}: a source file of the rows is missing, and nothing was committed: "
            f"{_reason(error, text)}. A vacuum of the source table may have deleted it: read that "
            "table again, and write again"
        )
    reason = _reason(error, text)
    raised = _ERROR_CLASS.search(reason)
    return InvalidRequestError(
        f"{table}: Spark could not compute the rows, and nothing was committed: "
        f"{_ERROR_CLASS.sub('', reason)}. Correct the DataFrame or its input, and write again",
        raised[1] if raised else None,
    )


def store_failure(error: Exception, place: str) -> StorageError | None:
    """Convert a store's error; None if it only means that a file is missing."""
    text = str(error)
    if _reason_of_store(text) is None and _GONE.search(text):
        return None
    return StorageError(place, "reached by Spark", reason_of_store(error))


def reason_of_store(error: Exception) -> str:
    """Explain why a store did not answer, with the cure."""
    text = str(error)
    return _reason_of_store(text) or (
        f"{_reason(error, text)}; check {option('storage_options')} and the "
        "session's settings of Hadoop"
    )


def _reason_of_store(text: str) -> str | None:
    found = next((reason for pattern, reason in _OF_STORES if pattern.search(text)), None)
    return found and found.replace("{storage_options}", option("storage_options"))


def _reason(error: Exception, text: str) -> str:
    return scrub(_first_reason(error, text), {})


def _first_reason(error: Exception, text: str) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "Traceback (most recent call last):" in lines:  # the error of a Python function comes last
        return lines[-1].rstrip(".")
    if isinstance(error, Py4JError):
        lines = _EXCEPTION.findall(text)[-1:] or lines
    return _SQLSTATE.sub("", lines[0]).rstrip(".") if lines else type(error).__name__
