"""Write docs/features.md from the table that the code goes by: python scripts/write_features.py."""

from __future__ import annotations

from pathlib import Path

from delta_ops.protocol.features import FEATURES, Feature

PLACE = Path(__file__).resolve().parents[1] / "docs" / "features.md"
HEAD = """# Table features

Written by `python scripts/write_features.py` from `delta_ops/protocol/features.py`; do not edit.

What is not supported is refused by name before anything is touched, and so is a feature that is
not in this table. *Open*: history, files, statistics, properties, time travel. *Read* and *write*:
rows. *Restore*: restore, revert and repair, which write no rows. A feature of writers only asks
nothing of readers.

| feature | since reader / writer version | open | read by Arrow | read by Spark | write | restore |
|---|---|---|---|---|---|---|
"""


def text() -> str:
    """The page."""
    return HEAD + "".join(_row(feature) for feature in FEATURES)


def _row(feature: Feature) -> str:
    reader = str(feature.legacy_reader_version or 3) if feature.for_readers else "-"
    writer = str(feature.legacy_writer_version or 7)
    of_readers = (feature.is_opened, feature.is_read, feature.is_read_by_spark)
    read = " | ".join(_said(each or not feature.for_readers) for each in of_readers)
    changed = f"{_said(feature.is_written)} | {_said(feature.is_written or feature.is_kept)}"
    return f"| {feature.name} | {reader} / {writer} | {read} | {changed} |\n"


def _said(supported: bool) -> str:
    return "yes" if supported else "refused"


if __name__ == "__main__":
    PLACE.write_text(text())
