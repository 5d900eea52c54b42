"""A terminal for a command in this process or in its own process."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout

import pytest

from delta_ops.cli.main import cli


def text_shown(
    arguments: Sequence[str],
    *,
    columns: int,
    lines: int = 24,
    status: int | None = 0,
    errors: bool = True,
) -> str:
    """Run a command in this process, and return the text sent to a terminal.

    Args:
        arguments: The arguments after `delta-ops`.
        columns: Width of the terminal.
        lines: Height of the terminal.
        status: The exit code that the command must have; None for any.
        errors: Whether standard error is the terminal too; otherwise it is dropped.
    """
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as reader, pytest.MonkeyPatch.context() as environment:
        for name, value in (("COLUMNS", columns), ("LINES", lines), ("TERM", "xterm")):
            environment.setenv(name, str(value))
        sent = reader.submit(_read_to_the_end, ours)
        with (
            open(os.devnull, "w") as nowhere,
            open(theirs, "w", encoding="utf-8") as terminal,
            redirect_stdout(terminal),
            redirect_stderr(terminal if errors else nowhere),
            pytest.raises(SystemExit) as ended,
        ):
            cli(list(arguments), prog_name="delta-ops")
        text = sent.result().decode()
    assert status in (None, ended.value.code)
    return text


def text_sent(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run a command in its own process, and return the text sent to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    sent = _read_to_the_end(ours)
    assert process.wait() == 0
    return sent.decode()


def _read_to_the_end(terminal: int) -> bytes:
    """Read the terminal's output until the other end is closed; closes this end."""
    sent = b""
    try:
        while chunk := os.read(terminal, 65536):
            sent += chunk
    except OSError:  # Linux reports the closed end by this error
        pass
    finally:
        os.close(terminal)
    return sent
