"""Hadoop options: the options of a store as settings of Hadoop's file systems. Pure.

1. What names a store is translated for that store alone: by bucket on S3, by account or container
   on Azure. Hadoop's connector for Google Cloud Storage has one set of settings for all buckets.
2. An option that decides what is reached or who asks, and that Hadoop does not have, is refused by
   its name. Options of how a client works, such as its buffers, are left out.
3. Where no credentials are given, those of the environment count, as they do for the client; else
   Hadoop looks for them where the client would: in files, in a container, in a machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.endpoints import split_user_info
from delta_ops.storage.paths import redact, split_uri

Options = Mapping[str, Any]
Connector = Literal["s3", "gcs", "azure"]

_CONNECTORS: Mapping[str, Connector] = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "azure"),
}
_DFS_DOMAIN = ".dfs.core.windows.net"
_HOST = re.compile(r"(?:[A-Za-z0-9-]+\.)*[A-Za-z][A-Za-z0-9-]*|[A-Za-z0-9-]+")
"""What Java takes for the host of a URI."""
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
"""S3A's own chain does without the files and the web identity that the client knows."""
_GCS_KIND = "fs.gs.auth.type"
_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopStore:
    """A store as Hadoop takes it."""

    root: str
    """The URI of the bucket or container, without a slash at its end."""
    place: str
    """The endpoint, as far as it is not the provider's own."""
    settings: Mapping[str, str] = field(repr=False)
    """By their full names; credentials are among them."""
    unless: Mapping[str, str] = field(default_factory=dict)
    """Names of settings that are left out where the session has another one, by its name."""


def hadoop_root(uri: str, options: Options, environment: Mapping[str, str]) -> str | None:
    """The URI by which Hadoop knows the bucket or container of `uri`; None if it knows none.

    Args:
        uri: As the user wrote it; what follows the bucket is left out.
        options: By the names of the client.
        environment: The variables of this process.

    Raises:
        InvalidRequestError: Hadoop cannot name it.
    """
    scheme, rest = split_uri(uri)
    authority = rest.partition("/")[0]
    match _CONNECTORS.get(scheme):
        case "s3":
            if _HOST.fullmatch(authority) is None:
                raise InvalidRequestError(
                    f"{redact(uri)}: Hadoop cannot name the bucket {authority}, which is no host "
                    "name; use delta_ops.arrow, or a bucket whose name is one"
                )
            return f"s3a://{authority}"
        case "gcs":
            return f"gs://{authority}"
        case "azure":
            container, _, host = authority.partition("@")
            asked = _azure_options(options, environment)
            host = host.replace(".blob.", ".dfs.") or _azure_host(uri, asked)
            plain = (asked.get("endpoint") or "").startswith("http:")
            return f"{'abfs' if plain else 'abfss'}://{container}@{host}"
    return None


def settings_pattern(root: str) -> str:
    """A regular expression of the names of all settings that are for this root."""
    scheme, rest = split_uri(root)
    if scheme == "s3a":
        return rf"^fs\.s3a\.bucket\.{re.escape(rest)}\."
    if scheme == "gs":
        return r"^(fs\.gs|google\.cloud)\.(auth|project)\."
    return rf"^fs\.azure\..*\.{re.escape(rest.partition('@')[2])}$"


def hadoop_store(
    uri: str, options: Options, environment: Mapping[str, str], address: str | None = None
) -> HadoopStore | None:
    """The store of `uri` with its settings; None if Hadoop has no file system for it.

    Args:
        uri: As the user wrote it.
        options: By the names of the client.
        environment: The variables of this process.
        address: The endpoint that the client goes to, if it is known.

    Raises:
        InvalidRequestError: An option has no counterpart; no value is repeated.
    """
    root = hadoop_root(uri, options, environment)
    if root is None:
        return None
    connector = _CONNECTORS[split_uri(uri)[0]]
    if connector == "s3":
        return _s3(_Given(redact(uri), root, options), environment, address)
    if connector == "gcs":
        return _gcs(_Given(redact(uri), root, options), environment)
    return _azure(_Given(redact(uri), root, _azure_options(options, environment)))


