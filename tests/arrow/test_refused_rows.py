"""Tables that open, but whose rows are stored in a way that is not read yet."""

from __future__ import annotations

from pathlib import Path

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import UnsupportedFeatureError
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Protocol
from tests.tables import add, metadata


@pytest.mark.parametrize("feature", ["variantShredding-preview"])
def test_rows_are_refused_by_name(tmp_path: Path, feature: str) -> None:
    log = DeltaLog(tmp_path)
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=(feature,),
        writer_features=(feature,),
    )
    create_commit(log.storage, log.log_directory, 0, [protocol, metadata(), add("x.parquet")])
    assert log.snapshot().num_files == 1
    for read in (da.to_table, lambda source: list(da.to_batches(source))):
        with pytest.raises(UnsupportedFeatureError, match=f"cannot be read: it uses {feature}"):
            read(log)
    with pytest.raises(UnsupportedFeatureError, match=f"cannot be written: it uses {feature}"):
        da.write(log, [])
