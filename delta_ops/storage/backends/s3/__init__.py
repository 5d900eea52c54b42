"""The S3 backend: Amazon S3, and stores with its protocol. The client is s3fs."""

from __future__ import annotations

from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.backend import Backend, Options
from delta_ops.storage.backends.hadoop import Hadoop
from delta_ops.storage.backends.option_names import is_true, keep_value, option_names
from delta_ops.storage.backends.s3 import create, endpoint, listing
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


def _hadoop() -> Hadoop:
    from delta_ops.storage.backends.s3.hadoop import HADOOP  # only for Spark and Hadoop settings

    return HADOOP


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
    drop_credentials=endpoint.drop_credentials,
    options_to_open=_options_to_open,
    way=create.WAY,
    is_atomic=True,
    address_of=lambda fs: fs.s3.meta.endpoint_url,
    list_from=listing.list_from,
    list_tree=listing.list_tree,
    has_table_below_no_name=listing.has_table_below_no_name,
    delete_many=listing.delete_many,
    # By default, s3fs would first look up the size, to read parts in parallel.
    read_options={"max_concurrency": 1},
    is_misread=lambda path: "?versionId=" in path,
    hadoop=_hadoop,
)
