"""The example of docs/format-delta.md, as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delta_ops import DeltaLog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "format-delta.md"


def test_the_example_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(example, PAGE.name, "exec"), {"__name__": "__main__"})
    assert DeltaLog("lake/orders-by-format").snapshot().version == 1
