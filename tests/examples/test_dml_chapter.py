"""The examples of docs/dml.md, as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import delta_ops.arrow as da
from tests.support.tables import rows, rows_by_deltalake

PAGE = Path(__file__).resolve().parents[2] / "docs" / "dml.md"


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for example in examples:
        exec(compile(example, PAGE.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.startswith("1 1\n")
    found = rows(da.to_table("lake/orders"))
    assert [(row["id"], row["price"], row["state"]) for row in found] == [
        (1, 15.0, "paid"),
        (2, 25.0, "new"),
        (4, 40.0, "new"),
    ]
    assert rows_by_deltalake(tmp_path / "lake" / "orders") == found
