"""Tables that we cannot write are rejected before any file is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.errors import UnsupportedFeatureError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import optimize
from delta_ops.protocol import features
from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.features import FEATURES, Feature
from delta_ops.protocol.properties import table_properties
from tests.support.tables import PROTOCOL, add, metadata


def with_feature(name: str) -> Protocol:
    for_readers = next(f.for_readers for f in FEATURES if f.name == name)
    return Protocol(
        min_reader_version=3 if for_readers else 1,
        min_writer_version=7,
        reader_features=(name,) if for_readers else None,
        writer_features=(name,),
    )


def schema_with(**field_metadata: Any) -> str:
    field = {"name": "id", "type": "long", "nullable": True, "metadata": field_metadata}
    return json.dumps({"type": "struct", "fields": [field]})


REQUESTS: Mapping[str, tuple[Protocol, dict[str, Any]]] = {
    **{
        f.name: (with_feature(f.name), {})
        for f in FEATURES
        if ("open" in f.operations or not f.for_readers) and not f.written_by
    },
    "a feature of the future": (
        Protocol(min_reader_version=1, min_writer_version=7, writer_features=("fromTheFuture",)),
        {},
    ),
    "a writer version to come": (Protocol(min_reader_version=1, min_writer_version=8), {}),
    "invariant": (PROTOCOL, {"schema_string": schema_with(**{"delta.invariants": "{}"})}),
    "generated": (PROTOCOL, {"schema_string": schema_with(**{"delta.generationExpression": 1})}),
    "identity": (PROTOCOL, {"schema_string": schema_with(**{"delta.identity.start": 1})}),
}

WRITES: Mapping[str, Callable[[DeltaLog], object]] = {
    "append": lambda log: da.write(log, pa.table({"id": [1]})),
    "overwrite": lambda log: da.write(log, pa.table({"id": [1]}), mode="overwrite"),
    "optimize": optimize,
    "properties": lambda log: begin(log).set_properties({"owner": "a team"}),
}


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("ask", "write"),
    [
        *((ask, "append") for ask in REQUESTS),
        *(("a feature of the future", write) for write in WRITES if write != "append"),
    ],
)
def test_nothing_is_written_where_a_rule_is_not_known(tmp_path: Path, ask: str, write: str) -> None:
    log = DeltaLog(tmp_path)
    protocol, changes = REQUESTS[ask]
    files = [add("a.parquet"), add("b.parquet")]
    create_commit(log.storage, log.log_directory, 0, [protocol, metadata(**changes), *files])
    before = contents(tmp_path)
    with pytest.raises(UnsupportedFeatureError):
        WRITES[write](log)
    assert contents(tmp_path) == before


def test_no_table_is_made_one_that_could_not_be_written(tmp_path: Path) -> None:
    configuration = {"delta.enableIcebergCompatV2": "true"}
    with pytest.raises(UnsupportedFeatureError):
        da.write(tmp_path, pa.table({"id": [1]}), configuration=configuration)
    assert not contents(tmp_path)
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(UnsupportedFeatureError):
        begin(DeltaLog(tmp_path)).set_properties(configuration)


def test_features_of_another_engine_are_refused_in_the_commit_that_adds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Feature(name="sparkling", written_by=frozenset({"spark"}))
    for module in (features, table_properties):
        monkeypatch.setattr(module, "FEATURES", (*FEATURES, row))
    requested, rows = {"delta.feature.sparkling": "supported"}, pa.table({"id": [1]})
    with pytest.raises(UnsupportedFeatureError, match="sparkling"):
        da.write(tmp_path, rows, configuration=requested)
    assert not contents(tmp_path)
    da.write(tmp_path, rows)
    before = contents(tmp_path)
    transaction = begin(DeltaLog(tmp_path))
    transaction.set_properties(requested)
    with pytest.raises(UnsupportedFeatureError, match="sparkling"):
        da.stage_write(transaction, rows)
    assert contents(tmp_path) == before
