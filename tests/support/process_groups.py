"""Processes of Dagster that start processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

_END_S = 20


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ask a process and those that it started to end; kill what is left after some seconds.

    A code server that is asked while it loads may wait forever.

    Args:
        process: Started with `start_new_session=True`.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        ends = time.monotonic() + _END_S
        while time.monotonic() < ends:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
