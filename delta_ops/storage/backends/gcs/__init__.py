"""The GCS backend: Google Cloud Storage. The client is gcsfs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.backend import Backend, Entry, Options
from delta_ops.storage.backends.endpoints import basic_header, split_user_info, warn_of_unused
from delta_ops.storage.backends.gcs import create
from delta_ops.storage.backends.hadoop import Hadoop
from delta_ops.storage.backends.option_names import is_true, keep_value, option_names
from delta_ops.storage.create_way import split_directory
from delta_ops.store_names import StoreNames

__all__ = ["GCS"]

_GOOGLE = "https://storage.googleapis.com"
_ELSEWHERE = ("STORAGE_EMULATOR_HOST", "GOOGLE_CLOUD_UNIVERSE_DOMAIN")
"""Environment variables that change the client's address."""


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


def _hadoop() -> Hadoop:
    from delta_ops.storage.backends.gcs.hadoop import HADOOP  # only for Spark and Hadoop settings

    return HADOOP


GCS = Backend(
    names=StoreNames(schemes=("gs", "gcs"), service_of=lambda _: "", has_own_service=True),
    refuses_user_info=True,
    package="gcsfs",
    extra="gcs",
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
    way=create.WAY,
    is_atomic=True,
    address_of=lambda fs: fs.base,
    slow_address_of=lambda fs: fs.base,
    list_from=_list_from,
    hadoop=_hadoop,
)
