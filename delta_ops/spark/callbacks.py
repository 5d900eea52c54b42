"""Callbacks: Python functions as `java.util.function.Function`, for our Java code."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from delta_ops.errors import DeltaOpsError
from delta_ops.spark.java_classes import java_class
from delta_ops.spark.session.error_conditions import delta_condition

logger = logging.getLogger(__name__)


def accept_callbacks(spark: SparkSession) -> None:
    """Start the server that receives callbacks, once in a process.

    Args:
        spark: A classic session.
    """
    context: Any = spark.sparkContext
    start: Callable[[Any], None] = ensure_callback_server_started
    start(context._gateway)


class Callback:
    """A Python function that Java calls.

    Errors are returned as Java exceptions, and our Java code throws them. The message of the cause
    is the reference's error class, if it has one. A thread of Java runs the function with the
    context variables of the code that made the callback.
    """

    def __init__(self, function: Callable[[Any], Any], context: Any) -> None:
        self._function, self._context = function, context
        self._variables = copy_context()

    def apply(self, question: Any) -> Any:
        """Run the function for one call."""
        try:
            return self._variables.copy().run(self._function, question)
        except DeltaOpsError as error:
            condition = delta_condition(error)
            cause = None if condition is None else self._exception(condition)
            return self._exception(str(error), cause)
        except Exception as error:
            logger.exception("A call from Spark failed")
            return self._exception(f"{type(error).__name__}: {error}")

    def _exception(self, text: str, cause: Any = None) -> Any:
        made = java_class(self._context._jvm, "java.lang.IllegalStateException")
        return made(text) if cause is None else made(text, cause)

    class Java:
        """Declares the Java interface to Py4J."""

        implements = ("java.util.function.Function",)
