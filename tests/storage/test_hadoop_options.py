"""Store options as Hadoop settings: none is lost, and no value is shown."""

from __future__ import annotations

import re
from typing import Any

import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.hadoop_connector import HadoopStore
from delta_ops.storage.hadoop import hadoop_of, hadoop_root, hadoop_store

SECRET = "a-secret-of-the-test"
S3A = "org.apache.hadoop.fs.s3a"
HOST = "acc.dfs.core.windows.net"
ACCOUNT = {"account_name": "acc"}
KEY = {**ACCOUNT, "account_key": SECRET}


def store_of(
    uri: str, options: dict[str, Any], address: str | None = None, **environment: str
) -> HadoopStore:
    store = hadoop_store(uri, options, environment, address)
    assert store is not None
    return store


def short(store: HadoopStore) -> dict[str, str]:
    """Settings by name, without the bucket or account."""
    bucket = store.root.partition("://")[2].rpartition("@")[2]
    return {
        name.replace(f"fs.s3a.bucket.{bucket}.", "").removesuffix(f".{bucket}"): value
        for name, value in store.settings.items()
    }


@pytest.mark.parametrize(
    ("uri", "options", "root"),
    [
        ("s3://bucket/a/b", {}, "s3a://bucket"),
        ("s3a://bucket", {}, "s3a://bucket"),
        ("gs://some_bucket/a", {}, "gs://some_bucket"),
        ("gcs://bucket/a", {}, "gs://bucket"),
        ("abfss://c@acc.dfs.core.windows.net/a", {}, f"abfss://c@{HOST}"),
        ("abfs://c@acc.blob.core.windows.net/a", {}, f"abfss://c@{HOST}"),
        ("az://c/a", ACCOUNT, f"abfss://c@{HOST}"),
        ("az://c/a", {"connection_string": "AccountName=acc;AccountKey=x"}, f"abfss://c@{HOST}"),
        (
            "az://c/a",
            {"account_host": "acc.blob.core.chinacloudapi.cn"},
            "abfss://c@acc.dfs.core.chinacloudapi.cn",
        ),
        ("memory://bucket/a", {}, None),
        ("/a/b", {}, None),
        ("adl://store/a", {}, None),
    ],
)
def test_one_bucket_has_one_name(uri: str, options: dict[str, Any], root: str | None) -> None:
    assert hadoop_root(uri, options, {}) == root


RETRIES_OF_S3 = {"attempts.maximum": "3", "retry.limit": "4", "retry.throttle.limit": "8"}


@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        pytest.param(
            {"key": "k", "secret": SECRET},
            {"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other"},
            {
                "aws.credentials.provider": f"{S3A}.SimpleAWSCredentialsProvider",
                "access.key": "k",
                "secret.key": SECRET,
            },
            id="a key, whatever the environment says",
        ),
        pytest.param(
            {"key": "k", "secret": SECRET, "token": "t", "client_kwargs": {"region_name": "eu-1"}},
            {},
            {
                "aws.credentials.provider": f"{S3A}.TemporaryAWSCredentialsProvider",
                "access.key": "k",
                "secret.key": SECRET,
                "session.token": "t",
                "endpoint.region": "eu-1",
            },
            id="a key for a time, in a region",
        ),
        pytest.param(
            {"anon": True, "requester_pays": True},
            {"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other"},
            {
                "aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider",
                "requester.pays.enabled": "true",
            },
            id="nobody",
        ),
        pytest.param(
            {"profile": "p"},
            {"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other"},
            {
                "aws.credentials.provider": f"{S3A}.auth.ProfileAWSCredentialsProvider",
                "auth.profile.name": "p",
            },
            id="a profile, whatever the environment says",
        ),
        pytest.param(
            {},
            {
                "AWS_ACCESS_KEY_ID": "k",
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_SESSION_TOKEN": "t",
                "AWS_PROFILE": "p",
                "AWS_DEFAULT_REGION": "eu-1",
            },
            {
                "aws.credentials.provider": f"{S3A}.TemporaryAWSCredentialsProvider",
                "access.key": "k",
                "secret.key": SECRET,
                "session.token": "t",
                "endpoint.region": "eu-1",
            },
            id="the environment",
        ),
        pytest.param(
            {"anon": True, "endpoint_url": "http://localhost:9000"},
            {"AWS_ENDPOINT_URL": "http://other"},
            {
                "aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider",
                "endpoint": "http://localhost:9000",
                "endpoint.region": "us-east-1",
                "path.style.access": "true",
                "connection.ssl.enabled": "false",
            },
            id="a service of one's own",
        ),
        pytest.param(
            {
                "anon": True,
                "endpoint_url": "https://store.example",
                "config_kwargs": {"s3": {"addressing_style": "virtual"}, "read_timeout": 9},
                "s3_additional_kwargs": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "id"},
            },
            {},
            {
                "aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider",
                "endpoint": "https://store.example",
                "endpoint.region": "us-east-1",
                "path.style.access": "false",
                "encryption.algorithm": "SSE-KMS",
                "encryption.key": "id",
            },
            id="virtual hosts, encrypted",
        ),
    ],
)
def test_options_of_s3(
    options: dict[str, Any], environment: dict[str, str], expected: dict[str, str]
) -> None:
    store = store_of("s3://bucket/t", options, **environment)
    assert short(store) == {**RETRIES_OF_S3, **expected}
    assert all(name.startswith("fs.s3a.bucket.bucket.") for name in store.settings)
    assert set(store.unless.values()) == {f"fs.s3a.{name}" for name in RETRIES_OF_S3}


