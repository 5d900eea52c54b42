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
