"""Builders of tables that build once per process, and then make copies."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def built_once(
    reopen: Callable[[T, Path], T],
) -> Callable[[Callable[Concatenate[Path, P], T]], Callable[Concatenate[Path, P], T]]:
    """Let a builder build once for each set of its arguments, and copy the result.

    Times of files are copied, too.

    Args:
        reopen: Takes the built value and the place of a copy, and returns the value for the copy.
    """

    def decorate(build: Callable[Concatenate[Path, P], T]) -> Callable[Concatenate[Path, P], T]:
        built: dict[str, tuple[Path, T]] = {}

        @wraps(build)
        def copy(root: Path, /, *args: P.args, **kwargs: P.kwargs) -> T:
            key = repr((args, sorted(kwargs.items())))
            if key not in built:
                place = Path(tempfile.mkdtemp(dir=_folder())) / "table"
                built[key] = (place, build(place, *args, **kwargs))
            place, template = built[key]
            shutil.copytree(place, root, dirs_exist_ok=True)
            return reopen(template, root)

        return copy

    return decorate


@cache
def _folder() -> str:
    """A folder that exists as long as the process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
