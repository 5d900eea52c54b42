"""AWS files: where the client of S3 looks for settings and credentials."""

from __future__ import annotations

import os
from pathlib import Path

_FILES = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}


def aws_files() -> list[Path]:
    """The files, whether or not they are there."""
    places = (os.environ.get(variable) or place for variable, place in _FILES.items())
    return [Path(place).expanduser() for place in places]
