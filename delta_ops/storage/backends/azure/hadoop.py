"""ABFS: Hadoop's connector for Azure, see `backends.hadoop_connector`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.storage.backends.hadoop_connector import (
    Hadoop,
    HadoopStore,
    Options,
    RemainingOptions,
    RemainingSettings,
)
from delta_ops.storage.paths import redact, split_uri

_DFS_DOMAIN = ".dfs.core.windows.net"
_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"
_TENANT = re.compile(r"https://login\.[^/]+/([^/]+)/oauth2(?:/v2\.0)?/token")
_AN_ACCOUNT = re.compile(r"\.[a-z0-9]+\.(?:dfs|blob)\.[a-z0-9.-]+$")
_HARMLESS = (
    r"account\.hns\.enabled|(?:always|atomic|block|buffer|cluster|create|data|disable|enable|fns|io"
    r"|list|max|metrics|read|readaheadqueue|rename|retry|secure|shellkeyprovider|skip"
    r"|tracingheader|user|write)\..*"
)
"""Settings that only tune the connector."""

_VARIABLES: Mapping[str, str] = {
    "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
    "connection_string": "AZURE_STORAGE_CONNECTION_STRING",
    "sas_token": "AZURE_STORAGE_SAS_TOKEN",
    "client_id": "AZURE_STORAGE_CLIENT_ID",
    "client_secret": "AZURE_STORAGE_CLIENT_SECRET",
    "tenant_id": "AZURE_STORAGE_TENANT_ID",
}
_PARTS: Mapping[str, str] = {
    "accountname": "account_name",
    "accountkey": "account_key",
    "sharedaccesssignature": "sas_token",
    "blobendpoint": "endpoint",
    "endpointsuffix": "suffix",
}


def _all_options(options: Options, environment: Mapping[str, str]) -> dict[str, Any]:
    """The options, plus options from the environment and from the connection string."""
    found = {name: environment.get(variable) for name, variable in _VARIABLES.items()}
    found |= {name: value for name, value in options.items() if value is not None}
    for part in str(found.pop("connection_string", None) or "").split(";"):
        name, _, value = part.strip().partition("=")
        if name.lower() in _PARTS:
            found[_PARTS[name.lower()]] = value
    return {name: value for name, value in found.items() if value is not None}


def _host(uri: str, known: Options) -> str:
    if known.get("account_host"):
        return str(known["account_host"]).replace(".blob.", ".dfs.")
    if not known.get("account_name"):
        raise InvalidRequestError(
            f"{redact(uri)} names no account of Azure; write "
            f"abfss://CONTAINER@ACCOUNT{_DFS_DOMAIN}/... or give account_name in "
            f"{option('storage_options')}"
        )
    suffix = known.get("suffix")
    return f"{known['account_name']}{f'.dfs.{suffix}' if suffix else _DFS_DOMAIN}"


_OF_EMULATORS = {
    # Addresses with abfss: use HTTPS despite this setting.
    "fs.azure.always.use.https": "false",
    # Metrics are sent at the end of the session, which takes minutes if the emulator is gone.
    "fs.azure.metrics.collection.enabled": "false",
}
"""Settings without an account; they apply to all accounts."""

_MOST_RETRIES = "fs.azure.io.retry.max.retries"
_RETRIES = "8"
"""Retries of one request for about a minute; the connector's own 30 take more than ten minutes."""


def _store(
    uri: str,
    root: str,
    options: Options,
    environment: Mapping[str, str],
    address: str | None,  # noqa: ARG001
) -> HadoopStore:
    remaining = RemainingOptions(uri, root, _all_options(options, environment))
    container, _, host = split_uri(root)[1].partition("@")
    endpoint = remaining.take("endpoint") or ""
    settings = _credentials(remaining, container, host)
    emulated = _emulator(remaining, endpoint, host.partition(".")[0])
    remaining.refuse_rest(
        "request_session socket_timeout blocksize default_fill_cache default_cache_type "
        "version_aware assume_container_exists max_concurrency asynchronous loop "
        "use_listings_cache max_paths listings_expiry_time skip_instance_cache location_mode "
        "connection_timeout read_timeout suffix account_name account_host"
    )
    of_account = {_MOST_RETRIES: _RETRIES, **settings, **emulated}
    return HadoopStore(
        root=root,
        place=endpoint,
        settings={
            **{f"{name}.{host}": str(text) for name, text in of_account.items()},
            **(_OF_EMULATORS if emulated else {}),
        },
        unless={f"{_MOST_RETRIES}.{host}": _MOST_RETRIES},
    )


