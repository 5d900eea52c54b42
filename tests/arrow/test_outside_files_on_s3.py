"""Rows of files in another bucket or store than the table's."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import DataFileError, OutsideFileError, StorageError
from delta_ops.maintenance import maintain, repair, vacuum
from tests.support.clones import prefix_naming, shallow_clone
from tests.support.servers.s3 import ACCESS_KEY, S3Server
from tests.support.tables import rows

DATA = pa.table({"id": pa.array(range(10), pa.int64()), "p": ["a b"] * 10})


@pytest.fixture(scope="module")
def source(s3_server: S3Server) -> DeltaLog:
    log = DeltaLog(f"s3://{s3_server.new_bucket()}/lake/source", s3_server.storage_options)
    da.write(log, DATA, partition_by=["p"])
    return log


def test_another_bucket_is_read_with_the_options_of_the_table(
    source: DeltaLog, s3_server: S3Server
) -> None:
    clone = DeltaLog(f"s3://{s3_server.new_bucket()}/clone", s3_server.storage_options)
    name = prefix_naming(source.uri.replace("s3:", "s3a:"))  # other tests name s3
    shallow_clone(source.snapshot(), clone, name)
    assert rows(da.to_table(clone)) == rows(DATA)
    assert rows(da.to_table(pickle.loads(pickle.dumps(clone)))) == rows(DATA)
    (path,) = clone.snapshot().files()["path"].to_pylist()
    assert path.startswith(f"{source.uri}/p=a b/")


def test_a_neighbour_in_the_bucket_is_reached_by_steps_up(
    source: DeltaLog, s3_server: S3Server
) -> None:
    clone = DeltaLog(source.uri.replace("source", "clone"), s3_server.storage_options)
    shallow_clone(source.snapshot(), clone, prefix_naming("../source"))
    assert rows(da.to_table(clone)) == rows(DATA)


def test_a_prefix_has_options_of_its_own(
    source: DeltaLog, s3_server: S3Server, tmp_path: Path
) -> None:
    theirs = {**s3_server.storage_options, "key": "access-of-theirs"}
    bucket = s3_server.new_bucket()
    bucket_of_source = source.uri.split("/")[2]
    clone = DeltaLog(
        f"s3://{bucket}/clone",
        s3_server.storage_options,
        outside={"s3://other/": {}, f"s3a://{bucket_of_source}/lake/": theirs},
    )
    shallow_clone(source.snapshot(), clone, prefix_naming(source.uri))
    with s3_server.recording() as requests:
        assert rows(da.to_table(clone)) == rows(DATA)
    keys = {
        (request.path.lstrip("/").split("/")[0], key)
        for request in requests
        for key in (ACCESS_KEY, "access-of-theirs")
        if key in request.authorization
    }
    assert keys == {(bucket, ACCESS_KEY), (bucket_of_source, "access-of-theirs")}

    on_disk = DeltaLog(tmp_path, outside={source.uri: s3_server.storage_options})
    shallow_clone(source.snapshot(), on_disk, prefix_naming(source.uri))
    assert rows(da.to_table(on_disk)) == rows(DATA)


def test_options_of_one_store_do_not_go_to_another(
    source: DeltaLog, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access-of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment")
    clone = DeltaLog(tmp_path, {"key": ACCESS_KEY, "secret": "secret-of-the-disk"})
    shallow_clone(source.snapshot(), clone, prefix_naming(source.uri))
    with s3_server.recording() as requests:
        assert rows(da.to_table(clone)) == rows(DATA)
    assert requests
    assert all("access-of-the-environment" in each.authorization for each in requests)


def test_a_log_in_a_store_does_not_lead_to_this_machine(
    s3_server: S3Server, tmp_path: Path
) -> None:
    source = DeltaLog(tmp_path)
    da.write(source, DATA)
    clone = DeltaLog(f"s3://{s3_server.new_bucket()}/clone", s3_server.storage_options)
    shallow_clone(source.snapshot(), clone, prefix_naming(f"file:{tmp_path}"))
    with pytest.raises(OutsideFileError, match=r'outside=\{"/": \{\}\}'):
        da.to_table(clone)
    trusting = DeltaLog(clone.uri, s3_server.storage_options, outside={f"{tmp_path}": {}})
    assert rows(da.to_table(trusting)) == rows(DATA)


def test_unreadable_tables_are_named_without_a_credential(
    source: DeltaLog, s3_server: S3Server
) -> None:
    options = s3_server.storage_options
    clone = DeltaLog(f"s3://{s3_server.new_bucket()}/clone", options)
    shallow_clone(source.snapshot(), clone, prefix_naming(f"{source.uri}/gone"))
    with pytest.raises(DataFileError, match="is missing") as error:
        da.to_table(clone)
    assert options["secret"] not in f"{error.value!r} {clone!r} {clone.outside!r}"
    unreachable = DeltaLog(
        clone.uri, options, outside={source.uri: {**options, "endpoint_url": "http://127.0.0.1:9"}}
    )
    with pytest.raises(StorageError) as failure:
        da.to_table(unreachable)
    assert options["secret"] not in f"{failure.value!r}"


@pytest.mark.full
def test_maintenance_only_reads_another_bucket(source: DeltaLog, s3_server: S3Server) -> None:
    clone = DeltaLog(f"s3://{s3_server.new_bucket()}/clone", s3_server.storage_options)
    shallow_clone(source.snapshot(), clone, prefix_naming(source.uri))
    da.write(clone, DATA)
    da.write(clone, DATA)
    with s3_server.recording() as requests:
        repair(clone, remove_missing=True)
        maintain(clone)
        da.write(clone, DATA, mode="overwrite")
        vacuum(clone)
    bucket = source.uri.split("/")[2]
    kinds = {request.kind for request in requests if request.path.lstrip("/").startswith(bucket)}
    assert kinds <= {"GET", "HEAD"}
    assert "HEAD" in kinds
    assert rows(da.to_table(source)) == rows(DATA)
