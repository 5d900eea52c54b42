"""Ports for servers, and waiting until a server answers."""

from __future__ import annotations

import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request

_LONGEST_START_S = 300.0
_PORTS = range(20_000, 32_000)
"""Below the ports for clients, so no client takes a port between choice and start."""


def free_port() -> int:
    """A port of the loopback interface without a server."""
    while True:
        with socket.socket() as probe:
            port = secrets.choice(_PORTS)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until_it_answers(process: subprocess.Popen[bytes], url: str) -> None:
    """Return once `url` gives any answer.

    Raises:
        RuntimeError: The process ended first, or took too long.
    """
    deadline = time.monotonic() + _LONGEST_START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the server at {url} did not start: {process.args!r}")
