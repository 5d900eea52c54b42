"""Spark's exceptions become clear errors; needs no session."""

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from delta_ops.errors import StorageError
from delta_ops.spark.session.failures import translating_failures


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        ConnectionResetError(104, "Connection reset by peer"),
        Py4JNetworkError("Answer from Java side is empty"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_jvm_that_does_not_answer_has_ended(error: Exception) -> None:
    with (
        pytest.raises(StorageError, match="Spark's JVM has ended before it was done") as reported,
        translating_failures("/t", "/t/w-1"),
    ):
        raise error
    assert reported.value.__cause__ is error


@pytest.mark.parametrize(
    "message",
    [
        "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_357_1 not found!",
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure:"
        " Lost task 0.3 in stage 3.0 (TID 9): ExecutorLostFailure (executor 4 exited caused by one"
        " of the running tasks) Reason: Command exited with code 137",
    ],
)
def test_an_executor_that_has_ended_is_reported(message: str) -> None:
    with (
        pytest.raises(StorageError, match=r"an executor has ended and lost.*run again"),
        translating_failures("/t", "/t/w-1"),
    ):
        raise PySparkException(message)


@pytest.mark.parametrize(
    "cause",
    [
        "org.apache.hadoop.fs.s3a.AWSStatus500Exception: Writing Object on lake/t/a.parquet: "
        "S3Exception: no (Service: S3, Status Code: 500, Request ID: null) (SDK Attempt Count: 4)",
        "org.apache.hadoop.fs.s3a.AWSServiceIOException: Writing Object on lake/t/a.parquet: "
        "S3Exception: Please reduce your request rate. (Service: S3, Status Code: 503)",
        "org.apache.hadoop.fs.azurebfs.contracts.exceptions.AbfsRestOperationException: Operation "
        'failed: "Server failed to authenticate", 500, PUT, https://x',
        "org.apache.hadoop.fs.s3a.RemoteFileChangedException: append: the file has changed",
    ],
)
def test_a_store_that_fails_is_named_and_not_the_rows(cause: str) -> None:
    message = "[TASK_WRITE_FAILED] Task failed while writing rows to s3a://b/t. SQLSTATE: 58030"
    with (
        pytest.raises(StorageError, match=r"s3a://b/t/w-1 could not be written: the store fail"),
        translating_failures("s3://b/t", "s3a://b/t/w-1"),
    ):
        raise PySparkException(f"{message}\n\tat org.x.Y.z(Y.java:1)\nCaused by: {cause}")
