"""S3A: Hadoop's connector for S3, see `backends.hadoop_connector`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.endpoints import split_user_info
from delta_ops.storage.backends.hadoop_connector import (
    Hadoop,
    HadoopStore,
    Options,
    RemainingOptions,
    RemainingSettings,
)
from delta_ops.storage.paths import redact, split_uri

_HOST = re.compile(r"(?:[A-Za-z0-9-]+\.)*[A-Za-z][A-Za-z0-9-]*|[A-Za-z0-9-]+")
"""Names that Java accepts as the host of a URI."""
_OWN_S3_HOST = re.compile(r"\.amazonaws\.com(?:\.cn)?$")
_PROVIDER = "aws.credentials.provider"
_S3A = "org.apache.hadoop.fs.s3a"
_S3_CHAIN = ",".join(
    (
        f"{_S3A}.TemporaryAWSCredentialsProvider",
        f"{_S3A}.SimpleAWSCredentialsProvider",
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    )
)
"""Unlike S3A's own chain, this includes the files and the web identity that the client uses."""
_RETRIES = {"attempts.maximum": "3", "retry.limit": "4", "retry.throttle.limit": "8"}
"""Retries of one request for less than two minutes, also by a store that is overloaded. By the
connector's own values a write of one file waits for many minutes, and for hours if overloaded."""
_CENTRAL_S3 = "s3.amazonaws.com"
_FOUND_BY_ITSELF = frozenset(
    {
        "DefaultCredentialsProvider",
        "EnvironmentVariableCredentialsProvider",
        "ContainerCredentialsProvider",
        "IAMInstanceCredentialsProvider",
        "InstanceProfileCredentialsProvider",
        "ProfileAWSCredentialsProvider",
        "ProfileCredentialsProvider",
        "SimpleAWSCredentialsProvider",
        "TemporaryAWSCredentialsProvider",
        "WebIdentityTokenFileCredentialsProvider",
        # Names of the older SDK, which Hadoop still accepts.
        "DefaultAWSCredentialsProviderChain",
        "WebIdentityTokenCredentialsProvider",
    }
)
"""Hadoop's credential sources that the client also uses by default."""
_ENCRYPTION = {
    "SSE-S3": "AES256",
    "AES256": "AES256",
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
}
_OLD_CONNECTORS = r"fs\.s3n?\.(?!impl)"
"""Settings of connectors that Hadoop no longer has."""
_HARMLESS = (
    r"impl|(?:attempts|audit|block|buffer|bulk|change|committer|connection|create|directory"
    r"|etag|executor|experimental|fast|input|list|max|multiobjectdelete|multipart|optimized"
    r"|paging|performance|prefetch|readahead|retry|socket|threads|user\.agent|vectored)\..*"
)
"""Settings that only tune the connector."""


def _root(uri: str, options: Options, environment: Mapping[str, str]) -> str:  # noqa: ARG001
    bucket = split_uri(uri)[1].partition("/")[0]
    if _HOST.fullmatch(bucket) is None:
        raise InvalidRequestError(
            f"{redact(uri)}: Hadoop cannot name the bucket {bucket}, which is not a valid host "
            "name; use delta_ops.arrow, or a bucket with a valid host name"
        )
    return f"s3a://{bucket}"


def _settings_pattern(root: str) -> str:
    return rf"^fs\.s3a\.bucket\.{re.escape(root.removeprefix('s3a://'))}\."


