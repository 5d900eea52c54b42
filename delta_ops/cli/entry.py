"""Where `delta-ops` starts: says what to install if the command's own packages are missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; exits with its code."""
    try:
        from delta_ops.cli.main import cli
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("click", "rich"):
            raise
        sys.stderr.write("delta-ops needs click and rich; run: pip install 'delta_ops[cli]'\n")
        raise SystemExit(1) from None
    cli(prog_name="delta-ops")
