"""Hadoop's connector for Google Cloud Storage, see `backends.hadoop`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from delta_ops.storage.backends.hadoop import (
    Hadoop,
    HadoopStore,
    Options,
    RemainingOptions,
    RemainingSettings,
)
from delta_ops.storage.paths import split_uri

_KIND = "fs.gs.auth.type"
_HARMLESS = (
    r"impl|auth\.service\.account\.enable|(?:batch|block|client|copy|create|delete|fadvise|glob"
    r"|grpc|http|implicit|inputstream|io|lazy|list|marker|max|operation|outputstream|performance"
    r"|reporting|rewrite|status|tracelog|working|write)\..*"
)
"""Settings that only tune the connector."""


def _root(uri: str, options: Options, environment: Mapping[str, str]) -> str:  # noqa: ARG001
    return f"gs://{split_uri(uri)[1].partition('/')[0]}"


def _store(
    uri: str,
    root: str,
    options: Options,
    environment: Mapping[str, str],
    address: str | None,  # noqa: ARG001
) -> HadoopStore:
    remaining = RemainingOptions(uri, root, options)
    endpoint = remaining.take("endpoint_url") or environment.get("STORAGE_EMULATOR_HOST")
    if endpoint and urlsplit(endpoint).hostname not in ("storage.googleapis.com", "default"):
        raise remaining.refusal("endpoint_url", "use delta_ops.arrow for this service")
    credentials = _credentials(remaining, remaining.take("token"))
    by_itself = {} if credentials else {_KIND: "APPLICATION_DEFAULT"}
    project = remaining.take("project")
    remaining.refuse_rest(
        "access consistency cache_timeout check_connection block_size timeout default_location "
        "version_aware asynchronous loop secure_serialize use_listings_cache max_paths "
        "listings_expiry_time skip_instance_cache"
    )
    return HadoopStore(
        root=root,
        place="",
        settings={
            **credentials,
            **by_itself,
            **({"fs.gs.project.id": str(project)} if project else {}),
        },
        unless=dict.fromkeys(by_itself, _KIND),
    )


def _credentials(remaining: RemainingOptions, token: object) -> dict[str, str]:
    match token:
        case None | "google_default":
            return {}
        case "anon":
            return {_KIND: "UNAUTHENTICATED"}
        case "cloud":
            return {_KIND: "COMPUTE_ENGINE"}
        case "cache" | "browser":
            raise remaining.refusal("token", "give the path of a key's file")
        case str():
            return {
                _KIND: "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": token,
            }
        case {"type": "authorized_user", "client_id": who, "client_secret": key, **rest}:
            return {
                _KIND: "USER_CREDENTIALS",
                "fs.gs.auth.client.id": str(who),
                "fs.gs.auth.client.secret": str(key),
                "fs.gs.auth.refresh.token": str(rest.get("refresh_token")),
            }
    raise remaining.refusal("token", "give the path of the key's file instead of the key")


def _client_options(uri: str, properties: Options) -> dict[str, Any]:  # noqa: ARG001
    settings = RemainingSettings(
        "fs.gs.",
        {
            n.removeprefix("fs.gs."): value
            for n, value in properties.items()
            if n.startswith("fs.gs.")
        },
    )
    found = {"token": _token(settings), "project": settings.take("project.id")}
    settings.refuse_rest(_HARMLESS)
    return {name: value for name, value in found.items() if value is not None}


def _token(settings: RemainingSettings) -> Any:
    kind = settings.take("auth.type")
    path = settings.take("auth.service.account.json.keyfile")
    user = {
        "client_id": settings.take("auth.client.id"),
        "client_secret": settings.take("auth.client.secret"),
        "refresh_token": settings.take("auth.refresh.token"),
    }
    match kind:
        case None | "SERVICE_ACCOUNT_JSON_KEYFILE":
            return path
        case "UNAUTHENTICATED":
            return "anon"
        case "COMPUTE_ENGINE":
            return "cloud"
        case "APPLICATION_DEFAULT":
            return "google_default"
        case "USER_CREDENTIALS":
            return {"type": "authorized_user", **user}
    raise settings.refusal("auth.type", "give SERVICE_ACCOUNT_JSON_KEYFILE and a key's file")


HADOOP = Hadoop(
    connector="gcs",
    file_system="org.apache.hadoop.fs.gs.GoogleHadoopFileSystem",
    root=_root,
    store=_store,
    settings_pattern=lambda _: r"^(fs\.gs|google\.cloud)\.(auth|project)\.",
    client_options=_client_options,
)
