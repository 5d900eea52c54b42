"""The GCS backend: Google Cloud Storage. The client is gcsfs.

A file is created exclusively by one multipart upload with `ifGenerationMatch=0`. gcsfs' own
`mode="create"` is not used, because it writes to zonal buckets without any condition. Uploads in
several requests are not used either, because no test server honored the condition for them. A file
therefore stays in memory until it is complete.

Hadoop's connector is described at `backends.hadoop_connector`.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.backend import Backend, Entry, Options
from delta_ops.storage.backends.endpoints import basic_header, split_user_info, warn_of_unused
from delta_ops.storage.backends.hadoop_connector import (
    Hadoop,
    HadoopStore,
    RemainingOptions,
    RemainingSettings,
)
from delta_ops.storage.backends.option_names import is_true, keep_value, option_names
from delta_ops.storage.exclusive_create import Endpoint, ExclusiveCreate, split, split_directory
from delta_ops.storage.paths import split_uri
from delta_ops.store_names import StoreNames

_GOOGLE = "https://storage.googleapis.com"
_ELSEWHERE = ("STORAGE_EMULATOR_HOST", "GOOGLE_CLOUD_UNIVERSE_DOMAIN")
"""Environment variables that change the client's address."""
_MARK = "deltaopscreate"
_OWN_HOSTS = frozenset({"storage.googleapis.com", "storage.mtls.googleapis.com"})
_AUTH_TYPE = "fs.gs.auth.type"
_TUNING = (
    r"impl|auth\.service\.account\.enable|(?:batch|block|client|copy|create|delete|fadvise|glob"
    r"|grpc|http|implicit|inputstream|io|lazy|list|marker|max|operation|outputstream|performance"
    r"|reporting|rewrite|status|tracelog|working|write)\..*"
)
"""Settings that only tune the connector."""


def _anonymous_token(name: str, value: Any) -> str | None:
    return "anon" if is_true(name, value) else None


def _key(name: str, value: Any) -> Any:
    """Parse a service account's key from the text of its file."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise InvalidRequestError(
            f"The option {name} of the store must be the JSON text of a service account's key; "
            "give the path of its file as GOOGLE_APPLICATION_CREDENTIALS"
        ) from None


def _drop_credentials(options: Options) -> Options:
    endpoint = options.get("endpoint_url") or os.environ.get("STORAGE_EMULATOR_HOST") or ""
    address, user_info = split_user_info(str(endpoint))
    if user_info is None:
        return options
    if "://" not in address:
        address = f"http://{address}"  # as the client reads the variable
    cleaned = {**options, "endpoint_url": address}
    if options.get("token") != "anon":
        warn_of_unused("GCS", address)
        return cleaned
    session = options.get("session_kwargs") or {}
    headers = {**(session.get("headers") or {}), "Authorization": basic_header(user_info)}
    return {**cleaned, "session_kwargs": {**session, "headers": headers}}


def _address_while_opening(options: Options) -> str | None:
    """Google's address, if the client will look for credentials on the network."""
    if options.get("token") not in {None, "google_default", "cloud"}:
        return None
    if options.get("endpoint_url") or any(map(os.environ.get, _ELSEWHERE)):
        return None
    return _GOOGLE


def _list_from(fs: Any, directory: str, start: str) -> Iterator[Entry]:
    bucket, prefix = split_directory(directory)
    request = {"prefix": prefix, "delimiter": "/", "startOffset": prefix + start}
    while True:
        page = fs.call("GET", "b/{}/o", bucket, json_out=True, **request)
        for found in page.get("items", []):
            yield {
                "name": f"{bucket}/{found['name']}",
                "size": found.get("size", 0),
                "type": "file",
                "updated": found["updated"],
                "etag": found.get("etag"),
            }
        if "nextPageToken" not in page:
            return
        request["pageToken"] = page["nextPageToken"]


def _put(fs: Any, path: str, data: bytes, mark: str) -> None:
    bucket, key = split(path)
    described = json.dumps({"name": key, "metadata": {_MARK: mark} if mark else {}}).encode()
    boundary = uuid.uuid4().hex.encode()
    body = b"".join(
        (
            b"--" + boundary + b"\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n",
            described,
            b"\r\n--" + boundary + b"\r\nContent-Type: application/octet-stream\r\n\r\n",
            data,
            b"\r\n--" + boundary + b"--\r\n",
        )
    )
    # gcsfs raises FileExistsError for 412.
    fs.call(
        "POST",
        fs.base.removesuffix("storage/v1/") + "upload/storage/v1/b/{}/o",
        bucket,
        uploadType="multipart",
        ifGenerationMatch=0,
        headers={"Content-Type": f'multipart/related; boundary="{boundary.decode()}"'},
        data=body,
    )


