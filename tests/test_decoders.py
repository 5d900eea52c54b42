"""Decoders of JSON are made when their modules are imported.

The first use of a type by two threads at once can end the process with a segmentation fault: one
thread sees the description that msgspec makes of the type before it is complete.
"""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "delta_ops"


def test_no_type_is_decoded_without_a_decoder() -> None:
    calls = re.compile(r"msgspec\.(json\.decode|convert)\(")
    found = [path.name for path in PACKAGE.rglob("*.py") if calls.search(path.read_text())]
    assert found == []


def test_decoders_are_made_at_import() -> None:
    indented = re.compile(r"^ +.*msgspec\.json\.Decoder\(", re.MULTILINE)
    found = {path.name for path in PACKAGE.rglob("*.py") if indented.search(path.read_text())}
    # One is in a table of its module, the other in a function that its module calls.
    assert found <= {"session_files.py", "file_actions.py"}
