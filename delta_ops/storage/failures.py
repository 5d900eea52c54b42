"""Failures: describes errors of a store to the user, without credentials.

The texts complete a sentence of `StorageError`: "<path> could not be <action>: <reason>."
"""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Iterable, Mapping

_NO_ANSWER = "the file system did not answer; check the connection to it and run again"
_REASONS: Mapping[int, str] = {
    errno.ENOSPC: "no space is left on the device; free some and run again",
    errno.EDQUOT: "the disk quota is used up; free some space or raise it and run again",
    errno.EFBIG: "the file is larger than the file system or this process may write; "
    "raise the limit (ulimit -f) and run again",
    errno.EACCES: "permission is denied; grant it to the user who runs this process",
    errno.EPERM: "the file system does not permit it; grant it to the user who runs this process",
    errno.EROFS: "the file system is mounted read-only; mount it for writing and run again",
    errno.EIO: "the device reports an input/output error; check the disk before running again",
    errno.EMFILE: "this process has too many open files; raise the limit (ulimit -n)",
    errno.ENFILE: "the machine has too many open files; raise its limit",
    errno.ENAMETOOLONG: "the name is too long for the file system; use a shorter path, or shorter "
    "partition values",
    errno.ENOTDIR: "a part of the path is a file; remove that file or use another path",
    errno.EISDIR: "a directory with this name exists; remove it or use another path",
    errno.ENOENT: "its directory was removed meanwhile; run again",
    errno.ELOOP: "the path contains a link that is not followed; use the real path",
    errno.ESTALE: _NO_ANSWER,
    errno.ETIMEDOUT: _NO_ANSWER,
    errno.ENOTCONN: _NO_ANSWER,
}
_SIGNED_QUERY = re.compile(r"(\w+://[^\s?'\"]+)\?[^\s'\"]+")
_USER_INFO = re.compile(r"(\w+://)[^\s/@'\"]+@")
_NO_SECRETS = frozenset({"endpoint_url", "endpoint", "region_name", "region", "account_name"})
"""Options that help to understand an error; credentials inside their URLs are removed anyway."""
_SHORTEST_SECRET = 6
"""Minimum length of a secret. Shorter values are flags and numbers, and removing them would garble
the text."""


def reason_of(error: OSError) -> str:
    """The operating system's reason and the cure, without a full stop."""
    reason = _REASONS.get(error.errno or 0)
    return reason or f"{error.strerror or error}; check the file system and run again"


def describe_error(error: Exception, options: Mapping[str, object]) -> str:
    """The class of `error` and the first line of its message, without credentials."""
    text = scrub(str(error), options).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def scrub(text: str, options: Mapping[str, object]) -> str:
    """Remove user info, signed queries and the strings in `options` from a text.

    Args:
        text: Message of a file system's error.
        options: Options of that file system; every string in them counts as a secret, except
            addresses.
    """
    # Longest first, since one value may be part of another.
    for secret in sorted(set(_strings_in(options)), key=len, reverse=True):
        text = text.replace(secret, "***")
    return _USER_INFO.sub(r"\1", _SIGNED_QUERY.sub(r"\1?***", text))


def reveals(error: BaseException, options: Mapping[str, object]) -> bool:
    """Whether a traceback of `error` would show what `scrub` removes."""
    text = "".join(traceback.format_exception_only(error))
    cause = error.__cause__ or error.__context__
    return scrub(text, options) != text or (cause is not None and reveals(cause, options))


def _strings_in(value: object) -> Iterable[str]:
    match value:
        case str() if len(value) >= _SHORTEST_SECRET:
            yield value
        case Mapping():
            for key, item in value.items():
                if key not in _NO_SECRETS:
                    yield from _strings_in(item)
        case list() | tuple():
            for item in value:
                yield from _strings_in(item)
