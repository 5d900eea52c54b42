"""The examples of docs/delta-tables.md, as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import delta_ops.arrow as da
from tests.support.tables import rows

PAGE = Path(__file__).resolve().parents[2] / "docs" / "delta-tables.md"


@pytest.mark.usefixtures("spark")
def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for example in examples:
        exec(compile(example, PAGE.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.startswith("2\n")
    assert sorted((row["id"], row["visits"]) for row in rows(da.to_table("lake/people"))) == [
        (1, 1),
        (2, 1),
    ]
