"""Waiting for a server that was started."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request

_LONGEST_START_S = 60.0


def wait_until_it_answers(process: subprocess.Popen[bytes], url: str) -> None:
    """Return once `url` gives any answer.

    Raises:
        RuntimeError: The process ended before, or took too long.
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
