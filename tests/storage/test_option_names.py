"""Option names: names of the environment and of object_store open the right store."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.storage.remote.opening import client_options
from tests.cli.test_commands import run
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server

SECRET = "wJalrXUtnFEMI"


@pytest.mark.parametrize(
    ("scheme", "argument", "meant"),
    [
        pytest.param(
            "s3",
            {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"},
            {"key": "a", "secret": "b", "token": "c"},
            id="credentials of S3",
        ),
        pytest.param(
            "s3a",
            {"aws_access_key_id": "a", "secret_access_key": "b"},
            {"key": "a", "secret": "b"},
            id="in small letters and without the prefix",
        ),
        pytest.param(
            "s3",
            {"AWS_ENDPOINT_URL": "http://h", "AWS_REGION": "eu", "AWS_ALLOW_HTTP": "true"},
            {"endpoint_url": "http://h", "client_kwargs": {"region_name": "eu"}},
            id="the place of S3",
        ),
        pytest.param(
            "s3",
            {"AWS_REGION": "eu", "client_kwargs": {"verify": False}, "AWS_CA_BUNDLE": "/ca"},
            {"client_kwargs": {"region_name": "eu", "verify": False}},
            id="an option in client_kwargs wins",
        ),
        pytest.param(
            "s3",
            {"AWS_SKIP_SIGNATURE": "true", "aws_virtual_hosted_style_request": "false"},
            {"anon": True, "config_kwargs": {"s3": {"addressing_style": "path"}}},
            id="truth values of S3",
        ),
        pytest.param(
            "s3", {"key": "a", "AWS_ACCESS_KEY_ID": "a"}, {"key": "a"}, id="the same thing twice"
        ),
        pytest.param(
            "s3",
            {"endpoint_url": "http://h", "default_block_size": 5, "some.thing": 1},
            {"endpoint_url": "http://h", "default_block_size": 5, "some.thing": 1},
            id="the client's own names stay",
        ),
        pytest.param(
            "gs",
            {"GOOGLE_APPLICATION_CREDENTIALS": "/key.json", "GOOGLE_CLOUD_PROJECT": "p"},
            {"token": "/key.json", "project": "p"},
            id="the credentials and the project of GCS",
        ),
        pytest.param(
            "gcs",
            {"google_service_account_key": '{"type": "service_account"}'},
            {"token": {"type": "service_account"}},
            id="the key of GCS as a text",
        ),
        pytest.param("gs", {"google_skip_signature": True}, {"token": "anon"}, id="public GCS"),
        pytest.param(
            "abfss",
            {"AZURE_STORAGE_ACCOUNT_NAME": "n", "AZURE_STORAGE_ACCOUNT_KEY": "k"},
            {"account_name": "n", "account_key": "k"},
            id="the account of Azure",
        ),
        pytest.param(
            "az",
            {"AZURE_CLIENT_ID": "i", "azure_client_secret": "s", "AZURE_TENANT_ID": "t"},
            {"client_id": "i", "client_secret": "s", "tenant_id": "t"},
            id="the application of Azure",
        ),
        pytest.param("memory", {"AWS_REGION": "eu"}, {"AWS_REGION": "eu"}, id="no object store"),
    ],
)
def test_options_have_the_names_of_the_client(
    scheme: str, argument: dict[str, Any], meant: dict[str, Any]
) -> None:
    assert client_options(scheme, argument) == meant


@pytest.mark.parametrize(
    ("scheme", "argument", "message"),
    [
        pytest.param(
            "s3",
            {"AWS_ENDPONT_URL": SECRET},
            "The option AWS_ENDPONT_URL is unknown for s3; give one of .*aws_endpoint_url",
            id="a name that there is not",
        ),
        pytest.param(
            "s3",
            {"fs.s3a.acces.key": SECRET},
            "fs.s3a.acces.key of Hadoop has no equivalent",
            id="a name that Hadoop has not",
        ),
        pytest.param(
            "gs",
            {"AWS_ACCESS_KEY_ID": SECRET},
            "AWS_ACCESS_KEY_ID is unknown for gs; .*google_application_credentials",
            id="a name of another store",
        ),
        pytest.param(
            "s3",
            {"key": SECRET, "AWS_ACCESS_KEY_ID": "other"},
            "The options key and AWS_ACCESS_KEY_ID of the store contradict each other",
            id="contradict",
        ),
        pytest.param(
            "s3", {"AWS_SKIP_SIGNATURE": SECRET}, "SIGNATURE of the store must be true", id="truth"
        ),
        pytest.param("s3", {"allow_http": "false"}, "allow_http .* cannot be false", id="no HTTP"),
        pytest.param(
            "gs",
            {"GOOGLE_SERVICE_ACCOUNT_KEY": SECRET},
            "must be the JSON text of a service account's key",
            id="a key that is no JSON",
        ),
    ],
)
def test_unknown_options_are_refused_by_name(
    scheme: str, argument: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message) as refused:
        DeltaLog(f"{scheme}://bucket/t", argument)
    assert SECRET not in str(refused.value)


def test_a_table_is_opened_by_the_names_of_the_environment(s3_server: S3Server) -> None:
    options = {
        "AWS_ENDPOINT_URL": s3_server.url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
    }
    uri = f"s3://{s3_server.new_bucket()}/t"
    da.write(uri, pa.table({"id": [1]}), storage_options=options)
    data = [
        text for name, value in options.items() for text in ("--storage-option", f"{name}={value}")
    ]
    output = run("count", uri, *data)
    assert (output.exit_code, output.stdout) == (0, "1\n")
