"""The examples of docs/layout.md, as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "layout.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    first, explained, sort_key, merges, bloom_filters, second, third = examples
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(first, PAGE.name, "exec"), names)
    log = DeltaLog("orders")
    assert log.snapshot().num_files == 1
    items = da.to_table(log)["item"].to_pylist()
    assert sorted(items) == list(range(300)) != items
    assert [entry.operation for entry in log.history()][:2] == ["OPTIMIZE", "OPTIMIZE"]
    exec(compile(explained, PAGE.name, "exec"), names)
    assert len(names["plan"]) == 1
    assert "statistics of item" in str(names["plan"])
    exec(compile(sort_key, PAGE.name, "exec"), names)
    exec(compile(merges, PAGE.name, "exec"), names)
    exec(compile(bloom_filters, PAGE.name, "exec"), names)
    configuration = log.snapshot().metadata.configuration
    named = [configuration[f"delta_ops.{each}"] for each in ("sortKey", "bloomFilterColumns")]
    assert named == ["item", "item"]
    exec(compile(second, PAGE.name, "exec"), names)
    assert da.count_rows(log) == 301
    exec(compile(third, PAGE.name, "exec"), names)
    assert names["advice"].num_reads >= 1
    assert names["advice"].layouts[0].columns == ("customer",)
