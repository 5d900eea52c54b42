"""Reachable stores: checks within seconds whether a store's address answers.

Some clients retry for half a minute or longer before they report an error, and have no option to
change that. This is useful if the store has answered before, but too long if the address or the
network is wrong. So the first call of a process connects to the address itself. The client of S3
has a rule of its own, see `backends.s3.session`.

A machine behind a proxy may reach the store without reaching its address. There, only the client's
own rules apply.
"""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

_LONGEST_S = 8.0
"""Limit for both tries together, including the lookup of the host's name."""
_TRIES = 2
_PAUSE_S = 0.5
_PORTS = {"http": 80, "https": 443}
_PROXIES = frozenset({"http", "https", "all"})
_OWN_WAYS = ("prox", "session_kwargs", "transport", "connector")
"""Options with one of these words in their names may lead the client to another address."""

_answered: set[tuple[str, int]] = set()


def unreachable_reason(address: str, options: Mapping[str, Any]) -> str | None:
    """The reason why an address does not answer; None if it answers or if that is unknown.

    Args:
        address: A URL.
        options: Options of the client.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None  # the client will report the invalid address
    if host is None or port is None or (host, port) in _answered or _goes_elsewhere(options):
        return None
    outcomes: list[OSError | None] = []
    # Looking up a host name has no time limit of its own.
    thread = threading.Thread(target=lambda: outcomes.append(_connect(host, port)), daemon=True)
    thread.start()
    thread.join(_LONGEST_S)
    if outcomes == [None]:
        _answered.add((host, port))
        return None
    why = (
        (outcomes[0].strerror or outcomes[0])
        if outcomes and outcomes[0]
        else f"no answer in {_LONGEST_S:.0f} s"
    )
    return f"no server answers at {host}:{port} ({why}); check the address and the connection"


def _connect(host: str, port: int) -> OSError | None:
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_S)
        try:
            socket.create_connection((host, port), timeout=_LONGEST_S).close()
        except OSError as error:
            failed = error
        else:
            return None
    return failed


def _goes_elsewhere(options: Mapping[str, Any]) -> bool:
    if not _PROXIES.isdisjoint(urllib.request.getproxies()):
        return True
    return any(word in name for name in options for word in _OWN_WAYS)
