"""Table properties about statistics apply to all code that computes statistics here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import optimize, repair

LONG = "x" * 100
PREFIX = "delta.dataSkippingStringPrefixLength"
INDEXED = "delta.dataSkippingNumIndexedCols"


def append(root: Path, *texts: str) -> None:
    rows = pa.table({"id": list(range(len(texts))), "text": list(texts), "late": [1] * len(texts)})
    da.write(root, rows, mode="append", configuration={PREFIX: "7", INDEXED: "2"})


def by_write(root: Path) -> None:
    append(root, LONG)


def by_optimize(root: Path) -> None:
    append(root, LONG)
    append(root, LONG)
    optimize(DeltaLog(root))
    assert DeltaLog(root).snapshot().num_files == 1


def by_repair(root: Path) -> None:
    append(root, LONG)
    log = DeltaLog(root)
    (add,) = log.snapshot().add_files()
    create_commit(log.storage, log.log_directory, 1, [replace(add, stats=None)])
    assert repair(log).described_files == 1


@pytest.mark.parametrize("act", [by_write, by_optimize, by_repair])
def test_texts_are_cut_and_columns_counted_as_the_table_says(
    tmp_path: Path, act: Callable[[Path], Any]
) -> None:
    act(tmp_path)
    for add in DeltaLog(tmp_path).snapshot().add_files():
        stats = json.loads(add.stats or "")
        assert stats["minValues"] == {"id": 0, "text": "x" * 7}
        assert len(stats["maxValues"]["text"]) <= 8
        assert "late" not in stats["nullCount"]
