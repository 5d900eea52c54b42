"""Tables on S3 and Azure, read and written by Spark; the servers record every request.

Google Cloud Storage is missing: Hadoop's connector supports only Google's own service.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg
import pyarrow as pa
import pytest
from azure.storage.blob import BlobServiceClient
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import DeltaOpsError, InvalidRequestError, OutsideFileError, StorageError
from delta_ops.maintenance import optimize
from delta_ops.orchestration import DeltaIOManager
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from delta_ops.spark import file_uris as places
from delta_ops.spark import stores
from delta_ops.spark.stores import known_stores, put_settings
from delta_ops.storage import open_storage
from delta_ops.storage.hadoop import hadoop_store
from tests.arrow.foreign_table import create, data_file, inline_vector, stored_vector
from tests.spark.frames import rows_of
from tests.support.clones import prefix_naming, shallow_clone
from tests.support.instances import new_instance
from tests.support.servers.azure import OTHER_ACCOUNT, AzureServer
from tests.support.servers.connectors import connector_jars
from tests.support.servers.s3 import (
    ACCESS_KEY,
    SECRET_KEY,
    Failure,
    Request,
    S3Server,
    kinds,
)
from tests.support.tables import rows

pytestmark = pytest.mark.spark

NewTable = Callable[[str], DeltaLog]
HOSTILE = ("a b", "100%", "%41", "ü 日", "#1", "a+b&c=d", "{x}[y]*", 'it\'s "so"', None)
DATA = pa.table({"id": pa.array(range(90), pa.int64()), "p": [HOSTILE[i % 9] for i in range(90)]})
PROJECT = Path(__file__).resolve().parents[2]


def table_on_s3(server: S3Server, name: str = "lake/t", **options: Any) -> DeltaLog:
    return DeltaLog(f"s3://{server.new_bucket()}/{name}", {**server.storage_options, **options})


@pytest.fixture
def new_table(request: pytest.FixtureRequest) -> NewTable:
    """A named place for a table, in its own bucket."""

    def on_azure(name: str) -> DeltaLog:
        server: AzureServer = request.getfixturevalue("azure_server")
        return DeltaLog(f"abfs://{server.new_container()}/{name}", server.storage_options)

    def on_s3(name: str) -> DeltaLog:
        return table_on_s3(request.getfixturevalue("s3_server"), name)

    return on_s3 if request.param == "s3" else on_azure


def assert_same_rows(frame: DataFrame, log: DeltaLog, **options: Any) -> None:
    expected = rows(da.to_table(log, **options))
    assert sorted(map(repr, rows_of(frame))) == sorted(map(repr, expected))
    assert expected


def of_data(requests: Iterable[Request]) -> list[Request]:
    return [request for request in requests if "_delta_log" not in request.path + request.query]


def variables_of(error: BaseException) -> str:
    """A traceback with local variables, as error services show it, without the test's own frame."""
    assert error.__traceback__
    below = error.__traceback__.tb_next
    found = traceback.TracebackException(type(error), error, below, capture_locals=True)
    return "".join(found.format())


def keys_used(requests: Iterable[Request]) -> set[str]:
    found = (re.search(r"Credential=([^/]+)", request.authorization) for request in requests)
    return {match[1] for match in found if match}


@pytest.mark.parametrize(
    ("new_table", "way", "name"),
    [
        ("s3", "file index", "lake/a b%20ü#x"),
        ("azure", "file list", "日/{a}[b]"),
        pytest.param("s3", "file list", "日/{a}[b]", marks=pytest.mark.full),
        pytest.param("azure", "file index", "lake/a b%20ü#x", marks=pytest.mark.full),
    ],
    indirect=["new_table", "way"],
)
def test_rows_are_those_by_arrow(
    store_spark: SparkSession, new_table: NewTable, way: str, name: str
) -> None:
    log = new_table(name)
    da.write(log, DATA, partition_by=["p"])
    assert_same_rows(ds.read(store_spark, log), log)
    few = (col("p") == "%41") & (col("id") > 30)
    assert_same_rows(ds.read(store_spark, log, ["id"], few), log, columns=["id"], predicate=few)