def _store(
    uri: str, root: str, options: Options, environment: Mapping[str, str], address: str | None
) -> HadoopStore:
    remaining = RemainingOptions(uri, root, options)
    prefix = f"fs.s3a.bucket.{root.removeprefix('s3a://')}."
    client, config = remaining.options_in("client_kwargs"), remaining.options_in("config_kwargs")
    style = config.options_in("s3")
    chosen = remaining.take("endpoint_url") or client.take("endpoint_url")
    endpoint = _endpoint(chosen, environment, address)
    region = client.take("region_name") or config.take("region_name")
    addressing = style.take("addressing_style") or "auto"
    found: dict[str, str | None] = {
        "endpoint": endpoint,
        "endpoint.region": region
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or ("us-east-1" if endpoint else None),
        "path.style.access": _path_style(addressing, endpoint),
        "connection.ssl.enabled": "false" if (endpoint or "").startswith("http:") else None,
        "requester.pays.enabled": "true" if remaining.take("requester_pays") else None,
        **_encryption(remaining.options_in("s3_additional_kwargs")),
        **_credentials(remaining, client, config, environment),
    }
    if client.take("verify") not in (None, True):
        raise client.refusal("verify", "let the JVM trust the certificate")
    if client.take("use_ssl") is False or remaining.take("use_ssl") is False:
        found["connection.ssl.enabled"] = "false"
    remaining.refuse_rest(
        "default_block_size default_fill_cache default_cache_type version_aware cache_regions "
        "asynchronous loop max_concurrency fixed_upload_size use_listings_cache max_paths "
        "listings_expiry_time skip_instance_cache"
    )
    client.refuse_rest("api_version")
    style.refuse_rest("payload_signing_enabled us_east_1_regional_endpoint")
    config.refuse_rest(
        "connect_timeout read_timeout retries max_pool_connections tcp_keepalive user_agent "
        "user_agent_extra parameter_validation request_checksum_calculation "
        "response_checksum_validation ignore_configured_endpoint_urls"
    )
    by_itself = _PROVIDER not in found
    found = {_PROVIDER: _S3_CHAIN, **_RETRIES, **found}
    defaults = (*_RETRIES, _PROVIDER) if by_itself else _RETRIES
    return HadoopStore(
        root=root,
        place=endpoint or "",
        settings={prefix + name: str(text) for name, text in found.items() if text is not None},
        unless={prefix + name: f"fs.s3a.{name}" for name in defaults},
    )


def _endpoint(
    chosen: str | None, environment: Mapping[str, str], address: str | None
) -> str | None:
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    found = chosen or next((environment[name] for name in variables if environment.get(name)), None)
    host = urlsplit(address or "").hostname or ""
    if address and not _OWN_S3_HOST.search(host):
        found = address
    elif address and found and urlsplit(split_user_info(found)[0]).hostname != host:
        found = None  # the client's settings ignore this endpoint
    return split_user_info(found)[0] if found else None


def _path_style(addressing: str, endpoint: str | None) -> str | None:
    """The addressing style of the client: "auto" means paths, except for Amazon's own service."""
    if addressing == "auto":
        own = endpoint is None or _OWN_S3_HOST.search(urlsplit(endpoint).hostname or "")
        return None if own else "true"
    return "true" if addressing == "path" else "false"


