"""Processes of Dagster that start processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

_END_S = 20


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process with all its child processes; kill the rest after some seconds.

    A code server that gets the signal while it loads may wait forever.

    Args:
        process: A process started with `start_new_session=True`.
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
