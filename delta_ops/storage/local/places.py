"""Local places: absolute paths of files below a root, with links resolved."""

from __future__ import annotations

import os

from delta_ops.errors import InvalidRequestError


def real_directory(root: str, real_root: str, directory: str) -> str:
    """The real path of a directory, without links.

    Args:
        root: The root as the user named it.
        real_root: The real path of the root.
        directory: Relative to the root; "" is the root.

    Raises:
        InvalidRequestError: A link in the directory leads out of the root.
    """
    if is_plain(real_root, directory):
        return join(real_root, directory) if directory else real_root
    named = os.path.join(root, directory)
    real = os.path.realpath(named)
    if real != real_root and not real.startswith(os.path.join(real_root, "")):
        raise InvalidRequestError(
            f"{named} is not written to because a link in it leads out of "
            f"{root}, to {real}. Open the storage at that place instead."
        )
    return real


def is_plain(root: str, directory: str) -> bool:
    """Whether no part of a directory below the root is a link; the root itself is not checked."""
    place = root
    for part in directory.split("/"):
        place = join(place, part)
        if os.path.islink(place):
            return False
    return True


def join(place: str, path: str) -> str:
    """Join a place and a valid path below it, three times as fast as `os.path.join`."""
    return f"{place}{path}" if place[-1] == os.sep else f"{place}{os.sep}{path}"
