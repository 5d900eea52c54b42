"""Endpoints: user and password in the address of a store's service.

A client keeps the address it is given and writes it to its debug log with each request. So each
backend takes a user and a password out before there is a client, wherever the address comes from:
the caller, the environment, or a file of settings. Requests without a signature then carry them as
HTTP's basic authorization, as the address asks. A signature is sent in the same header, so signed
requests go without them, and a warning says so.
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
    """The address without its user info, and the user info, percent-encoded; None without one.

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


def basic_header(user_info: str) -> str:
    """HTTP's basic authorization for a percent-encoded user info."""
    user, _, password = user_info.partition(":")
    return f"Basic {b64encode(f'{unquote(user)}:{unquote(password)}'.encode()).decode()}"


@cache
def warn_of_unused(store: str, address: str) -> None:
    """Log once per address that its user and password are not used."""
    logger.warning(
        "The user and the password in the %s endpoint %s are not used, since requests are signed; "
        "leave them out, and give credentials by the options that the store has for them",
        store,
        address,
    )
