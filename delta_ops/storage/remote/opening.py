"""Opening: from the address of a store to its file system."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, cast

import fsspec
from fsspec.config import apply_config

from delta_ops.errors import InvalidRequestError, MissingDependencyError, StorageError
from delta_ops.late_imports import importing
from delta_ops.storage.addresses import address_refusal, validate_remote
from delta_ops.storage.backends.endpoints import drop_credentials
from delta_ops.storage.backends.option_names import client_options
from delta_ops.storage.failures import describe_error, reveals
from delta_ops.storage.hadoop_names import translate_hadoop_names
from delta_ops.storage.locks import Lock
from delta_ops.storage.object_stores import options_to_open
from delta_ops.storage.paths import redact, split_uri
from delta_ops.storage.range_cache import RangeCache
from delta_ops.storage.remote.fsspec_storage import FsspecStorage
from delta_ops.storage.remote.reachable import address_before_opening, unreachable_reason

# `url_to_fs` imports it at its first call, where a fork would not wait for it.
with contextlib.suppress(ImportError):  # it is new in fsspec
    import fsspec.implementations.chained

_PACKAGES = frozenset({"s3fs", "gcsfs", "adlfs"})
_COMMON_OPTIONS = frozenset(
    {
        # Of fsspec, for each client.
        *("use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache"),
        # Of the session of botocore, to which s3fs hands on what it does not take itself.
        *("profile", "session_vars", "event_hooks", "include_builtin_handlers"),
    }
)
"""Options that no signature of a client names."""
_CLOSE = 0.85
"""How alike two names are of which one is taken for the other misspelt; 1 is equal."""
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


def open_remote(
    address: str,
    storage_options: Mapping[str, Any],
    lock: Lock | None,
    cache: RangeCache | None,
) -> FsspecStorage:
    """The storage at `address`, which has a scheme; see `open_storage`."""
    scheme, rest = split_uri(address)
    validate_remote(address)
    _validate_scheme(address, scheme)
    uri = f"{scheme}://{rest.rstrip('/')}"
    # What fsspec's own configuration adds, it would add unseen.
    file_system = fsspec.get_filesystem_class(scheme)
    asked = client_options(scheme, translate_hadoop_names(uri, storage_options))
    _validate_names(scheme, file_system, asked)
    given = apply_config(file_system, asked)
    plain = drop_credentials(scheme, given)
    options = {
        **options_to_open(scheme, plain, file_system),
        "use_listings_cache": False,
    }
    called = address_before_opening(scheme, plain)
    if called is not None and (unreachable := unreachable_reason(called, plain)) is not None:
        raise StorageError(redact(address), "opened", unreachable)
    try:
        fs, root = fsspec.url_to_fs(uri, **options)
    except Exception as error:  # file systems raise what their libraries raise
        reason = f"{describe_error(error, options)}; check the address and storage_options"
        failure = StorageError(redact(address), "opened", reason)
        raise failure from (None if reveals(error, options) else error)
    return FsspecStorage(fs, root, uri, lock, cache, plain)


@cache
def _options_of(file_system: Any) -> frozenset[str]:
    """Names of the options that a client takes."""
    makers = [vars(each)["__init__"] for each in file_system.__mro__ if "__init__" in vars(each)]
    return _COMMON_OPTIONS.union(*(inspect.signature(each).parameters for each in makers))


def _validate_names(scheme: str, file_system: type[Any], options: Mapping[str, Any]) -> None:
    """Reject an option that the client would pass over, such as `endpont_url`.

    Clients of other packages take what they like.

    Raises:
        InvalidRequestError: With the nearest that is known.
    """
    package = file_system.__module__.partition(".")[0]
    if package not in _PACKAGES:
        return
    # adlfs hands on what it does not take itself, to the many credentials of Azure.
    cutoff = _CLOSE if package == "adlfs" else 0
    known = _options_of(cast(Hashable, file_system))
    for name in options:
        # A name with a dot is one of Hadoop, and another check's.
        if name in known or "." in name:
            continue
        for nearest in get_close_matches(name, known, n=1, cutoff=cutoff):
            raise InvalidRequestError(
                f"The option {name} is not understood for {scheme}; the nearest that is is "
                f"{nearest}, of the client {file_system.__name__}"
            )


def _validate_scheme(address: str, scheme: str) -> None:
    """Import the file system's package, so that its absence is told apart from a bad option."""
    try:
        with importing():
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
        raise address_refusal(
            address, f"fsspec knows no file system {scheme}", "check the scheme"
        ) from error


def _leave_event_loop_behind() -> None:
    """fsspec means to do so itself; its lock it forgets (`fsspec.asyn.reset_after_fork`)."""
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None:
        asyn.reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_event_loop_behind)
