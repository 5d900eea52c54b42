"""Addresses: resolves a user's table address; rejects an address that could mean two places."""

from __future__ import annotations

import os
import re
from itertools import accumulate
from urllib.parse import unquote

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.storage.backends import backend_of
from delta_ops.storage.paths import redact, split_uri

_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/(?!/)")
_CHAIN = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*::")
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|\s")
_CACHING = frozenset({"simplecache", "filecache", "blockcache", "cached"})
_DRIVE = re.compile(r"/?[A-Za-z]:[/\\]")


def local_path_of(address: str) -> str | None:
    """The absolute local path that `address` means; None if it means another store.

    Raises:
        InvalidRequestError: It could mean two places, or no place on this machine.
    """
    scheme, rest = split_uri(address)
    if scheme and backend_of(scheme).is_local:
        return _make_absolute(_path_in_uri(address, rest.removeprefix("localhost")))
    if scheme or _CHAIN.match(address):
        return None
    if address[:5].lower() == "file:":
        return _make_absolute(_path_in_uri(address, address[5:]))
    if one_slash := _ONE_SLASH.match(address):
        scheme = one_slash[1]
        raise address_refusal(
            address,
            f"it has one slash after {scheme}:",
            f"write {scheme}:// for a store, or ./{address} for a local directory",
        )
    return _make_absolute(_expand_home(address))


def validate_remote(address: str) -> None:
    """Reject an address of a store that is ambiguous, names no place, or contains a secret.

    Raises:
        InvalidRequestError: With the problem and the cure.
    """
    scheme, rest = split_uri(address)
    backend = backend_of(scheme)
    if "::" in address or scheme in _CACHING:
        raise address_refusal(
            address,
            "it chains file systems, which could show an outdated table",
            "open the store directly",
        )
    if "?" in address:
        raise address_refusal(
            address,
            "it has a query, which may hold credentials",
            f"put them into {option('storage_options')}",
        )
    if backend.refuses_user_info and "@" in rest.partition("/")[0]:
        raise address_refusal(
            address,
            "it has user information before the bucket, which may be a credential",
            f"put credentials into {option('storage_options')}",
        )
    if backend.needs_bucket and not rest.strip("/"):
        raise address_refusal(address, "it names no bucket", "add the bucket and the path")


def _path_in_uri(address: str, path: str) -> str:
    if not path.startswith("/"):
        raise address_refusal(
            address, "it names a host or a relative path", "write file:///absolute/path"
        )
    path = _decode(address, path)
    return path[1:] if _DRIVE.match(path) else f"/{path.lstrip('/')}"


def _decode(address: str, path: str) -> str:
    """The path that a `file:` URI means.

    deltalake and Java's URI decode escapes; Spark's Path and fsspec keep them as characters. So
    escapes are decoded only if no file has the escaped name, and the text cannot be a plain path.
    """
    if unquote(path) == path:
        return path
    for parts in accumulate(path.split("/"), "{}/{}".format):
        if "%" in parts and os.path.lexists(parts):
            raise address_refusal(
                address,
                f"there is {parts!r}, whose name has the percent sign, and as a URI it would mean "
                f"{unquote(parts)!r}",
                "give the plain path",
            )
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        decoded = ""
    # Path.as_uri() and Java escape spaces and special characters, but not the slashes.
    if not decoded or _NO_ESCAPE.search(path) or decoded.count("/") != path.count("/"):
        raise address_refusal(
            address, "it is neither a whole URI nor a plain path", "give the plain path"
        )
    return decoded


def _expand_home(address: str) -> str:
    path = os.path.expanduser(address)
    if path.startswith("~"):
        raise address_refusal(
            address,
            "that user has no home directory",
            f"write ./{address} for a local directory",
        )
    return path


def _make_absolute(path: str) -> str:
    if not path or "\0" in path:
        raise address_refusal(path, "it is empty or holds a NUL character", "give a path")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        problem = "it has half of a surrogate pair, which no file system can hold"
        raise address_refusal(path, problem, "leave it out") from error
    if _DRIVE.match(path) and os.name != "nt":
        raise address_refusal(
            path,
            "it starts with a Windows drive",
            f"write ./{path} for a local directory",
        )
    absolute = os.path.abspath(path)
    if ".." in path.split("/") and os.path.realpath(absolute) != os.path.realpath(path):
        raise address_refusal(
            path, "programs resolve '..' after a link differently", "leave it out"
        )
    return absolute


def address_refusal(address: str, problem: str, cure: str) -> InvalidRequestError:
    """The error for a rejected address."""
    return InvalidRequestError(
        f"The address {redact(address)!r} is invalid because {problem}; {cure}."
    )
