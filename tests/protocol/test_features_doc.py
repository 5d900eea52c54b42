"""The page of features matches the script's output."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "write_features.py"


def test_the_page_of_features_is_up_to_date() -> None:
    made = runpy.run_path(str(SCRIPT))
    assert made["PLACE"].read_text() == made["text"](), "run scripts/write_features.py"
