"""Endpoints: the address of a store's service, without the credentials that may stand in it.

A client keeps the address it is given and writes it to its debug log with each request. So a user
and a password are taken out before there is a client, whoever said the address: the caller, the
environment, or a file of settings. Where requests are not signed they are sent by HTTP's basic
authorization, as the address asks. A signature stands in the same header and clients refuse to send
both, so where requests are signed they are left out, with a warning.
"""

from __future__ import annotations

import logging
import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any
from urllib.parse import unquote

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.s3.files import aws_files

Options = Mapping[str, Any]
"""What a file system of fsspec is opened with."""

_PARTS = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*://)?)([^/?#\\]*)(.*)", re.DOTALL)

logger = logging.getLogger(__name__)


def drop_credentials(scheme: str, options: Options) -> Options:
    """Options that open the same store and hold no credentials in an address.

    Raises:
        InvalidRequestError: It is not clear where the credentials end.
    """
    way = _WAYS.get(scheme)
    return way(options) if way is not None else options


def split_user_info(address: str) -> tuple[str, str | None]:
    """The address without its user info, and that, still percent-encoded; None without.

    Raises:
        InvalidRequestError: There is an "@" behind the host, so that the password may go on there.
    """
    parts = _PARTS.fullmatch(address)
    assert parts
    scheme, authority, rest = parts.groups()
    if "@" in rest:
        raise InvalidRequestError(
            "The endpoint of the store has an @ behind its host; write / ? # and @ in a password "
            "as %2F %3F %23 and %40, or leave the password out"
        )
    user_info, at, host = authority.rpartition("@")
    return f"{scheme}{host}{rest}", user_info if at else None


def _s3(options: Options) -> Options:
    client_kwargs = options.get("client_kwargs") or {}
    said = options.get("endpoint_url") or client_kwargs.get("endpoint_url")
    address, user_info = split_user_info(str(said or _configured_s3(options) or ""))
    if user_info is None:
        return options
    cleaned = {**options, "endpoint_url": address}
    if client_kwargs.get("endpoint_url"):
        cleaned["client_kwargs"] = {**client_kwargs, "endpoint_url": address}
    if not options.get("anon") or options.get("session") is not None:
        _warn("S3", address)
        return cleaned
    from delta_ops.storage.backends.s3.basic_auth import BasicAuthSession  # imports the client

    return {
        **cleaned,
        "session": BasicAuthSession(_basic_header(user_info), options.get("profile")),
    }


def _configured_s3(options: Options) -> str | None:
    """The endpoint that the client would find by itself; None too where it has no credentials."""
    in_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    session = options.get("session")
    # To ask the client's settings takes longer than all the rest of opening a table.
    if in_environment:
        may_hold_some = "@" in in_environment
    else:
        may_hold_some = session is not None or _is_at_in_files()
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
    except BotoCoreError:  # which the client will raise too
        return None
    found = in_environment or services.get("s3", {}).get("endpoint_url")
    return None if ignored else found or profile.get("endpoint_url")


def _is_at_in_files() -> bool:
    for place in aws_files():
        with suppress(OSError):
            if b"@" in place.read_bytes():
                return True
    return False


def _gcs(options: Options) -> Options:
    said = options.get("endpoint_url") or os.environ.get("STORAGE_EMULATOR_HOST") or ""
    address, user_info = split_user_info(str(said))
    if user_info is None:
        return options
    if "://" not in address:
        address = f"http://{address}"  # as the client has it of the environment
    cleaned = {**options, "endpoint_url": address}
    if options.get("token") != "anon":
        _warn("GCS", address)
        return cleaned
    session = options.get("session_kwargs") or {}
    headers = {**(session.get("headers") or {}), "Authorization": _basic_header(user_info)}
    return {**cleaned, "session_kwargs": {**session, "headers": headers}}


def _azure(options: Options) -> Options:
    by_environment = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    found = {
        "connection_string": options.get("connection_string") or by_environment,
        "account_host": options.get("account_host"),
    }
    cleaned = {
        name: ";".join(_cleaned_setting(part) for part in str(text).split(";"))
        for name, text in found.items()
        if text
    }
    changed = {name: text for name, text in cleaned.items() if text != found[name]}
    return {**options, **changed}


def _cleaned_setting(setting: str) -> str:
    """A part of a connection string, or a host."""
    name, equals, value = setting.partition("=")
    if equals and not name.lower().endswith("endpoint"):
        return setting
    address, user_info = split_user_info(value if equals else name)
    if user_info is None:
        return setting
    _warn("Azure", address)
    return f"{name}{equals}{address}" if equals else address


def _basic_header(user_info: str) -> str:
    user, _, password = user_info.partition(":")
    return f"Basic {b64encode(f'{unquote(user)}:{unquote(password)}'.encode()).decode()}"


@cache
def _warn(store: str, address: str) -> None:
    """Say it once of each address: a table is opened many times."""
    logger.warning(
        "The user and the password in the %s endpoint %s are not used, since requests are signed; "
        "leave them out, and give credentials by the options that the store has for them",
        store,
        address,
    )


_WAYS: Mapping[str, Callable[[Options], Options]] = {
    **dict.fromkeys(("s3", "s3a"), _s3),
    **dict.fromkeys(("gs", "gcs"), _gcs),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), _azure),
}