def _encryption(remaining: RemainingOptions) -> dict[str, str | None]:
    algorithm, key = remaining.take("ServerSideEncryption"), remaining.take("SSEKMSKeyId")
    pays = remaining.take("RequestPayer")
    remaining.refuse_rest("")
    algorithms = {None: None, "AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
    if algorithm not in algorithms:
        raise remaining.refusal("ServerSideEncryption")
    found = {"encryption.algorithm": algorithms[algorithm], "encryption.key": key}
    return {**found, "requester.pays.enabled": "true"} if pays else found


def _credentials(
    remaining: RemainingOptions,
    client: RemainingOptions,
    config: RemainingOptions,
    environment: Mapping[str, str],
) -> dict[str, str | None]:
    key = remaining.take("key", "username") or client.take("aws_access_key_id")
    secret = remaining.take("secret", "password") or client.take("aws_secret_access_key")
    token = remaining.take("token") or client.take("aws_session_token")
    profile = remaining.take("profile")
    signature = config.take("signature_version")
    if remaining.take("anon") or (signature is not None and not isinstance(signature, str)):
        return {_PROVIDER: f"{_S3A}.AnonymousAWSCredentialsProvider"}
    if signature not in (None, "s3v4", "v4"):
        raise config.refusal("signature_version")
    if not (key or secret or profile):
        key, secret = (
            environment.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        )
        token = token or environment.get("AWS_SESSION_TOKEN")
        profile = None if key and secret else environment.get("AWS_PROFILE")
    if key and secret:
        kind = "Temporary" if token else "Simple"
        return {
            _PROVIDER: f"{_S3A}.{kind}AWSCredentialsProvider",
            "access.key": key,
            "secret.key": secret,
            "session.token": token,
        }
    if profile:
        return {
            _PROVIDER: f"{_S3A}.auth.ProfileAWSCredentialsProvider",
            "auth.profile.name": profile,
            "auth.profile.file": environment.get("AWS_SHARED_CREDENTIALS_FILE"),
        }
    return {}


def _client_options(uri: str, properties: Options) -> dict[str, Any]:
    bucket = f"fs.s3a.bucket.{split_uri(uri)[1].partition('/')[0].lower()}."
    of_all = {
        name.removeprefix("fs.s3a."): value
        for name, value in properties.items()
        if name.startswith("fs.s3a.") and not name.startswith("fs.s3a.bucket.")
    }
    of_bucket = {
        name.removeprefix(bucket): value
        for name, value in properties.items()
        if name.startswith(bucket)
    }
    settings = RemainingSettings("fs.s3a.", of_all | of_bucket)
    if old := next((name for name in properties if re.match(_OLD_CONNECTORS, name)), None):
        raise InvalidRequestError(
            f"The setting {old} belongs to a connector that Hadoop has removed; use the "
            "equivalent setting of fs.s3a."
        )
    path_style = settings.take_flag("path.style.access")
    found = {
        "key": settings.take("access.key"),
        "secret": settings.take("secret.key"),
        "token": settings.take("session.token"),
        "profile": settings.take("auth.profile.name"),
        "endpoint_url": _endpoint_of_settings(settings),
        "region": settings.take("endpoint.region"),
        "requester_pays": settings.take_flag("requester.pays.enabled"),
        "aws_virtual_hosted_style_request": None if path_style is None else not path_style,
        "anon": _is_anonymous(settings),
        "s3_additional_kwargs": _encryption_of_settings(settings),
    }
    settings.refuse_rest(_HARMLESS)
    return {name: value for name, value in found.items() if value is not None}


def _endpoint_of_settings(settings: RemainingSettings) -> str | None:
    endpoint, is_https = settings.take("endpoint"), settings.take_flag("connection.ssl.enabled")
    if not endpoint or endpoint.partition("://")[2] == _CENTRAL_S3 or endpoint == _CENTRAL_S3:
        return None
    return endpoint if "://" in endpoint else f"http{'' if is_https is False else 's'}://{endpoint}"


def _is_anonymous(settings: RemainingSettings) -> bool | None:
    """True if requests are not signed; None if the client finds credentials."""
    name = "aws.credentials.provider"
    classes = [each.strip() for each in (settings.take(name) or "").split(",")]
    kinds = [re.split(r"[.$]", each)[-1] for each in classes if each]
    if kinds == ["AnonymousAWSCredentialsProvider"]:
        return True
    for kind in kinds:
        if kind not in _FOUND_BY_ITSELF and kind != "AnonymousAWSCredentialsProvider":
            raise settings.refusal(name, "give keys or a profile, or set them in the environment")
    return None


def _encryption_of_settings(settings: RemainingSettings) -> dict[str, str] | None:
    name = "encryption.algorithm"
    algorithm = settings.take(name, "server-side-encryption-algorithm")
    key = settings.take("encryption.key", "server-side-encryption.key")
    if algorithm is None:
        return None
    if algorithm not in _ENCRYPTION:
        raise settings.refusal(name, f"give one of {', '.join(_ENCRYPTION)}")
    found = {"ServerSideEncryption": _ENCRYPTION[algorithm]}
    return {**found, "SSEKMSKeyId": key} if key else found


HADOOP = Hadoop(
    connector="s3",
    file_system="org.apache.hadoop.fs.s3a.S3AFileSystem",
    root=_root,
    store=_store,
    settings_pattern=_settings_pattern,
    client_options=_client_options,
    few_tries={
        "fs.s3a.attempts.maximum": "1",
        "fs.s3a.retry.limit": "1",
        "fs.s3a.connection.establish.timeout": "15000",  # milliseconds; the smallest accepted value
    },
)
