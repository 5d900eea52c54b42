"""Origins of runs and sensors, from where each version of Dagster has them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING or find_spec("dagster._core.remote_origin"):
    from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin
else:  # before 1.11
    from dagster._core.remote_representation.origin import (
        RegisteredCodeLocationOrigin,
        RemoteRepositoryOrigin,
    )

__all__ = ["RegisteredCodeLocationOrigin", "RemoteRepositoryOrigin"]
