"""Writes docs/features.md from `delta_ops/protocol/features.py`."""

from __future__ import annotations

from pathlib import Path

from delta_ops.protocol.features import FEATURES, Engine, Feature, Operation

PLACE = Path(__file__).resolve().parents[1] / "docs" / "features.md"
COLUMNS: tuple[tuple[Operation, Engine], ...] = (
    ("open", "arrow"),
    ("read", "arrow"),
    ("read", "spark"),
    ("write", "arrow"),
    ("write", "spark"),
    ("restore", "arrow"),
    ("vacuum", "arrow"),
    ("checkpoint", "arrow"),
    ("clean up", "arrow"),
)
HEAD = """# Table features

<!-- Written by scripts/write_features.py from delta_ops/protocol/features.py; do not edit. -->

With this page you know which table features delta_ops reads, writes and maintains.

An unsupported feature, or a feature that this table does not list, is rejected by name before
anything is changed. *Open*: history, files, statistics, properties, time travel. *Read* and
*write*: rows. *Restore*: restore, revert and repair, without new rows. *Clean up*: deletes and
compacts files of the log. Readers need no support for a writer feature.

| feature | since reader / writer version | open | read: Arrow | Spark | write: Arrow | Spark | \
restore | vacuum | checkpoint | clean up |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def text() -> str:
    """The page."""
    return HEAD + "".join(_row(feature) for feature in FEATURES)


def _row(feature: Feature) -> str:
    reader = str(feature.legacy_reader_version or 3) if feature.for_readers else "-"
    writer = str(feature.legacy_writer_version or 7)
    cells = " | ".join(_support_text(feature, operation, engine) for operation, engine in COLUMNS)
    return f"| {feature.name} | {reader} / {writer} | {cells} |\n"


def _support_text(feature: Feature, operation: Operation, engine: Engine) -> str:
    is_untold = operation in ("open", "read") and not feature.for_readers
    return "yes" if is_untold or feature.supports(operation, engine) else "refused"


if __name__ == "__main__":
    PLACE.write_text(text())
