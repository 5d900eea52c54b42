"""What Spark raises becomes a sentence; needs no session."""

import pytest
from py4j.protocol import Py4JNetworkError

from delta_ops.errors import StorageError
from delta_ops.spark.failures import translating_failures


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
        pytest.raises(StorageError, match="Spark's JVM has ended before it was done") as told,
        translating_failures("/t", "/t/w-1"),
    ):
        raise error
    assert told.value.__cause__ is error
