"""Endpoints: removes user and password from the address of a store's service.

A client keeps its address and writes it to its debug log with each request. So each backend removes
user and password before it creates a client, wherever the address comes from: the caller, the
environment, or a settings file. Unsigned requests then carry them as HTTP basic authorization, as
such an address requires. A signature uses the same header, so signed requests are sent without
them, and a warning is logged.
"""

from __future__ import annotations

import logging
import re
from base64 import b64encode
from functools import cache
from urllib.parse import unquote

from delta_ops.errors import InvalidRequestError

_PARTS = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*://)?)([^/?#\\]*)(.*)", re.DOTALL)

logger = logging.getLogger(__name__)


def split_user_info(address: str) -> tuple[str, str | None]:
    """Split an address into the address without user info, and the percent-encoded user info.

    Raises:
        InvalidRequestError: An "@" after the host may be part of the password.
    """
    parts = _PARTS.fullmatch(address)
    assert parts
    scheme, authority, rest = parts.groups()
    if "@" in rest:
        raise InvalidRequestError(
            "The endpoint of the store has an @ after its host; write / ? # and @ in a password "
            "as %2F %3F %23 and %40, or leave the password out"
        )
    user_info, at, host = authority.rpartition("@")
    return f"{scheme}{host}{rest}", user_info if at else None


def basic_header(user_info: str) -> str:
    """The HTTP basic authorization header for a percent-encoded user info."""
    user, _, password = user_info.partition(":")
    return f"Basic {b64encode(f'{unquote(user)}:{unquote(password)}'.encode()).decode()}"


@cache
def warn_of_unused(store: str, address: str) -> None:
    """Log, once per address, that its user and password are not used."""
    logger.warning(
        "The user and the password in the %s endpoint %s are not used, because requests are "
        "signed; leave them out, and give credentials in the store's own options",
        store,
        address,
    )
