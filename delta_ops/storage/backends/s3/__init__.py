"""The S3 backend: Amazon S3, and stores with its protocol. The client is s3fs."""

from __future__ import annotations

import inspect
import os
from contextlib import suppress
from functools import cache
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.backend import Backend, Options
from delta_ops.storage.backends.endpoints import basic_header, split_user_info, warn_of_unused
from delta_ops.storage.backends.hadoop_connector import Hadoop
from delta_ops.storage.backends.option_names import is_true, keep_value, option_names
from delta_ops.storage.backends.s3 import create, listing
from delta_ops.storage.backends.s3.files import aws_files
from delta_ops.storage.concurrency import MAX_CONCURRENCY
from delta_ops.store_names import StoreNames

__all__ = ["S3"]

_CONNECTIONS = 2 * MAX_CONCURRENCY * MAX_CONCURRENCY
"""Connection limit of a client; all tables with the same options share the client. Enough for the
ranges that all threads of the pool read at once, and as many other readers. botocore allows ten."""


def _require_true(name: str, value: Any) -> None:
    if not is_true(name, value):
        raise InvalidRequestError(
            f"The option {name} of the store cannot be false, since the endpoint's scheme says "
            "whether HTTPS is used; leave it out"
        )


def _addressing(name: str, value: Any) -> dict[str, str]:
    return {"addressing_style": "virtual" if is_true(name, value) else "path"}


def _options_to_open(options: Options, file_system: type) -> Options:
    """Allow as many connections as delta_ops uses, and give up unreachable stores quickly."""
    from delta_ops.storage.backends.s3.session import add_session  # imports the client

    config = {"max_pool_connections": _CONNECTIONS, **(options.get("config_kwargs") or {})}
    return add_session(file_system, {**options, "config_kwargs": config})


@cache
def _read_options(file_system: Any) -> Options:
    """Prevent a lookup of the size, by which newer versions of s3fs read parts in parallel."""
    has_parts = "max_concurrency" in inspect.signature(file_system._cat_file).parameters
    return {"max_concurrency": 1} if has_parts else {}


def _hadoop() -> Hadoop:
    from delta_ops.storage.backends.s3.hadoop import HADOOP  # only for Spark and Hadoop settings

    return HADOOP


def _drop_credentials(options: Options) -> Options:
    """Take user and password out of the endpoint in options, environment or files."""
    client_kwargs = options.get("client_kwargs") or {}
    chosen = options.get("endpoint_url") or client_kwargs.get("endpoint_url")
    address, user_info = split_user_info(str(chosen or _configured_endpoint(options) or ""))
    if user_info is None:
        return options
    cleaned = {**options, "endpoint_url": address}
    if client_kwargs.get("endpoint_url"):
        cleaned["client_kwargs"] = {**client_kwargs, "endpoint_url": address}
    if not options.get("anon") or options.get("session") is not None:
        warn_of_unused("S3", address)
        return cleaned
    from delta_ops.storage.backends.s3.session import BasicAuthSession  # imports the client

    return {
        **cleaned,
        "session": BasicAuthSession(basic_header(user_info), options.get("profile")),
    }


def _configured_endpoint(options: Options) -> str | None:
    """The endpoint from the client's settings; None if no setting can contain credentials."""
    in_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    session = options.get("session")
    # Reading the client's settings takes longer than all other steps of opening a table.
    if in_environment:
        may_hold_some = "@" in in_environment
    else:
        may_hold_some = session is not None or _may_files_hold_some()
    if not may_hold_some:
        return None
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
    from botocore.session import Session  # type: ignore[import-untyped]

    try:
        session = session or Session(profile=options.get("profile"))
        ignored = (options.get("config_kwargs") or {}).get("ignore_configured_endpoint_urls")
        if ignored is None:
            ignored = session.get_config_variable("ignore_configured_endpoint_urls")
        profile = session.get_scoped_config()
        services = session.full_config.get("services", {}).get(profile.get("services"), {})
    except BotoCoreError:  # the client will raise it too
        return None
    found = in_environment or services.get("s3", {}).get("endpoint_url")
    return None if ignored else found or profile.get("endpoint_url")


def _may_files_hold_some() -> bool:
    for place in aws_files():
        with suppress(OSError):
            if b"@" in place.read_bytes():
                return True
    return False


S3 = Backend(
    names=StoreNames(
        schemes=("s3a", "s3"),
        foreign_schemes=("s3n",),
        service_of=lambda _: "",
        has_own_service=True,
    ),
    refuses_user_info=True,
    package="s3fs",
    extra="s3",
    # s3fs passes options that it does not know on to botocore's session.
    further_options=frozenset(
        {"profile", "session_vars", "event_hooks", "include_builtin_handlers"}
    ),
    option_names=option_names(
        ("key", "aws_access_key_id access_key_id", keep_value),
        ("secret", "aws_secret_access_key secret_access_key", keep_value),
        ("token", "aws_session_token session_token aws_token", keep_value),
        ("endpoint_url", "aws_endpoint_url aws_endpoint_url_s3 aws_endpoint endpoint", keep_value),
        (
            "client_kwargs.region_name",
            "aws_region aws_default_region region region_name",
            keep_value,
        ),
        ("client_kwargs.verify", "aws_ca_bundle", keep_value),
        ("profile", "aws_profile", keep_value),
        ("anon", "aws_skip_signature skip_signature", is_true),
        ("requester_pays", "aws_request_payer aws_requester_pays", is_true),
        ("config_kwargs.s3", "aws_virtual_hosted_style_request", _addressing),
        ("", "aws_allow_http allow_http", _require_true),
    ),
    variable_prefixes=("aws_",),
    option_hint="s3fs: key, secret, token, endpoint_url, client_kwargs, ...",
    drop_credentials=_drop_credentials,
    options_to_open=_options_to_open,
    exclusive_create=create.EXCLUSIVE_CREATE,
    is_atomic=True,
    address_of=lambda fs: fs.s3.meta.endpoint_url,
    list_from=listing.list_from,
    list_tree=listing.list_tree,
    has_table_below_no_name=listing.has_table_below_no_name,
    delete_many=listing.delete_many,
    read_options=_read_options,
    is_misread=lambda path: "?versionId=" in path,
    hadoop=_hadoop,
)
