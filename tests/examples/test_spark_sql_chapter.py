"""The examples of docs/spark-sql.md, as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delta_ops import DeltaLog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-sql.md"


def test_the_examples_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for example in examples:
        exec(compile(example, PAGE.name, "exec"), {"__name__": "__main__"})
    assert len(examples) == 2
    assert next(DeltaLog("lake/orders-by-sql").history(1)).operation == "RESTORE"
