"""Version checksums written by us and by delta-spark, field by field."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, ddl
from tests.peers.delta_spark import DeltaSpark


def checksum(root: Path) -> dict[str, Any]:
    version = DeltaLog(root).snapshot().version
    recorded: dict[str, Any] = json.loads((root / "_delta_log" / f"{version:020}.crc").read_text())
    return recorded


@pytest.mark.full
@pytest.mark.parametrize(
    "configuration",
    [
        pytest.param({}, id="plain", marks=pytest.mark.full),
        pytest.param(
            {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"},
            id="row tracking and in-commit timestamps",
        ),
    ],
)
def test_a_checksum_says_what_the_references_says(
    tmp_path: Path, delta_spark: DeltaSpark, configuration: dict[str, str]
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for number in range(3):
        rows = pa.table({"id": [10 * number + each for each in range(5)]})
        da.write(ours, rows, txn=("app", number), configuration=configuration)
    da.delete(ours, col("id") == 2)
    shutil.copytree(ours, theirs)
    ddl.set_properties(ours, {"team": "us"})
    delta_spark.sql(f"ALTER TABLE delta.`{theirs}` SET TBLPROPERTIES ('team' = 'us')")
    reported, expected = checksum(ours), checksum(theirs)
    for each in (reported, expected):
        assert each.pop("txnId")  # one for each commit, as its time is
        assert ("inCommitTimestampOpt" in each) == bool(configuration)
        each.pop("inCommitTimestampOpt", None)
        each["protocol"].get("writerFeatures", []).sort()  # a set
    expected.pop("allFiles", None)  # a copy of the list, for its own verification
    assert reported == expected
    assert delta_spark.validate(ours)["has_checksum"]
