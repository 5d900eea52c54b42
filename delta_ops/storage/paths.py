"""Paths and addresses: validates paths below a root, and removes credentials from addresses.

A path is relative to a storage's root, decoded, and separated by "/". It names something below the
root: no part of it is "..", and on Windows no part is a drive.
An address is a local path or a URI. It may hold credentials, so messages show `redact(address)`.
Pure: nothing here touches a store. `storage.local` resolves links.
"""

from __future__ import annotations

import os
import re
import secrets

from delta_ops.errors import InvalidRequestError
from delta_ops.store_names import names_of

OWN_DIRECTORY = "_delta_ops"
"""Directory for delta_ops' own files below a table's root; no engine reads it as data."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://(.*)", re.DOTALL)
_DRIVE = re.compile(r"[A-Za-z]:")
_SEPARATORS = re.compile(r"[/\\]")
_PLAIN = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.=-]*/)*[A-Za-z0-9_][A-Za-z0-9_.=-]*")
"""Fast path: a path that matches needs no further checks. Nearly all paths of logs match."""
_STAGED = re.compile(r"\.staged-[0-9a-f]{32}")
_VERSION = re.compile(r"[0-9]{20}")


def validate(path: str) -> str:
    """Return `path` if it stays below the root.

    Raises:
        InvalidRequestError: The path is empty, absolute, has a part "..", or is not valid UTF-8.
    """
    problem = _problem_of(path)
    if problem is not None:
        raise InvalidRequestError(
            f"The path {path!r} is invalid because it {problem}. Give a path relative to the "
            "root, with '/' between its parts."
        )
    return path


def is_valid(path: str) -> bool:
    """Whether `validate` accepts the path; listings of files leave out all other paths."""
    return _PLAIN.fullmatch(path) is not None or _problem_of(path) is None


def staged_name() -> str:
    """A new name for an unfinished file.

    Every engine treats the name as hidden. It never has 20 digits in a row, so that even an
    unanchored pattern for log files cannot match it.
    """
    while True:
        name = f".staged-{secrets.token_hex(16)}"
        if not _VERSION.search(name):
            return name


def is_hidden_staged(name: str) -> bool:
    """Whether `name`, without a directory, was made by `staged_name`."""
    return name.startswith(".") and _STAGED.fullmatch(name) is not None


def split_uri(address: str) -> tuple[str, str]:
    """The lower-case scheme, and the text after "://"; a local path has the scheme ""."""
    match = _URI.fullmatch(address)
    return (match[1].lower(), match[2]) if match else ("", address)


def redact(address: str) -> str:
    """`address` for messages: without user info and without the query, which may be signed."""
    scheme, rest = split_uri(address)
    if not scheme:
        return address
    authority, slash, path = rest.partition("?")[0].partition("/")
    user, _, host = authority.rpartition("@")
    if user and names_of(scheme).is_container_first:
        host = f"{user.partition(':')[0]}@{host}"
    return f"{scheme}://{host}{slash}{path}"


def _problem_of(path: str) -> str | None:
    if _PLAIN.fullmatch(path):
        return None
    if not path:
        return "is empty"
    if "\0" in path:
        return "contains a NUL character"
    if path[0] in "/\\":
        return "is absolute"
    if os.name == "nt" and _DRIVE.match(path):
        return "starts with a drive letter"
    if "" in path.split("/"):
        return "has an empty part"
    # A backslash is part of a name on POSIX and a separator on Windows.
    if not {".", ".."}.isdisjoint(_SEPARATORS.split(path)):
        return "has a part '.' or '..'"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "is not valid Unicode"
    return None