def test_without_options_hadoop_looks_where_the_client_does() -> None:
    store = store_of("s3://bucket/t", {})
    name = "fs.s3a.bucket.bucket.aws.credentials.provider"
    assert store.settings[name].endswith("auth.credentials.DefaultCredentialsProvider")
    assert store.unless[name] == "fs.s3a.aws.credentials.provider"


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("https://s3.eu-central-1.amazonaws.com", None),
        ("http://from-a-profile:9000", "http://from-a-profile:9000"),
        ("http://user:pass@from-a-profile:9000", "http://from-a-profile:9000"),
    ],
)
def test_the_endpoint_is_that_of_the_client(address: str, endpoint: str | None) -> None:
    store = store_of("s3://bucket/t", {"key": "k", "secret": SECRET}, address)
    assert short(store).get("endpoint") == endpoint
    assert store.place == (endpoint or "")


def test_an_endpoint_of_the_environment_that_the_client_passes_over_is_passed_over() -> None:
    reported = "http://elsewhere:9000"
    aws = "https://s3.eu-central-1.amazonaws.com"
    options = {"config_kwargs": {"ignore_configured_endpoint_urls": True}}
    store = store_of("s3://bucket/t", options, aws, AWS_ENDPOINT_URL=reported)
    assert "endpoint" not in short(store)
    assert store.place == ""
    private = "https://b.vpce-1.s3.us-east-1.vpce.amazonaws.com"
    store = store_of("s3://bucket/t", {"endpoint_url": private}, private, AWS_ENDPOINT_URL=reported)
    assert short(store)["endpoint"] == private


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"token": "anon", "project": "p"},
            {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.project.id": "p"},
        ),
        ({"token": "cloud"}, {"fs.gs.auth.type": "COMPUTE_ENGINE"}),
        (
            {"token": "/etc/key.json"},
            {
                "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": "/etc/key.json",
            },
        ),
        (
            {
                "token": {
                    "type": "authorized_user",
                    "client_id": "i",
                    "client_secret": SECRET,
                    "refresh_token": "r",
                }
            },
            {
                "fs.gs.auth.type": "USER_CREDENTIALS",
                "fs.gs.auth.client.id": "i",
                "fs.gs.auth.client.secret": SECRET,
                "fs.gs.auth.refresh.token": "r",
            },
        ),
        ({}, {"fs.gs.auth.type": "APPLICATION_DEFAULT"}),
    ],
)
def test_options_of_gcs(options: dict[str, Any], expected: dict[str, str]) -> None:
    assert store_of("gs://bucket/t", options).settings == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            KEY,
            {"fs.azure.account.auth.type": "SharedKey", "fs.azure.account.key": SECRET},
            id="an account's key",
        ),
        pytest.param(
            {"connection_string": f"AccountName=acc;AccountKey={SECRET}=="},
            {"fs.azure.account.auth.type": "SharedKey", "fs.azure.account.key": f"{SECRET}=="},
            id="a connection string",
        ),
        pytest.param(
            {**ACCOUNT, "sas_token": f"?sv=1&sig={SECRET}"},
            {
                "fs.azure.account.auth.type": "SAS",
                "fs.azure.sas.fixed.token.c": f"sv=1&sig={SECRET}",
            },
            id="a signature, of one container",
        ),
        pytest.param(
            {**ACCOUNT, "client_id": "i", "client_secret": SECRET, "tenant_id": "t"},
            {
                "fs.azure.account.auth.type": "OAuth",
                "fs.azure.account.oauth.provider.type": (
                    "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
                ),
                "fs.azure.account.oauth2.client.id": "i",
                "fs.azure.account.oauth2.client.secret": SECRET,
                "fs.azure.account.oauth2.client.endpoint": (
                    "https://login.microsoftonline.com/t/oauth2/token"
                ),
            },
            id="a client's secret",
        ),
        pytest.param(
            {**ACCOUNT, "anon": False},
            {
                "fs.azure.account.auth.type": "OAuth",
                "fs.azure.account.oauth.provider.type": (
                    "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider"
                ),
            },
            id="the machine's identity",
        ),
    ],
)
def test_options_of_azure(options: dict[str, Any], expected: dict[str, str]) -> None:
    store = store_of("az://c/t", options)
    most_retries = "fs.azure.io.retry.max.retries"
    assert short(store) == {most_retries: "8", **expected}
    assert all(name.endswith(f".{HOST}") for name in store.settings)
    assert store.unless == {f"{most_retries}.{HOST}": most_retries}