def _look(fs: Any, path: str) -> str | None:
    try:
        found = fs.call("GET", "b/{}/o/{}", *split(path), json_out=True)
    except FileNotFoundError:
        return None
    return str(found.get("metadata", {}).get(_MARK, ""))


def _endpoint_of(fs: Any) -> Endpoint:
    endpoint = urlsplit(fs.base)
    return Endpoint(endpoint.netloc, endpoint.hostname in _OWN_HOSTS)


EXCLUSIVE_CREATE = ExclusiveCreate(put=_put, look=_look, endpoint_of=_endpoint_of)


def _hadoop_root(uri: str, options: Options, environment: Mapping[str, str]) -> str:  # noqa: ARG001
    return f"gs://{split_uri(uri)[1].partition('/')[0]}"


def _hadoop_store(
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
    credentials = _hadoop_credentials(remaining, remaining.take("token"))
    by_itself = {} if credentials else {_AUTH_TYPE: "APPLICATION_DEFAULT"}
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
        unless=dict.fromkeys(by_itself, _AUTH_TYPE),
    )


def _hadoop_credentials(remaining: RemainingOptions, token: object) -> dict[str, str]:
    match token:
        case None | "google_default":
            return {}
        case "anon":
            return {_AUTH_TYPE: "UNAUTHENTICATED"}
        case "cloud":
            return {_AUTH_TYPE: "COMPUTE_ENGINE"}
        case "cache" | "browser":
            raise remaining.refusal("token", "give the path of a key's file")
        case str():
            return {
                _AUTH_TYPE: "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": token,
            }
        case {"type": "authorized_user", "client_id": who, "client_secret": key, **rest}:
            return {
                _AUTH_TYPE: "USER_CREDENTIALS",
                "fs.gs.auth.client.id": str(who),
                "fs.gs.auth.client.secret": str(key),
                "fs.gs.auth.refresh.token": str(rest.get("refresh_token")),
            }
    raise remaining.refusal("token", "give the path of the key's file instead of the key")


def _options_from_hadoop(uri: str, properties: Options) -> dict[str, Any]:  # noqa: ARG001
    settings = RemainingSettings(
        "fs.gs.",
        {
            n.removeprefix("fs.gs."): value
            for n, value in properties.items()
            if n.startswith("fs.gs.")
        },
    )
    found = {"token": _token_from_hadoop(settings), "project": settings.take("project.id")}
    settings.refuse_rest(_TUNING)
    return {name: value for name, value in found.items() if value is not None}


def _token_from_hadoop(settings: RemainingSettings) -> Any:
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


_HADOOP = Hadoop(
    connector="gcs",
    file_system="org.apache.hadoop.fs.gs.GoogleHadoopFileSystem",
    root=_hadoop_root,
    store=_hadoop_store,
    settings_pattern=lambda _: r"^(fs\.gs|google\.cloud)\.(auth|project)\.",
    client_options=_options_from_hadoop,
)

GCS = Backend(
    names=StoreNames(schemes=("gs", "gcs"), service_of=lambda _: "", has_own_service=True),
    refuses_user_info=True,
    package="gcsfs",
    extra="gcs",
    console_address="https://console.cloud.google.com/storage/browser/",
    option_names=option_names(
        (
            "token",
            "google_application_credentials application_credentials google_service_account "
            "google_service_account_path service_account service_account_path",
            keep_value,
        ),
        ("token", "google_service_account_key service_account_key", _key),
        ("token", "google_skip_signature skip_signature", _anonymous_token),
        ("project", "google_cloud_project google_project_id google_project", keep_value),
        ("endpoint_url", "google_base_url google_endpoint_url", keep_value),
    ),
    variable_prefixes=("google_", "gcp_"),
    option_hint="gcsfs: token, project, endpoint_url, ...",
    drop_credentials=_drop_credentials,
    address_while_opening=_address_while_opening,
    exclusive_create=EXCLUSIVE_CREATE,
    is_atomic=True,
    address_of=lambda fs: fs.base,
    slow_address_of=lambda fs: fs.base,
    list_from=_list_from,
    hadoop=lambda: _HADOOP,
)
