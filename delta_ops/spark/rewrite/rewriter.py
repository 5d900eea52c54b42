"""Rewriter: `Engine.rewrite` of the Spark engine, for several groups at once.

A small group is only one task, so groups run concurrently.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from delta_ops.log import Snapshot
from delta_ops.spark.rewrite.rewrite import rewrite_group
from delta_ops.spark.session import jobs
from delta_ops.spark.session.session import is_connect
from delta_ops.transaction import RewriteGroup, Staged
from delta_ops.transaction.rewrite_group import Rewriter, Together

_MOST_AT_ONCE = 32
_AT_ONCE_REMOTELY = 4
"""For Connect: a client cannot see how many tasks the server can run."""


class SparkRewriter:
    """See `ParallelRewriter`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def num_at_once(self) -> int:
        """Number of groups to run concurrently."""
        if is_connect(self._spark):
            return _AT_ONCE_REMOTELY
        return min(self._spark.sparkContext.defaultParallelism, _MOST_AT_ONCE)

    @contextmanager
    def together(self) -> Iterator[Together]:
        """See `ParallelRewriter`."""
        with jobs.together(self._spark) as calls:
            yield _Together(self, calls)

    def __call__(self, snapshot: Snapshot, group: RewriteGroup) -> Staged:
        """Rewrite a group."""
        return rewrite_group(self._spark, snapshot, group)


class _Together:
    """See `transaction.rewrite_group.Together`."""

    def __init__(self, engine: SparkRewriter, calls: jobs.Together) -> None:
        self._engine, self._calls = engine, calls

    def rewriter(self) -> Rewriter:
        """See `Together`."""
        return self._calls.bind(self._engine)

    def cancel(self) -> None:
        """See `Together`."""
        self._calls.cancel()