class _Given:
    """Options, of which those that nobody has taken are refused in the end."""

    def __init__(self, uri: str, root: str, options: Options, outer: str = "") -> None:
        self.uri, self.root, self._outer = uri, root, outer
        self._left = {name: value for name, value in options.items() if value is not None}

    def take(self, *names: str) -> Any:
        """The value of the first of the names that has one."""
        found = [self._left.pop(name, None) for name in names]
        return next((value for value in found if value is not None), None)

    def options_in(self, name: str) -> _Given:
        """The options within an option."""
        return _Given(self.uri, self.root, self.take(name) or {}, f"{name}.")

    def refuse_rest(self, harmless: str) -> None:
        """Refuse what is left and not among the names in `harmless`."""
        for name in self._left:
            if name not in harmless.split():
                raise self.refusal(name)

    def refusal(self, name: str, cure: str = "leave it out") -> InvalidRequestError:
        """The error for an option."""
        return InvalidRequestError(
            f"{self.uri}: the option {self._outer}{name} has no counterpart in Hadoop's file "
            f"systems, so that Spark could not honour it; {cure}, or configure {self.root} in the "
            "session by settings of Hadoop, which count instead of the options"
        )


def _s3(given: _Given, environment: Mapping[str, str], address: str | None) -> HadoopStore:
    prefix = f"fs.s3a.bucket.{given.root.removeprefix('s3a://')}."
    client, config = given.options_in("client_kwargs"), given.options_in("config_kwargs")
    style = config.options_in("s3")
    said = given.take("endpoint_url") or client.take("endpoint_url")
    endpoint = _s3_endpoint(said, environment, address)
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
        "requester.pays.enabled": "true" if given.take("requester_pays") else None,
        **_s3_encryption(given.options_in("s3_additional_kwargs")),
        **_s3_credentials(given, client, config, environment),
    }
    if client.take("verify") not in (None, True):
        raise client.refusal("verify", "let the JVM trust the certificate")
    if client.take("use_ssl") is False or given.take("use_ssl") is False:
        found["connection.ssl.enabled"] = "false"
    given.refuse_rest(
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
    found = {_PROVIDER: _S3_CHAIN, **found}
    return HadoopStore(
        root=given.root,
        place=endpoint or "",
        settings={prefix + name: str(text) for name, text in found.items() if text is not None},
        unless={prefix + _PROVIDER: f"fs.s3a.{_PROVIDER}"} if by_itself else {},
    )


def _s3_endpoint(
    said: str | None, environment: Mapping[str, str], address: str | None
) -> str | None:
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    found = said or next((environment[name] for name in variables if environment.get(name)), None)
    host = urlsplit(address or "").hostname or ""
    if address and not _OWN_S3_HOST.search(host):
        found = address
    elif address and found and urlsplit(split_user_info(found)[0]).hostname != host:
        found = None  # the client was told to pass over it
    return split_user_info(found)[0] if found else None


def _path_style(addressing: str, endpoint: str | None) -> str | None:
    """The style of addresses as the client has it: a service of one's own is asked by paths."""
    if addressing == "auto":
        own = endpoint is None or _OWN_S3_HOST.search(urlsplit(endpoint).hostname or "")
        return None if own else "true"
    return "true" if addressing == "path" else "false"


def _s3_encryption(given: _Given) -> dict[str, str | None]:
    algorithm, key = given.take("ServerSideEncryption"), given.take("SSEKMSKeyId")
    pays = given.take("RequestPayer")
    given.refuse_rest("")
    algorithms = {None: None, "AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
    if algorithm not in algorithms:
        raise given.refusal("ServerSideEncryption")
    found = {"encryption.algorithm": algorithms[algorithm], "encryption.key": key}
    return {**found, "requester.pays.enabled": "true"} if pays else found


def _s3_credentials(
    given: _Given, client: _Given, config: _Given, environment: Mapping[str, str]
) -> dict[str, str | None]:
    key = given.take("key", "username") or client.take("aws_access_key_id")
    secret = given.take("secret", "password") or client.take("aws_secret_access_key")
    token = given.take("token") or client.take("aws_session_token")
    profile = given.take("profile")
    signature = config.take("signature_version")
    if given.take("anon") or (signature is not None and not isinstance(signature, str)):
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


def _gcs(given: _Given, environment: Mapping[str, str]) -> HadoopStore:
    endpoint = given.take("endpoint_url") or environment.get("STORAGE_EMULATOR_HOST")
    if endpoint and urlsplit(endpoint).hostname not in ("storage.googleapis.com", "default"):
        raise given.refusal("endpoint_url", "use delta_ops.arrow for this service")
    credentials = _gcs_credentials(given, given.take("token"))
    by_itself = {} if credentials else {_GCS_KIND: "APPLICATION_DEFAULT"}
    project = given.take("project")
    given.refuse_rest(
        "access consistency cache_timeout check_connection block_size timeout default_location "
        "version_aware asynchronous loop secure_serialize use_listings_cache max_paths "
        "listings_expiry_time skip_instance_cache"
    )
    return HadoopStore(
        root=given.root,
        place="",
        settings={
            **credentials,
            **by_itself,
            **({"fs.gs.project.id": str(project)} if project else {}),
        },
        unless=dict.fromkeys(by_itself, _GCS_KIND),
    )


def _gcs_credentials(given: _Given, token: object) -> dict[str, str]:
    match token:
        case None | "google_default":
            return {}
        case "anon":
            return {_GCS_KIND: "UNAUTHENTICATED"}
        case "cloud":
            return {_GCS_KIND: "COMPUTE_ENGINE"}
        case "cache" | "browser":
            raise given.refusal("token", "give the path of a key's file")
        case str():
            return {
                _GCS_KIND: "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": token,
            }
        case {"type": "authorized_user", "client_id": who, "client_secret": key, **rest}:
            return {
                _GCS_KIND: "USER_CREDENTIALS",
                "fs.gs.auth.client.id": str(who),
                "fs.gs.auth.client.secret": str(key),
                "fs.gs.auth.refresh.token": str(rest.get("refresh_token")),
            }
    raise given.refusal("token", "give the path of the key's file instead of the key")


_AZURE_VARIABLES: Mapping[str, str] = {
    "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
    "connection_string": "AZURE_STORAGE_CONNECTION_STRING",
    "sas_token": "AZURE_STORAGE_SAS_TOKEN",
    "client_id": "AZURE_STORAGE_CLIENT_ID",
    "client_secret": "AZURE_STORAGE_CLIENT_SECRET",
    "tenant_id": "AZURE_STORAGE_TENANT_ID",
}
_AZURE_PARTS: Mapping[str, str] = {
    "accountname": "account_name",
    "accountkey": "account_key",
    "sharedaccesssignature": "sas_token",
    "blobendpoint": "endpoint",
    "endpointsuffix": "suffix",
}


def _azure_options(options: Options, environment: Mapping[str, str]) -> dict[str, Any]:
    """The options with what the environment adds, a connection string taken apart."""
    found = {name: environment.get(variable) for name, variable in _AZURE_VARIABLES.items()}
    found |= {name: value for name, value in options.items() if value is not None}
    for part in str(found.pop("connection_string", None) or "").split(";"):
        name, _, value = part.strip().partition("=")
        if name.lower() in _AZURE_PARTS:
            found[_AZURE_PARTS[name.lower()]] = value
    return {name: value for name, value in found.items() if value is not None}


def _azure_host(uri: str, asked: Options) -> str:
    if asked.get("account_host"):
        return str(asked["account_host"]).replace(".blob.", ".dfs.")
    if not asked.get("account_name"):
        raise InvalidRequestError(
            f"{redact(uri)} names no account of Azure; write "
            f"abfss://CONTAINER@ACCOUNT{_DFS_DOMAIN}/... or give account_name in storage_options"
        )
    suffix = asked.get("suffix")
    return f"{asked['account_name']}{f'.dfs.{suffix}' if suffix else _DFS_DOMAIN}"


_OF_EMULATORS = {
    # Who writes abfss: is asked by HTTPS all the same.
    "fs.azure.always.use.https": "false",
    # They would be sent when the session ends: for minutes, if the emulator has ended first.
    "fs.azure.metrics.collection.enabled": "false",
}
"""Settings of no account, but of all."""


def _azure(given: _Given) -> HadoopStore:
    container, _, host = split_uri(given.root)[1].partition("@")
    endpoint = given.take("endpoint") or ""
    settings = _azure_credentials(given, container, host)
    emulated = _azure_emulator(given, endpoint, host.partition(".")[0])
    given.refuse_rest(
        "request_session socket_timeout blocksize default_fill_cache default_cache_type "
        "version_aware assume_container_exists max_concurrency asynchronous loop "
        "use_listings_cache max_paths listings_expiry_time skip_instance_cache location_mode "
        "connection_timeout read_timeout suffix account_name account_host"
    )
    return HadoopStore(
        root=given.root,
        place=endpoint,
        settings={
            **{f"{name}.{host}": str(text) for name, text in {**settings, **emulated}.items()},
            **(_OF_EMULATORS if emulated else {}),
        },
    )


def _azure_credentials(given: _Given, container: str, host: str) -> dict[str, str]:
    kind = "fs.azure.account.auth.type"
    key, token = given.take("account_key"), given.take("sas_token")
    client, secret, tenant = (given.take(f) for f in ("client_id", "client_secret", "tenant_id"))
    anonymous = given.take("anon")
    if given.take("credential") is not None:
        raise given.refusal("credential", "give an account key, a SAS token or a client's secret")
    if key:
        return {kind: "SharedKey", "fs.azure.account.key": key}
    if token:
        return {kind: "SAS", f"fs.azure.sas.fixed.token.{container}": str(token).removeprefix("?")}
    if client and secret and tenant:
        return {
            kind: "OAuth",
            "fs.azure.account.oauth.provider.type": f"{_OAUTH}.ClientCredsTokenProvider",
            "fs.azure.account.oauth2.client.id": client,
            "fs.azure.account.oauth2.client.secret": secret,
            "fs.azure.account.oauth2.client.endpoint": (
                f"https://login.microsoftonline.com/{tenant}/oauth2/token"
            ),
        }
    if anonymous in (False, "False", "false"):  # the client looks for an identity of the machine
        return {
            kind: "OAuth",
            "fs.azure.account.oauth.provider.type": f"{_OAUTH}.MsiTokenProvider",
        }
    raise InvalidRequestError(
        f"{given.uri}: Hadoop reads nothing of Azure without credentials; give account_key, "
        f"sas_token, or client_id, client_secret and tenant_id in storage_options, or configure "
        f"fs.azure.account.auth.type.{host} in the session"
    )


def _azure_emulator(given: _Given, endpoint: str, account: str) -> dict[str, str]:
    """Settings for a service that has the account in its path, as Azurite does."""
    parts = urlsplit(endpoint)
    if not endpoint or (parts.hostname or "").startswith(f"{account}."):
        return {}
    if parts.path.strip("/") != account or parts.scheme != "http":
        raise given.refusal("connection_string", "leave its BlobEndpoint out")
    return {
        "fs.azure.abfs.endpoint": f"{parts.hostname}:{parts.port or 80}",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.account.hns.enabled": "false",
    }
