"""Where `delta-ops` starts: says what to install if the command's own packages are missing."""

from __future__ import annotations

import logging
import sys
import warnings


def main() -> None:
    """Run the command; exits with its code."""
    try:
        from delta_ops.cli.main import cli
        from delta_ops.cli.render import LogLines
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("click", "rich"):
            raise
        sys.stderr.write("delta-ops needs click and rich; run: pip install 'delta_ops[cli]'\n")
        raise SystemExit(1) from None
    lines = logging.StreamHandler()
    lines.setFormatter(LogLines())
    logging.basicConfig(level=logging.WARNING, handlers=[lines])
    warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {message}"
    logging.captureWarnings(True)
    sys.excepthook = lambda *error: logging.critical("a fault of delta-ops", exc_info=error)
    cli(prog_name="delta-ops")
