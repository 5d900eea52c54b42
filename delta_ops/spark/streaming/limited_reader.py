"""Limited reader: a Python stream source with the limits of the reader; since Spark 4.2."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from delta_ops.planning.stream_slices import SliceLimits
from delta_ops.spark.streaming.table_reader import TableReader, offset_of


class LimitedReader(TableReader, SupportsTriggerAvailableNow):
    """A table whose batches have the limits of the reader's options."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """See Spark; `latestOffset` applies the limits of the reader's options."""
        return ReadMaxFiles(2**31 - 1)

    def latestOffset(  # type: ignore[override]  # noqa: N802
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        """See Spark."""
        limits = SliceLimits() if isinstance(limit, ReadAllAvailable) else None
        end = self._stream.end_after(offset_of(start), limits)
        return start if end is None else dict(json.loads(end.to_json()))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """See Spark."""
        self._stream.stop_at_latest()
