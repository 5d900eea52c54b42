"""Reachable stores: whether anybody answers at the address of a store, found out within seconds.

Some clients try for half a minute and longer before they give up an address, and have no option to
try less. That is right for a store that has answered, and wrong without a network. So the first
call of a process connects to the address itself. The client of S3 gets a rule of its own, see
`backends.s3.session`.

A machine behind a proxy may reach the store without reaching its address. There, the client's own
rules hold.
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
"""For both tries, and for looking up the name of the host."""
_TRIES = 2
_PAUSE_S = 0.5
_PORTS = {"http": 80, "https": 443}
_PROXIES = frozenset({"http", "https", "all"})
_OWN_WAYS = ("prox", "session_kwargs", "transport", "connector")
"""Options with one of these in their names may lead the client past the address."""

_answered: set[tuple[str, int]] = set()


def unreachable_reason(address: str, options: Mapping[str, Any]) -> str | None:
    """Why nobody can be reached at an address; None if somebody answers, or it cannot be told.

    Args:
        address: A URL.
        options: What the client is opened with.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None  # the client says what is wrong with it
    if host is None or port is None or (host, port) in _answered or _goes_elsewhere(options):
        return None
    said: list[OSError | None] = []
    # A look-up of a name has no time limit of its own.
    thread = threading.Thread(target=lambda: said.append(_connect(host, port)), daemon=True)
    thread.start()
    thread.join(_LONGEST_S)
    if said == [None]:
        _answered.add((host, port))
        return None
    why = (said[0].strerror or said[0]) if said and said[0] else f"no answer in {_LONGEST_S:.0f} s"
    return f"nobody can be reached at {host}:{port} ({why}); check the address and the connection"


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
