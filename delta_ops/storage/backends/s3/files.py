"""AWS files: paths of the files with settings and credentials for the client of S3."""

from __future__ import annotations

import os
from pathlib import Path

_FILES = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}


def aws_files() -> list[Path]:
    """The paths of the files; they need not exist."""
    places = (os.environ.get(variable) or place for variable, place in _FILES.items())
    return [Path(place).expanduser() for place in places]
