"""The endpoint of S3 from options, environment and files, without its user and password."""

from __future__ import annotations

import os
from contextlib import suppress

from delta_ops.storage.backends.backend import Options
from delta_ops.storage.backends.endpoints import basic_header, split_user_info, warn_of_unused
from delta_ops.storage.backends.s3.files import aws_files


def drop_credentials(options: Options) -> Options:
    """See `Backend`."""
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
