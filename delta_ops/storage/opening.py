"""Opening: from the address a user gives to a file system; refuses what could mean two places."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import fsspec

from delta_ops.errors import InvalidRequestError, MissingDependencyError, StorageError
from delta_ops.storage.failures import reveals, said_by
from delta_ops.storage.fsspec_storage import FsspecStorage
from delta_ops.storage.locks import Lock
from delta_ops.storage.object_stores import options_to_open
from delta_ops.storage.paths import redact, split_uri
from delta_ops.storage.range_cache import RangeCache

_LOCAL_SCHEMES = frozenset({"file", "local"})
_CACHING = frozenset({"simplecache", "filecache", "blockcache", "cached"})
_EXTRA_OF = {
    "s3": ("s3fs", "s3"),
    "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gcs"),
    "gcs": ("gcsfs", "gcs"),
    "abfs": ("adlfs", "azure"),
    "abfss": ("adlfs", "azure"),
    "az": ("adlfs", "azure"),
}
"""Package and extra of delta_ops by scheme."""
_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/(?!/)")
_CHAIN = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*::")
_DRIVE = re.compile(r"/?[A-Za-z]:[/\\]")


def local_path_of(address: str) -> str | None:
    """The absolute local path that `address` means; None when it means another store.

    Raises:
        InvalidRequestError: It could mean two places, or none on this machine.
    """
    scheme, rest = split_uri(address)
    if scheme in _LOCAL_SCHEMES:
        return _absolute(_path_in_uri(address, rest.removeprefix("localhost")))
    if scheme or _CHAIN.match(address):
        return None
    if address[:5].lower() == "file:":
        return _absolute(_path_in_uri(address, address[5:]))
    if one_slash := _ONE_SLASH.match(address):
        scheme = one_slash[1]
        raise _refused(
            address,
            f"it has one slash after {scheme}:",
            f"write {scheme}:// for a store, or ./{address} for a local directory",
        )
    return _absolute(_with_home(address))


def open_remote(
    address: str,
    storage_options: Mapping[str, Any],
    lock: Lock | None,
    cache: RangeCache | None,
) -> FsspecStorage:
    """The storage at `address`, which has a scheme; see `open_storage`."""
    scheme, rest = split_uri(address)
    _validate_remote(address, scheme, rest)
    _validate_scheme(address, scheme)
    uri = f"{scheme}://{rest.rstrip('/')}"
    options = {**options_to_open(scheme, storage_options), "use_listings_cache": False}
    try:
        fs, root = fsspec.url_to_fs(uri, **options)
    except Exception as error:  # file systems raise what their libraries raise
        reason = f"{said_by(error, options)}; check the address and storage_options"
        failure = StorageError(redact(address), "opened", reason)
        raise failure from (None if reveals(error, options) else error)
    return FsspecStorage(fs, root, uri, lock, cache)


def _validate_remote(address: str, scheme: str, rest: str) -> None:
    if "::" in address or scheme in _CACHING:
        raise _refused(
            address,
            "it puts one file system over another, which could show a table as it was",
            "open the store itself",
        )
    if "?" in address:
        raise _refused(
            address, "it has a query, which may hold credentials", "put them into storage_options"
        )
    if scheme != "memory" and not rest.strip("/"):
        raise _refused(address, "it names no place in the store", "add the bucket and the path")


def _validate_scheme(address: str, scheme: str) -> None:
    """Import the file system's package, so that its absence is told apart from a bad option."""
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        package, extra = _EXTRA_OF.get(scheme, ("", ""))
        said = (
            f"the package {package}; install it with: pip install 'delta_ops[{extra}]'"
            if package
            else f"a package that is not installed: {error}"
        )
        raise MissingDependencyError(f"{redact(address)} needs {said}.") from error
    except ValueError as error:
        raise _refused(
            address, f"fsspec knows no file system {scheme}", "check the scheme"
        ) from error


def _path_in_uri(address: str, path: str) -> str:
    if not path.startswith("/"):
        raise _refused(address, "it names a host or a relative path", "write file:///absolute/path")
    if unquote(path) != path:
        raise _refused(
            address,
            "engines disagree whether a percent sign in a file: URI stands for itself",
            "give the plain path",
        )
    return path[1:] if _DRIVE.match(path) else f"/{path.lstrip('/')}"


def _with_home(address: str) -> str:
    path = os.path.expanduser(address)
    if path.startswith("~"):
        raise _refused(
            address,
            "there is no home directory of that user",
            f"write ./{address} for a local directory",
        )
    return path


def _absolute(path: str) -> str:
    if not path or "\0" in path:
        raise _refused(path, "it is empty or holds a NUL character", "give a path")
    if _DRIVE.match(path) and os.name != "nt":
        raise _refused(
            path,
            "it starts with a Windows drive",
            f"write ./{path} for a local directory",
        )
    absolute = os.path.abspath(path)
    if ".." in path.split("/") and os.path.realpath(absolute) != os.path.realpath(path):
        raise _refused(
            path, "'..' after a link means different places to different programs", "leave it out"
        )
    return absolute


def _refused(address: str, problem: str, cure: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"The address {redact(address)!r} is refused because {problem}; {cure}."
    )
