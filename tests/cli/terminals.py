"""A terminal for a command that is run as a process."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence


def text_sent(
    command: Sequence[str], environment: Mapping[str, str], *, status: int = 0, errors: bool = True
) -> str:
    """What a terminal is sent by a command that ends with this status.

    Args:
        errors: Whether standard error is the terminal too; otherwise it is dropped.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs if errors else subprocess.DEVNULL,
        env=environment,
    )
    os.close(theirs)
    sent = b""
    try:
        while chunk := os.read(ours, 65536):
            sent += chunk
    except OSError:  # Linux's way to say that the other end is closed
        pass
    finally:
        os.close(ours)
    assert process.wait() == status
    return sent.decode()
