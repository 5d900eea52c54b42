"""The peer reports a damaged log; otherwise its silence would prove nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from tests.peers.delta_spark import DeltaSpark, DeltaSparkError


@pytest.mark.full
@pytest.mark.full
def test_a_checksum_that_lies_is_an_error(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    table = tmp_path / "t"
    delta_spark.write(table, pa.table({"id": [1]}))
    assert delta_spark.validate(table)["has_checksum"]

    name = f"{0:020}.crc"
    checksum = table / "_delta_log" / name
    checksum.write_text(json.dumps({**json.loads(checksum.read_text()), "numFiles": 2}))
    (checksum.parent / f".{name}.crc").unlink()
    with pytest.raises(DeltaSparkError, match="integrity"):
        delta_spark.validate(table)


@pytest.mark.full
def test_a_hint_that_cannot_be_read_is_a_warning(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    da.write(tmp_path / "t", pa.table({"id": [1]}))
    (tmp_path / "t" / "_delta_log" / "_last_checkpoint").write_text("{")

    assert delta_spark.read(tmp_path / "t").num_rows == 1
    assert "_last_checkpoint" in delta_spark.warnings
