"""Hadoop settings as options open the same store as in Spark, or are rejected."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.storage.hadoop import hadoop_store, translate_hadoop_names
from delta_ops.storage.paths import split_uri
from delta_ops.storage.remote.opening import client_options
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server

SECRET = "a-secret-of-the-test"
S3 = "s3a://bucket/t"
GCS = "gs://bucket/t"
HOST = "acc.dfs.core.windows.net"
AZURE = f"abfss://c@{HOST}/t"
S3A = "org.apache.hadoop.fs.s3a"
OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"


@pytest.mark.parametrize(
    ("uri", "settings", "meant"),
    [
        pytest.param(
            S3,
            {
                "fs.s3a.access.key": "k",
                "fs.s3a.secret.key": SECRET,
                "fs.s3a.session.token": "t",
                "fs.s3a.aws.credentials.provider": f"{S3A}.TemporaryAWSCredentialsProvider",
            },
            {"key": "k", "secret": SECRET, "token": "t"},
            id="keys of S3",
        ),
        pytest.param(
            "s3://bucket/t",
            {"fs.s3a.access.key": "all", "fs.s3a.bucket.bucket.access.key": "own"}
            | {"fs.s3a.bucket.other.access.key": "other"},
            {"key": "own"},
            id="settings of the bucket win, and others belong to other buckets",
        ),
        pytest.param(
            S3,
            {"fs.s3a.endpoint": "minio:9000", "fs.s3a.connection.ssl.enabled": "false"}
            | {"fs.s3a.path.style.access": True, "fs.s3a.endpoint.region": "eu"},
            {
                "endpoint_url": "http://minio:9000",
                "client_kwargs": {"region_name": "eu"},
                "config_kwargs": {"s3": {"addressing_style": "path"}},
            },
            id="a service of one's own",
        ),
        pytest.param(
            S3, {"fs.s3a.endpoint": "minio"}, {"endpoint_url": "https://minio"}, id="by HTTPS"
        ),
        pytest.param(S3, {"fs.s3a.endpoint": "s3.amazonaws.com"}, {}, id="S3 itself"),
        pytest.param(
            S3,
            {"fs.s3a.aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider"},
            {"anon": True},
            id="public S3",
        ),
        pytest.param(
            S3,
            {"fs.s3a.server-side-encryption-algorithm": "SSE-KMS"}
            | {"fs.s3a.server-side-encryption.key": "arn"},
            {"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn"}},
            id="encryption by its name of before",
        ),
        pytest.param(
            S3,
            {"FS.S3A.Access.Key": "k", "key": "k", "fs.s3a.fast.upload": "true"}
            | {"fs.s3a.impl": f"{S3A}.S3AFileSystem", "fs.s3a.connection.maximum": 9}
            | {"fs.gs.auth.type": "COMPUTE_ENGINE", "dfs.replication": 1, "fs.defaultFS": "file:"},
            {"key": "k"},
            id="how a client works, and other stores, are left out",
        ),
        pytest.param(
            GCS,
            {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", "fs.gs.project.id": "p"}
            | {"fs.gs.auth.service.account.json.keyfile": "/key.json"},
            {"token": "/key.json", "project": "p"},
            id="a service account of GCS",
        ),
        pytest.param(
            GCS, {"fs.gs.auth.type": "UNAUTHENTICATED"}, {"token": "anon"}, id="public GCS"
        ),
        pytest.param(
            AZURE,
            {f"fs.azure.account.key.{HOST}": SECRET}
            | {"fs.azure.account.key.other.dfs.core.windows.net": "other"},
            {"account_key": SECRET},
            id="the key of the account, and not of another",
        ),
        pytest.param(
            AZURE,
            {"fs.azure.account.key.acc.blob.core.windows.net": SECRET},
            {"account_key": SECRET},
            id="the key by the account's other host",
        ),
        pytest.param(
            AZURE,
            {f"fs.azure.account.auth.type.{HOST}": "OAuth", "fs.azure.account.key": "k"}
            | {"fs.azure.account.oauth.provider.type": f"{OAUTH}.ClientCredsTokenProvider"}
            | {"fs.azure.account.oauth2.client.id": "i"}
            | {f"fs.azure.account.oauth2.client.secret.{HOST}": SECRET}
            | {
                f"fs.azure.account.oauth2.client.endpoint.{HOST}": (
                    "https://login.microsoftonline.com/tenant/oauth2/token"
                )
            },
            {"client_id": "i", "client_secret": SECRET, "tenant_id": "tenant"},
            id="an application of Azure, whatever key there is",
        ),
        pytest.param("memory://t", {"fs.x": "1"}, {"fs.x": "1"}, id="no object store"),
    ],
)
def test_settings_are_put_into_the_words_of_the_client(
    uri: str, settings: dict[str, Any], meant: dict[str, Any]
) -> None:
    plain = translate_hadoop_names(uri, settings)
    assert client_options(split_uri(uri)[0], plain) == meant


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        (S3, {"key": "k", "secret": SECRET, "endpoint_url": "http://127.0.0.1:7"}),
        (S3, {"key": "k", "secret": SECRET, "token": "t", "client_kwargs": {"region_name": "eu"}}),
        (S3, {"anon": True, "requester_pays": True}),
        (S3, {"profile": "p", "s3_additional_kwargs": {"ServerSideEncryption": "AES256"}}),
        (S3, {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}),
        (GCS, {"token": "/key.json", "project": "p"}),
        (GCS, {"token": "cloud"}),
        (
            GCS,
            {
                "token": {
                    "type": "authorized_user",
                    "client_id": "i",
                    "client_secret": SECRET,
                    "refresh_token": "r",
                }
            },
        ),
        (AZURE, {"account_key": SECRET}),
        (AZURE, {"sas_token": f"sv=1&sig={SECRET}"}),
        (AZURE, {"client_id": "i", "client_secret": SECRET, "tenant_id": "t"}),
        (AZURE, {"anon": False}),
    ],
)
def test_settings_for_spark_mean_the_same_as_the_options(uri: str, options: dict[str, Any]) -> None:
    reported = hadoop_store(uri, options, {})
    assert reported is not None
    back = client_options(split_uri(uri)[0], translate_hadoop_names(uri, reported.settings))
    hadoop_again = hadoop_store(uri, back, {})
    assert hadoop_again is not None
    assert hadoop_again.settings == reported.settings


@pytest.mark.parametrize(
    ("uri", "settings", "message"),
    [
        (S3, {"fs.s3a.assumed.role.arn": SECRET}, "fs.s3a.assumed.role.arn of Hadoop has no"),
        (S3, {"fs.s3a.proxy.host": SECRET}, "fs.s3a.proxy.host of Hadoop has no equivalent"),
        (S3, {"fs.s3.awsaccesskeyid": SECRET}, "use the equivalent setting of fs.s3a."),
        (S3, {"fs.s3a.path.style.access": SECRET}, "path.style.access of the store must be true"),
        (
            S3,
            {"fs.s3a.aws.credentials.provider": f"{S3A}.auth.AssumedRoleCredentialProvider"},
            "aws.credentials.provider of Hadoop has no equivalent .*give keys",
        ),
        (S3, {"fs.s3a.access.key": SECRET, "key": "k"}, "The option key of the store contradicts"),
        (
            S3,
            {"fs.s3a.endpoint.region": SECRET, "AWS_REGION": "eu"},
            "The options AWS_REGION and region of the store contradict each other",
        ),
        (S3, {"fs.s3a.encryption.algorithm": "SSE-C"}, "encryption.algorithm .*SSE-KMS"),
        (GCS, {"fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER"}, "fs.gs.auth.type of Hadoop has no"),
        (AZURE, {f"fs.azure.account.auth.type.{HOST}": "Custom"}, "give SharedKey, SAS or OAuth"),
        (
            AZURE,
            {"fs.azure.account.oauth.provider.type": f"{OAUTH}.RefreshTokenBasedTokenProvider"},
            "give a client's id and secret",
        ),
        (
            AZURE,
            {"fs.azure.account.oauth2.client.endpoint": f"https://h/{SECRET}"},
            "give tenant_id as an option",
        ),
    ],
)
def test_settings_without_an_equivalent_are_refused_by_name(
    uri: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message) as refused:
        DeltaLog(uri, settings)
    assert SECRET not in str(refused.value)


def test_a_table_is_opened_by_the_settings_of_hadoop(s3_server: S3Server) -> None:
    uri = f"s3a://{s3_server.new_bucket()}/t"
    settings = {
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.endpoint": s3_server.url.removeprefix("http://"),
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
    }
    da.write(uri, pa.table({"id": [1]}), storage_options=settings)
    assert DeltaLog(uri, s3_server.storage_options).snapshot().num_files == 1