def test_an_emulator_of_azure_is_called_without_https() -> None:
    connection = f"AccountName=acc;AccountKey={SECRET};BlobEndpoint=http://127.0.0.1:7/acc;"
    store = store_of("az://c/t", {"connection_string": connection})
    assert store.root == f"abfs://c@{HOST}"
    assert store.settings[f"fs.azure.abfs.endpoint.{HOST}"] == "127.0.0.1:7"
    assert store.settings["fs.azure.always.use.https"] == "false"
    assert store.settings["fs.azure.metrics.collection.enabled"] == "false"
    over_https = store_of("az://c/t", KEY)
    assert "fs.azure.always.use.https" not in over_https.settings
    assert "fs.azure.metrics.collection.enabled" not in over_https.settings


@pytest.mark.parametrize(
    ("uri", "options", "named"),
    [
        ("s3://b/t", {"session": object()}, "session"),
        ("s3://b/t", {"client_kwargs": {"verify": SECRET}}, "client_kwargs.verify"),
        ("s3://b/t", {"config_kwargs": {"proxies": {"https": SECRET}}}, "config_kwargs.proxies"),
        ("s3://b/t", {"config_kwargs": {"signature_version": SECRET}}, "signature_version"),
        (
            "s3://b/t",
            {"config_kwargs": {"s3": {"use_accelerate_endpoint": True}}},
            "use_accelerate",
        ),
        ("s3://b/t", {"s3_additional_kwargs": {"SSECustomerKey": SECRET}}, "SSECustomerKey"),
        ("s3://b/t", {"s3_additional_kwargs": {"ServerSideEncryption": SECRET}}, "ServerSide"),
        ("s3://b/t", {"an_option_of_tomorrow": SECRET}, "an_option_of_tomorrow"),
        ("gs://b/t", {"endpoint_url": f"http://{SECRET}"}, "endpoint_url"),
        ("gs://b/t", {"token": {"type": "service_account", "private_key": SECRET}}, "token"),
        ("gs://b/t", {"token": "browser"}, "token"),
        ("gs://b/t", {"requester_pays": True}, "requester_pays"),
        ("az://c/t", {**ACCOUNT, "credential": object()}, "credential"),
        ("az://c/t", {**KEY, "proxies": SECRET}, "proxies"),
        (
            "az://c/t",
            {"connection_string": f"AccountName=acc;AccountKey={SECRET};BlobEndpoint=https://x/y"},
            "connection_string",
        ),
        ("az://c/t", {"account_key": SECRET}, "names no account of Azure"),
        ("az://c/t", ACCOUNT, "Azure without credentials"),
        ("s3://not_a_host/t", {}, "bucket not_a_host"),
        ("s3://data.2024/t", {}, "bucket data.2024"),
    ],
)
def test_options_that_hadoop_lacks_are_refused_by_name(
    uri: str, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(named)) as refused:
        store_of(uri, options)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("s3://bucket/t", {"key": "k", "secret": SECRET, "requester_pays": True}),
        ("s3://bucket/t", {}),
        ("gs://bucket/t", {"token": "/etc/key.json", "project": "p"}),
        ("az://c/t", KEY),
        ("az://c/t", {**ACCOUNT, "sas_token": SECRET}),
    ],
)
def test_settings_of_a_bucket_are_translated_with_their_names(
    uri: str, options: dict[str, Any]
) -> None:
    store = store_of(uri, options)
    hadoop = hadoop_of(store.root)
    assert hadoop is not None
    pattern = re.compile(hadoop.settings_pattern(store.root))
    assert all(pattern.search(name) for name in store.settings)
    of_another = store_of(
        uri.replace("bucket", "bucket2"),
        {**options, "account_name": "acc2"} if "az:" in uri else options,
    )
    if "gs:" not in uri:  # all its buckets share the settings
        assert not any(pattern.search(name) for name in of_another.settings)


def test_no_credential_is_shown() -> None:
    assert SECRET not in repr(store_of("s3://bucket/t", {"key": "k", "secret": SECRET}))