@pytest.mark.parametrize(
    "way", ["file index", pytest.param("file list", marks=pytest.mark.full)], indirect=True
)
def test_rows_that_vectors_delete_are_left_out(
    tmp_path: Path, store_spark: SparkSession, s3_server: S3Server, way: str
) -> None:
    schema = StructType((StructField("n", LONG), StructField("p", STRING)))
    adds = [
        replace(
            data_file(tmp_path, f"f {i}%.parquet", pa.table({"n": range(i * 10, i * 10 + 10)})),
            partition_values={"p": str(i)},
            deletion_vector=vector,
        )
        for i, vector in enumerate(
            (inline_vector([0, 3]), None, stored_vector(tmp_path, [1, 2, 9]))
        )
    ]
    create(tmp_path, schema, adds, partition_by=("p",), features=("deletionVectors",))
    log = table_on_s3(s3_server)
    _, _, bucket, root = log.uri.split("/", 3)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    s3_server.put(
        bucket, {f"{root}/{file.relative_to(tmp_path)}": file.read_bytes() for file in files}
    )
    assert_same_rows(ds.read(store_spark, log), log)
    assert ds.read(store_spark, log).count() == 25


def test_spark_lists_nothing_and_opens_what_it_needs(
    store_spark: SparkSession, s3_server: S3Server
) -> None:
    log = table_on_s3(s3_server)
    da.write(log, DATA, partition_by=["p"])
    ds.read(store_spark, log)
    with s3_server.recording() as planning:
        frame = ds.read(store_spark, log, predicate=col("p") == "a b")
    assert not of_data(planning)
    with s3_server.recording() as scanning:
        assert frame.agg(sf.sum("id")).first() == (sum(range(0, 90, 9)),)
    assert set(kinds(scanning)) == {"HEAD", "GET"}
    assert {request.path.split("/p=")[1].split("/")[0] for request in scanning} == {"a b"}
    assert len(scanning) == 2


def test_a_bucket_is_looked_at_once_in_a_session(
    store_spark: SparkSession, s3_server: S3Server
) -> None:
    log = table_on_s3(s3_server)
    da.write(log, DATA)
    second = DeltaLog(f"{log.uri}2", s3_server.storage_options)
    da.write(second, DATA)
    with s3_server.recording() as first:
        ds.read(store_spark, log)
    with s3_server.recording() as again:
        ds.read(store_spark, second)
    assert len(of_data(first)) == 2
    assert not of_data(again)


def test_two_tables_have_credentials_of_their_own(
    store_spark: SparkSession, s3_server: S3Server
) -> None:
    logs = [table_on_s3(s3_server, key=f"key-{i}") for i in range(2)]
    for log in logs:
        da.write(log, DATA)
    frames = [ds.read(store_spark, log) for log in logs]
    for i, frame in enumerate(frames):
        with s3_server.recording() as requests:
            assert frame.count() == 90
        assert keys_used(requests) == {f"key-{i}"}


