"""The examples of docs/ddl.md, as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, ddl
from delta_ops.ddl.features import DROPPABLE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ddl.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert examples
    names: dict[str, object] = {"__name__": "__main__"}
    for example in examples:
        exec(compile(example, PAGE.name, "exec"), names)
    log = DeltaLog("lake/orders")
    assert [each.name for each in log.snapshot().schema.fields] == [
        "price",
        "id",
        "discount",
        "address",
    ]
    assert [entry.operation for entry in log.history()] == [
        "DROP FEATURE",
        "SET TBLPROPERTIES",
        "DROP CONSTRAINT",
        "CHANGE COLUMN",
        "ADD CONSTRAINT",
        "SET TBLPROPERTIES",
        "REPLACE COLUMNS",
        "CHANGE COLUMN",
        "ADD COLUMNS",
        "ADD COLUMNS",
        "WRITE",
    ]
    assert da.to_table(log)["price"].to_pylist() == [9.5, 20.0]
    assert da.to_table("lake/orders_to_try").to_pylist() == da.to_table(log).to_pylist()
    assert list(Path("lake/visits").rglob("*")) == []


def test_the_page_names_every_function_and_every_feature_that_can_be_dropped() -> None:
    page = PAGE.read_text()
    functions = {name for name in ddl.__all__ if name[0].islower()}
    assert {name for name in functions if name not in page} == set()
    assert {name for name in DROPPABLE if f"| `{name}` |" not in page} == set()