def _credentials(remaining: RemainingOptions, container: str, host: str) -> dict[str, str]:
    kind = "fs.azure.account.auth.type"
    key, token = remaining.take("account_key"), remaining.take("sas_token")
    client, secret, tenant = (
        remaining.take(f) for f in ("client_id", "client_secret", "tenant_id")
    )
    anonymous = remaining.take("anon")
    if remaining.take("credential") is not None:
        raise remaining.refusal(
            "credential", "give an account key, a SAS token or a client's secret"
        )
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
    if anonymous in (False, "False", "false"):  # the client uses the machine's identity
        return {
            kind: "OAuth",
            "fs.azure.account.oauth.provider.type": f"{_OAUTH}.MsiTokenProvider",
        }
    raise InvalidRequestError(
        f"{remaining.uri}: Hadoop cannot read from Azure without credentials; give account_key, "
        "sas_token, or client_id, client_secret and tenant_id in "
        f"{option('storage_options')}, or configure "
        f"fs.azure.account.auth.type.{host} in the session"
    )


def _emulator(remaining: RemainingOptions, endpoint: str, account: str) -> dict[str, str]:
    """Settings for a service with the account in its path, such as Azurite."""
    parts = urlsplit(endpoint)
    if not endpoint or (parts.hostname or "").startswith(f"{account}."):
        return {}
    if parts.path.strip("/") != account or parts.scheme != "http":
        raise remaining.refusal("connection_string", "leave its BlobEndpoint out")
    return {
        "fs.azure.abfs.endpoint": f"{parts.hostname}:{parts.port or 80}",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.account.hns.enabled": "false",
    }


def _client_options(uri: str, properties: Options) -> dict[str, Any]:
    container, _, host = split_uri(uri)[1].partition("/")[0].lower().partition("@")
    settings = RemainingSettings("fs.azure.", _settings_of_account(properties, container, host))
    kind = settings.take("account.auth.type")
    provider = settings.take("account.oauth.provider.type")
    endpoint = settings.take("account.oauth2.client.endpoint") or ""
    tenant = _TENANT.fullmatch(endpoint)
    if endpoint and tenant is None:
        raise settings.refusal("account.oauth2.client.endpoint", "give tenant_id as an option")
    by_machine = (provider or "").endswith("MsiTokenProvider")
    if provider and not by_machine and not provider.endswith("ClientCredsTokenProvider"):
        raise settings.refusal("account.oauth.provider.type", "give a client's id and secret")
    if kind not in (None, "SharedKey", "SAS", "OAuth"):
        raise settings.refusal("account.auth.type", "give SharedKey, SAS or OAuth")
    found = {
        "account_key": settings.take("account.key"),
        "sas_token": settings.take("sas.fixed.token", "sas"),
        "client_id": settings.take("account.oauth2.client.id"),
        "client_secret": settings.take("account.oauth2.client.secret"),
        "tenant_id": tenant[1] if tenant else None,
        "anon": False if by_machine else None,
    }
    wanted = _BY_KIND.get(kind or "", tuple(found))
    settings.refuse_rest(_HARMLESS)
    return {name: value for name, value in found.items() if value is not None and name in wanted}


_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "SharedKey": ("account_key",),
    "SAS": ("sas_token",),
    "OAuth": ("client_id", "client_secret", "tenant_id", "anon"),
}
"""The options that Hadoop uses for each kind of authentication; other settings are ignored."""


def _settings_of_account(properties: Options, container: str, host: str) -> dict[str, Any]:
    """Settings by name without account and container; the most specific setting wins."""
    of_all: dict[str, Any] = {}
    of_account: dict[str, Any] = {}
    of_container: dict[str, Any] = {}
    ends = (f".{host.replace('.blob.', '.dfs.')}", f".{host.replace('.dfs.', '.blob.')}")
    for full_name, value in properties.items():
        if not full_name.startswith("fs.azure."):
            continue
        name = full_name.removeprefix("fs.azure.")
        end = next((each for each in ends if host and name.endswith(each)), None)
        if end is None:
            if not _AN_ACCOUNT.search(name):
                of_all[name] = value
        elif container and name.removesuffix(end).endswith(f".{container}"):
            of_container[name.removesuffix(end).removesuffix(f".{container}")] = value
        else:
            of_account[name.removesuffix(end)] = value
    return of_all | of_account | of_container


def _root(uri: str, options: Options, environment: Mapping[str, str]) -> str:
    container, _, host = split_uri(uri)[1].partition("/")[0].partition("@")
    known = _all_options(options, environment)
    host = host.replace(".blob.", ".dfs.") or _host(uri, known)
    is_plain = (known.get("endpoint") or "").startswith("http:")
    return f"{'abfs' if is_plain else 'abfss'}://{container}@{host}"


def _settings_pattern(root: str) -> str:
    return rf"^fs\.azure\..*\.{re.escape(split_uri(root)[1].partition('@')[2])}$"


HADOOP = Hadoop(
    connector="azure",
    file_system="org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
    root=_root,
    store=_store,
    settings_pattern=_settings_pattern,
    client_options=_client_options,
    few_tries={
        _MOST_RETRIES: "1",
        "fs.azure.io.retry.max.backoff.interval": "1000",
    },
)