def test_a_profile_is_looked_up_by_spark_itself(
    store_spark: SparkSession,
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text(
        "[lake]\naws_access_key_id = key-of-profile\naws_secret_access_key = x\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    options = {"profile": "lake", "endpoint_url": s3_server.url}
    log = DeltaLog(f"s3://{s3_server.new_bucket()}/t", options)
    da.write(log, DATA)
    frame = ds.read(store_spark, log)
    with s3_server.recording() as requests:
        assert frame.count() == 90
    assert keys_used(requests) == {"key-of-profile"}


@pytest.mark.full
def test_new_credentials_of_a_bucket_take_the_place_of_the_old(
    store_spark: SparkSession, s3_server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    log = table_on_s3(s3_server, key="key-old", token="token-old")
    da.write(log, DATA)
    before = ds.read(store_spark, log)
    assert before.count() == 90
    renewed = DeltaLog(log.uri, {**s3_server.storage_options, "key": "key-new"})
    after = ds.read(store_spark, renewed)
    assert "uses other credentials" in caplog.text
    for frame in (before, after):
        with s3_server.recording() as requests:
            assert frame.count() == 90
        assert keys_used(requests) == {"key-new"}


def test_a_bucket_of_the_same_name_at_another_endpoint_is_refused(
    store_spark: SparkSession, s3_server: S3Server
) -> None:
    log = table_on_s3(s3_server)
    da.write(log, DATA)
    frame = ds.read(store_spark, log)
    elsewhere = s3_server.url.replace("127.0.0.1", "localhost")
    other = DeltaLog(log.uri, {**s3_server.storage_options, "endpoint_url": elsewhere})
    with pytest.raises(InvalidRequestError, match="same name at another endpoint; use the same"):
        ds.read(store_spark, other)
    assert frame.count() == 90


def test_two_keys_for_one_account_of_azure_are_refused(
    store_spark: SparkSession, azure_server: AzureServer
) -> None:
    log = DeltaLog(f"az://{azure_server.new_container()}/t", azure_server.storage_options)
    da.write(log, DATA)
    ds.read(store_spark, log)
    options = {
        "connection_string": re.sub(
            "AccountKey=E", "AccountKey=F", str(azure_server.storage_options["connection_string"])
        )
    }
    other = open_storage(f"az://{azure_server.new_container()}/t", options)
    with pytest.raises(InvalidRequestError, match="Hadoop has one value for all") as refused:
        places.reach(store_spark, other)
    assert "AccountKey" not in variables_of(refused.value)
    assert "known = " in variables_of(refused.value)
    assert "account.key" not in variables_of(refused.value)
    assert_same_rows(ds.read(store_spark, log), log)


def test_session_settings_of_a_bucket_win(store_spark: SparkSession, s3_server: S3Server) -> None:
    log = table_on_s3(s3_server, requester_pays=True)
    da.write(log, DATA)
    configuration = store_spark._jsc.hadoopConfiguration()
    recorded = {"access.key": "of-the-session", "secret.key": "s" * 9, "endpoint": s3_server.url}
    for name, value in {**recorded, "path.style.access": "true"}.items():
        configuration.set(f"fs.s3a.bucket.{log.uri.split('/')[2]}.{name}", value)
    frame = ds.read(store_spark, log)
    with s3_server.recording() as requests:
        assert frame.count() == 90
    assert keys_used(requests) == {"of-the-session"}


@pytest.mark.parametrize(
    "is_first", [True, pytest.param(False, marks=pytest.mark.full)], ids=["first", "last"]
)
def test_a_bucket_that_only_one_of_two_sessions_configures_is_refused(
    store_spark: SparkSession, s3_server: S3Server, is_first: bool
) -> None:
    log = table_on_s3(s3_server)
    da.write(log, DATA)
    own = store_spark.newSession()
    prefix = f"fs.s3a.bucket.{log.uri.split('/')[2]}"
    recorded = {"access.key": "of-the-session", "secret.key": "s" * 9, "endpoint": s3_server.url}
    for name, value in {**recorded, "path.style.access": "true"}.items():
        own.conf.set(f"{prefix}.{name}", value)
    first, last = (own, store_spark) if is_first else (store_spark, own)
    assert ds.read(first, log).count() == 90
    with pytest.raises(
        InvalidRequestError, match="one Spark session has its own settings for s3a://"
    ):
        ds.read(last, log)
    assert ds.read(first, log).count() == 90


def test_a_client_that_another_application_left_is_let_go_of(
    store_spark: SparkSession, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = table_on_s3(s3_server)
    da.write(log, DATA)
    ds.read(store_spark, log)
    # As a session of another application would; this session gets its state back later.
    monkeypatch.setattr(stores, "known_by_context", WeakKeyDictionary())
    configuration = store_spark._jsc.hadoopConfiguration()
    prefix = f"fs.s3a.bucket.{log.uri.split('/')[2]}"
    configuration.set(f"{prefix}.access.key", "of-the-next-one")
    frame = ds.read(store_spark, log)
    with s3_server.recording() as requests:
        assert frame.count() == 90
    assert keys_used(requests) == {"of-the-next-one"}


def test_without_credentials_in_options_all_buckets_use_the_common_credentials(
    store_spark: SparkSession, s3_server: S3Server
) -> None:
    """The options first name a bucket's key; then the session's settings apply."""
    uri, general = f"s3://{s3_server.new_bucket()}/t", "fs.s3a.aws.credentials.provider"
    configuration = store_spark._jsc.hadoopConfiguration()
    bucket = f"fs.s3a.bucket.{uri.split('/')[2]}.aws.credentials.provider"
    before = configuration.get(general)
    known = known_stores(store_spark)
    with_key = hadoop_store(uri, {"key": "k", "secret": "s"}, {})
    without = hadoop_store(uri, {}, {})
    assert with_key
    assert without
    configuration.set(general, "of.the.Session")
    try:
        put_settings(store_spark, None, with_key, known)
        assert configuration.get(bucket).endswith("SimpleAWSCredentialsProvider")
        put_settings(store_spark, with_key, without, known)
        assert configuration.get(bucket) is None
    finally:
        configuration.set(general, before)
        put_settings(store_spark, without, None, known)


NOBODY = "http://127.0.0.1:9"
"""No server of the tests listens there."""


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("options", "bucket", "message"),
    [
        pytest.param({}, "no-such-bucket", "bucket or container does not exist", id="no bucket"),
        pytest.param({"key": "wrong-key"}, None, "rejects the credentials", id="a wrong key"),
        pytest.param(
            {"endpoint_url": NOBODY},
            None,
            "endpoint does not answer",
            id="nobody there",
        ),
        pytest.param(
            {"endpoint_url": "http://no-such-host.invalid"},
            None,
            "endpoint does not answer",
            id="not a valid host",
            marks=pytest.mark.full,
        ),
    ],
)
def test_an_error_is_one_sentence(
    store_spark: SparkSession,
    s3_server: S3Server,
    options: dict[str, Any],
    bucket: str | None,
    message: str,
) -> None:
    bucket = bucket or s3_server.new_bucket()
    wrong = open_storage(f"s3://{bucket}/t", {**s3_server.storage_options, **options})
    with s3_server.recording() as requests, pytest.raises(StorageError, match=message) as failed:
        places.reach(store_spark, wrong)
    assert str(failed.value).startswith(f"s3://{bucket}/t could not be reached by Spark: ")
    assert SECRET_KEY not in str(failed.value)
    assert "\n" not in str(failed.value)
    assert len(requests) <= 4  # it does not retry
    if bucket != "no-such-bucket":  # with the right options the session works again
        places.reach(store_spark, open_storage(f"s3://{bucket}/t", s3_server.storage_options))


MOST_TRIES = (1 + 3) * (1 + 8)
"""Requests for one file: the client repeats each try of the connector."""
NO_DATA_FILES = [
    pytest.param(
        Failure(status, code, of=".parquet"),
        id=code,
        marks=() if status == 500 else pytest.mark.full,
    )
    for status, code in ((500, "InternalError"), (503, "SlowDown"))
]


@pytest.mark.full
@pytest.mark.parametrize("failure", NO_DATA_FILES)
def test_a_store_that_takes_no_data_file_is_an_error_after_some_tries(
    store_spark: SparkSession, s3_server: S3Server, failure: Failure
) -> None:
    log = table_on_s3(s3_server)
    da.write(log, pa.table({"id": [1, 2], "v": [1.0, 2.0]}))
    before = {file.path for file in log.storage.list_tree("")}
    configuration = store_spark._jsc.hadoopConfiguration()
    waits = ("fs.s3a.retry.interval", "fs.s3a.retry.throttle.interval")
    usual = {name: configuration.get(name) for name in waits}
    source = store_spark.sql("SELECT 1L AS id, 9D AS v")
    try:
        for name in waits:
            configuration.set(name, "1ms")
        changes: list[Callable[[], object]] = [
            lambda: ds.write(source, log),
            lambda: ds.update(store_spark, log, {"v": "v + 1"}),
            lambda: (
                ds.merge(log, source, "target.id = source.id").when_matched_update_all().execute()
            ),
        ]
        for change in changes:
            with (
                s3_server.failing(*[failure] * 200),
                s3_server.recording() as requests,
                pytest.raises(StorageError, match="the store fails or is overloaded"),
            ):
                change()
            tries = Counter(each.path for each in of_data(requests) if each.kind == "PUT")
            assert 1 < max(tries.values()) <= MOST_TRIES
            # A task that was on its way when the job failed deletes its file itself.
            wait_until(lambda: {file.path for file in log.storage.list_tree("")} == before)
    finally:
        for name, value in usual.items():
            configuration.set(name, value)
    assert DeltaLog(log.uri, s3_server.storage_options).snapshot().version == 0
    assert ds.write(source, log).version == 1


@pytest.mark.full
def test_a_task_that_outlives_its_failed_write_deletes_its_file(
    store_spark: SparkSession, s3_server: S3Server
) -> None:
    log = table_on_s3(s3_server)
    da.write(log, pa.table({"id": pa.array([], pa.int64())}))
    before = {file.path for file in log.storage.list_tree("")}
    configuration = store_spark._jsc.hadoopConfiguration()
    wait = "fs.s3a.retry.interval"
    usual = configuration.get(wait)
    configuration.set(wait, "300ms")
    interrupts = "spark.sql.execution.interruptOnCancel"
    store_spark.conf.set(interrupts, "false")  # as before Spark 4
    refused = Failure(403, "AccessDenied", of="part-00000")
    late = [Failure(500, "InternalError", of="part-00001")] * 12

    def of_the_late_task() -> list[str]:
        return [each.kind for each in s3_server.recorded() if "part-00001" in each.path]

    try:
        with s3_server.recording(), s3_server.failing(refused, *late):
            with pytest.raises(StorageError):
                ds.write(store_spark.range(0, 2, 1, 2), log)
            assert of_the_late_task().count("PUT") <= len(late)
            wait_until(lambda: of_the_late_task().count("PUT") > len(late))
            wait_until(lambda: {file.path for file in log.storage.list_tree("")} == before)
    finally:
        configuration.set(wait, usual)
        store_spark.conf.unset(interrupts)


def wait_until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.mark.full
def test_azure_that_takes_no_data_file_is_an_error_after_some_tries(
    store_spark: SparkSession, azure_server: AzureServer
) -> None:
    configuration = store_spark._jsc.hadoopConfiguration()
    waits = [f"fs.azure.io.retry.{name}backoff.interval" for name in ("", "min.", "max.")]
    for name in waits:
        configuration.set(name, "1")
    try:
        with azure_server.taking_no(".parquet") as server:
            connection = server.storage_options["connection_string"]
            with BlobServiceClient.from_connection_string(connection) as client:
                client.create_container("refused")
            log = DeltaLog("az://refused/t", server.storage_options)
            da.write(log, pa.table({"id": pa.array([], pa.int64())}))  # without a data file
            with pytest.raises(StorageError, match=r"az://refused/t\S* could not be written"):
                ds.write(store_spark.range(1), log)
            assert 1 < server.num_refused <= 40
            assert log.snapshot().version == 0
    finally:
        for name in waits:
            configuration.unset(name)


def test_a_setting_that_hadoop_cannot_take_is_one_sentence(
    store_spark: SparkSession, s3_server: S3Server
) -> None:
    configuration = store_spark._jsc.hadoopConfiguration()
    before = configuration.get("fs.s3a.connection.maximum")
    configuration.set("fs.s3a.connection.maximum", "many")
    try:
        with pytest.raises(StorageError, match=r'by Spark: .*"many".*settings of Hadoop'):
            places.reach(store_spark, table_on_s3(s3_server).storage)
    finally:
        configuration.set("fs.s3a.connection.maximum", before)


def test_a_wrong_key_of_azure_is_one_sentence(
    store_spark: SparkSession, azure_server: AzureServer
) -> None:
    connection = str(azure_server.storage_options["connection_string"])
    connection = connection.replace("devstoreaccount1", OTHER_ACCOUNT)
    connection = connection.replace("AccountKey=E", "AccountKey=F")
    wrong = open_storage(
        f"az://{azure_server.new_container()}/t", {"connection_string": connection}
    )
    with pytest.raises(StorageError, match=r"rejects the credentials; .*expired"):
        places.reach(store_spark, wrong)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        ("gs://bucket/t", {"endpoint_url": "http://127.0.0.1:1", "token": "anon"}, "endpoint_url"),
        ("s3://bucket/t", {"client_kwargs": {"verify": False}}, "client_kwargs.verify"),
        ("memory://bucket/t", {}, "supports no other storage"),
    ],
)
def test_stores_that_spark_cannot_reach_are_refused(
    store_spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    uri: str,
    options: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setenv("SOME_PASSWORD", SECRET_KEY)
    with pytest.raises(InvalidRequestError, match=re.escape(message)) as refused:
        places.reach(store_spark, open_storage(uri, options))
    assert SECRET_KEY not in variables_of(refused.value)


def test_no_credential_is_in_a_plan_a_log_or_on_the_page_of_the_environment(
    store_spark: SparkSession,
    s3_server: S3Server,
    azure_server: AzureServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "a-secret-of-this-very-test"
    log = table_on_s3(s3_server, secret=secret)
    with caplog.at_level(logging.DEBUG, "py4j"):
        ds.write(store_spark.range(3), log)
        frame = ds.read(store_spark, log)
        assert frame.count() == 3
    assert "Command to send" in caplog.text
    plan = frame._jdf.queryExecution().toString()
    settings = store_spark._jsc.hadoopConfiguration().getValByRegex(r"^fs\.")
    assert secret in settings.values()
    for shown in (caplog.text, plan, str(store_spark.sparkContext.getConf().getAll())):
        assert secret not in shown

    table = DeltaLog(f"az://{azure_server.new_container()}/t", azure_server.storage_options)
    da.write(table, DATA)
    ds.read(store_spark, table)
    settings = store_spark._jsc.hadoopConfiguration().getValByRegex(r"^fs\.")
    hidden = store_spark._jsc.sc().conf().get("spark.redaction.regex")
    key = re.search("AccountKey=([^;]+)", str(azure_server.storage_options["connection_string"]))
    assert key
    holding = [name for name, value in settings.items() if value in (secret, key[1], ACCESS_KEY)]
    assert len(holding) > 2
    assert [name for name in holding if not re.search(hidden, name)] == []


S3_IN_FULL = [pytest.param("s3", marks=pytest.mark.full), "azure"]
AZURE_IN_FULL = ["s3", pytest.param("azure", marks=pytest.mark.full)]


@pytest.mark.parametrize("new_table", S3_IN_FULL, indirect=True)
def test_rows_are_written(store_spark: SparkSession, new_table: NewTable) -> None:
    log = new_table("lake/a b%20ü#x")
    values = ("a b", "100%", "#1", None)
    data = pa.table({"id": range(12), "p": [values[i % len(values)] for i in range(12)]})
    frame = store_spark.createDataFrame(data)
    ds.write(frame, log, partition_by=["p"])
    assert sorted(map(repr, rows(da.to_table(log)))) == sorted(map(repr, rows(data)))
    ds.write(
        frame.filter("p = 'a b'").withColumn("id", sf.col("id") + 1000),
        log,
        mode="overwrite",
        replace_where=col("p") == "a b",
    )
    ds.write(ds.read(store_spark, log).filter("p is null"), log)
    expected = [{**row, "id": row["id"] + 1000 * (row["p"] == "a b")} for row in rows(data)]
    expected += [row for row in rows(data) if row["p"] is None]
    assert sorted(map(repr, rows(da.to_table(log)))) == sorted(map(repr, expected))
    optimize(log, engine=ds.rewrite(store_spark))
    assert_same_rows(ds.read(store_spark, log), log)
    assert len(log.snapshot().files()) == len(values)


@pytest.mark.parametrize("new_table", AZURE_IN_FULL, indirect=True)
def test_a_write_that_fails_leaves_nothing(store_spark: SparkSession, new_table: NewTable) -> None:
    log = new_table("t")
    ds.write(store_spark.range(3), log)
    before = sorted(file.path for file in log.storage.list_tree(""))
    broken = sf.when(sf.col("id") == 9, sf.raise_error(sf.lit("as told")))
    frame = store_spark.range(10).select(broken.otherwise(sf.col("id")).cast("long").alias("id"))
    with pytest.raises(InvalidRequestError, match="could not compute the rows"):
        ds.write(frame, log)
    assert sorted(file.path for file in log.storage.list_tree("")) == before


@pytest.mark.parametrize("new_table", S3_IN_FULL, indirect=True)
def test_a_file_that_is_gone_is_one_sentence(
    store_spark: SparkSession, new_table: NewTable
) -> None:
    log = new_table("t")
    da.write(log, DATA)
    frame = ds.read(store_spark, log)
    (path,) = log.snapshot().files()["path"].to_pylist()
    log.storage.delete(path)
    target = DeltaLog(f"{log.uri}2", log.storage.client_options)
    with pytest.raises(InvalidRequestError, match=r"missing, and nothing was committed: .*vacuum"):
        ds.write(frame, target)


@pytest.mark.full
def test_files_outside_of_the_table_have_options_of_their_own(
    store_spark: SparkSession, s3_server: S3Server, tmp_path: Path
) -> None:
    source = table_on_s3(s3_server, key="key-of-source")
    da.write(source, DATA, partition_by=["p"])
    options = {**s3_server.storage_options, "key": "key-of-source"}
    clone = DeltaLog(tmp_path, outside={f"s3a://{source.uri.split('/')[2]}/": options})
    shallow_clone(source.snapshot(), clone, prefix_naming(source.uri))
    frame = ds.read(store_spark, clone)
    with s3_server.recording() as requests:
        assert_same_rows(frame, source)
    assert keys_used(requests) == {"key-of-source"}
    with pytest.raises(OutsideFileError):
        ds.read(store_spark, DeltaLog(tmp_path, outside="refuse"))


@dg.asset
def numbers() -> pa.Table:
    return DATA


@dg.asset(metadata={"delta/mode": "append"})
def doubled(numbers: DataFrame) -> DataFrame:
    return numbers.withColumn("id", sf.col("id") * 2)


def test_the_options_of_the_io_manager_match_spark(
    store_spark: SparkSession, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"s3://{s3_server.new_bucket()}/lake"
    options = s3_server.environment
    for name, value in options.items():
        monkeypatch.setenv(f"TEST_{name}", value)
    variables = {name: dg.EnvVar(f"TEST_{name}") for name in options}
    manager = DeltaIOManager(
        root=root, storage_options=variables, spark=LazyPySparkResource(spark_config={})
    )
    with new_instance() as instance:
        ran = dg.materialize(
            [numbers, doubled], instance=instance, resources={"io_manager": manager}
        )
    assert ran.success
    written = rows(da.to_table(DeltaLog(f"{root}/doubled", options)))
    expected = [{**row, "id": row["id"] * 2} for row in rows(DATA)]
    assert sorted(map(repr, written)) == sorted(map(repr, expected))


CONNECTORS = """
import sys
from pyspark.sql import SparkSession
from delta_ops.errors import MissingDependencyError
from delta_ops.spark import stores
from delta_ops.spark import file_uris as places
from delta_ops.storage import open_storage
from delta_ops.storage.hadoop import hadoop_store

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.extraClassPath", sys.argv[1])
    .getOrCreate()
)
for uri, options in (("s3://b/t", {"anon": True}), ("gs://b/t", {"token": "anon"})):
    try:
        places.reach(spark, open_storage(uri, options))
    except MissingDependencyError as error:
        print(error)
"""


@pytest.mark.full
def test_the_error_names_the_connector_that_a_session_lacks(
    store_spark: SparkSession, tmp_path: Path
) -> None:
    (jar,) = (jar for jar in connector_jars() if jar.name.startswith("hadoop-aws-"))
    of_another_hadoop = tmp_path / "hadoop-aws-3.4.1.jar"
    shutil.copy(jar, of_another_hadoop)  # Java follows a link
    others = [each for each in connector_jars() if "hadoop" not in each.name]
    ran = subprocess.run(
        [sys.executable, "-c", CONNECTORS, os.pathsep.join(map(str, [of_another_hadoop, *others]))],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    wrong, missing = ran.stdout.strip().splitlines()
    assert re.search(
        r"has Hadoop 3.5.0 and a connector of Hadoop 3.4.1; .*packages\(\"s3\"\)", wrong
    )
    assert re.search(r"which this Spark session lacks; .*packages\(\"gcs\"\)", missing)


def test_packages_match_the_tests() -> None:
    named = ds.packages("s3", "gcs", "azure")["spark.jars.packages"].split(",")
    pinned = {jar.name for jar in connector_jars()} or pytest.skip("no Maven")
    for coordinates in named:
        _, artifact, version = coordinates.split(":")
        assert f"{artifact}-{version}.jar" in pinned


def test_packages_of_no_store_are_refused() -> None:
    for data in ((), ("s4",), (["s3"],)):
        with pytest.raises(DeltaOpsError, match="takes one or more of the stores s3, gcs, azure"):
            ds.packages(*data)
