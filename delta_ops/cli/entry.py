"""Entry point of `delta-ops`: names the package to install if one is missing."""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings

_STANDARD_ERROR = 2
"""The file descriptor of standard error."""


def main() -> None:
    """Run the command; exits with its code."""
    _open_closed_streams()
    gc.disable()  # imports make no garbage, and searching for it takes a quarter of their time
    try:
        from delta_ops.cli.main import cli
        from delta_ops.cli.render import LogLines
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("click", "rich"):
            raise
        sys.stderr.write("delta-ops needs click and rich; run: pip install 'delta_ops[cli]'\n")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        sys.stderr.write("Aborted!\n")
        raise SystemExit(1) from None
    finally:
        gc.freeze()
        gc.enable()
    lines = logging.StreamHandler()
    lines.setFormatter(LogLines())
    logging.basicConfig(level=logging.WARNING, handlers=[lines])
    warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {message}"
    logging.captureWarnings(True)
    sys.excepthook = lambda *error: logging.critical("a bug in delta-ops", exc_info=error)
    cli(prog_name="delta-ops")


def _open_closed_streams() -> None:
    """Open standard output and standard error to the null device if the caller closed them.

    Otherwise a file opened later would get their descriptors, and printed text would go into it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(number)
    if sys.stdout is None or sys.stderr is None:
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  until the process ends
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
