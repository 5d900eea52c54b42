"""Features with rules for row writers, in the Arrow engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.errors import InvalidRequestError, UnsupportedFeatureError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import optimize
from delta_ops.protocol.actions import DomainMetadata, Metadata, Protocol
from delta_ops.protocol.features import feature_of
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    TIMESTAMP,
    StructField,
    StructType,
    schema_to_json,
)
from tests.support.tables import metadata, rows


def create(
    root: Path,
    features: Sequence[str],
    *fields: StructField,
    partition_columns: tuple[str, ...] = (),
    domain: str | None = None,
    **configuration: str,
) -> DeltaLog:
    log = DeltaLog(root)
    for_readers = tuple(name for name in features if feature_of(name).for_readers)
    protocol = Protocol(
        min_reader_version=3 if for_readers else 1,
        min_writer_version=7,
        reader_features=for_readers or None,
        writer_features=tuple(features),
    )
    columns = StructType(fields or (StructField("id", LONG), StructField("v", STRING)))
    table: Metadata = metadata(
        schema_string=schema_to_json(columns),
        partition_columns=partition_columns,
        configuration={f"delta.{name}": value for name, value in configuration.items()},
    )
    domains = []
    if domain is not None:
        domains.append(
            DomainMetadata(domain="delta.clustering", configuration=domain, removed=False)
        )
    create_commit(log.storage, log.log_directory, 0, [protocol, table, *domains])
    return log


DATA = pa.table({"id": [1, 2], "v": ["x", "y"]})


@pytest.mark.parametrize(
    "features",
    [["vacuumProtocolCheck"], ["checkpointProtection"], ["typeWidening"], ["typeWidening-preview"]],
    ids=lambda names: names[0],
)
def test_a_feature_that_requires_nothing_of_new_rows(tmp_path: Path, features: list[str]) -> None:
    create(tmp_path, features)
    da.write(tmp_path, DATA)
    da.write(tmp_path, DATA)
    optimize(DeltaLog(tmp_path))
    assert rows(da.to_table(tmp_path)) == sorted([*rows(DATA), *rows(DATA)], key=str)


def test_a_widened_column_keeps_what_the_log_says_of_it(tmp_path: Path) -> None:
    changes = [{"fromType": "integer", "toType": "long"}]
    widened = StructField("id", LONG, metadata={"delta.typeChanges": changes})
    create(tmp_path, ["typeWidening"], widened, enableTypeWidening="true")
    da.write(tmp_path, pa.table({"id": pa.array([1], pa.int32())}))
    da.write(tmp_path, pa.table({"id": [2**40], "more": [1]}), merge_schema=True)
    (first, _) = json.loads(DeltaLog(tmp_path).snapshot().metadata.schema_string)["fields"]
    assert first["metadata"] == {"delta.typeChanges": changes}
    assert sorted(da.to_table(tmp_path)["id"].to_pylist()) == [1, 2**40]


FIELDS = (
    StructField("t", TIMESTAMP),
    StructField("id", LONG),
    StructField("p", STRING),
)


@pytest.mark.parametrize("mode", ["none", "name"])
def test_partition_columns_come_last_in_files(tmp_path: Path, mode: str) -> None:
    features = ["materializePartitionColumns", "columnMapping"]
    log = create(tmp_path, [features[0]], *FIELDS, partition_columns=("t", "p"))
    if mode == "name":
        transaction = begin(log)
        transaction.set_properties({"delta.columnMapping.mode": mode})
        transaction.commit(operation="SET TBLPROPERTIES")
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    data = pa.table(
        {
            "t": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "id": [1, 2],
            "p": ["", "b"],
        }
    )
    da.write(tmp_path, data)
    da.write(tmp_path, data)
    optimize(DeltaLog(tmp_path))
    stored = [pq.ParquetFile(each) for each in tmp_path.glob("t=*/**/*.parquet")]
    assert all(each.schema_arrow.names == ["id", "t", "p"] for each in stored)
    first = next(each.read() for each in stored if each.read()["id"].to_pylist()[0] == 1)
    assert (first["t"].to_pylist()[0], first["p"].to_pylist()[0]) == (moment, None)
    expected = [{"t": moment, "id": 1, "p": None}, {"t": None, "id": 2, "p": "b"}]
    assert sorted(rows(da.to_table(tmp_path)), key=lambda row: row["id"]) == [
        expected[0],
        expected[0],
        expected[1],
        expected[1],
    ]
    (stats,) = {*DeltaLog(tmp_path).snapshot().files(columns=("stats",))["stats"].to_pylist()[:1]}
    assert list(json.loads(stats)["minValues"]) == ["id"]


CLUSTERED = ["domainMetadata", "clustering"]


def test_statistics_include_clustering_columns(tmp_path: Path) -> None:
    domain = json.dumps({"clusteringColumns": [["v"]], "domainName": "delta.clustering"})
    create(tmp_path, CLUSTERED, domain=domain, dataSkippingNumIndexedCols="0")
    da.write(tmp_path, DATA)
    da.write(tmp_path, DATA)
    assert optimize(DeltaLog(tmp_path)).files_added
    snapshot = DeltaLog(tmp_path).snapshot()
    for text in snapshot.files(columns=("stats",))["stats"].to_pylist():
        assert json.loads(text)["minValues"] == {"v": "x"}
    assert snapshot.domain_metadata()["delta.clustering"].configuration == domain


def test_a_clustering_that_nobody_can_read_is_refused(tmp_path: Path) -> None:
    create(tmp_path, CLUSTERED, domain="{}")
    with pytest.raises(InvalidRequestError, match="does not name the clustering columns"):
        da.write(tmp_path, DATA)


def test_a_schema_without_a_clustering_column_is_refused(tmp_path: Path) -> None:
    create(tmp_path, CLUSTERED, domain='{"clusteringColumns":[["v"]]}')
    da.write(tmp_path, DATA)
    with pytest.raises(InvalidRequestError, match=r"column v .* would be removed"):
        da.write(tmp_path, DATA.select(["id"]), "overwrite", overwrite_schema=True)
    da.write(tmp_path, DATA.select(["v"]), "overwrite", overwrite_schema=True)


@pytest.mark.parametrize(("reader", "writer"), [(1, 4), (2, 5), (1, 6)])
def test_a_table_of_old_versions_is_written_unless_nobody_can_say_how(
    tmp_path: Path, reader: int, writer: int
) -> None:
    log = DeltaLog(tmp_path)
    protocol = Protocol(min_reader_version=reader, min_writer_version=writer)
    create_commit(log.storage, log.log_directory, 0, [protocol, metadata()])
    da.write(tmp_path, pa.table({"id": [1]}))
    assert log.snapshot().protocol == protocol
    transaction = begin(log)
    generated = StructField("id", LONG, metadata={"delta.generationExpression": 1})
    changed = metadata(schema_string=schema_to_json(StructType((generated,))))
    with pytest.raises(UnsupportedFeatureError, match="generated column id"):
        transaction.set_metadata(changed)
