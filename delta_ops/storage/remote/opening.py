"""Opening: opens the file system for a store's address."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import fsspec
from fsspec.config import apply_config

from delta_ops.errors import MissingDependencyError, StorageError
from delta_ops.late_imports import importing
from delta_ops.storage.addresses import address_refusal, validate_remote
from delta_ops.storage.backends import backend_of
from delta_ops.storage.failures import describe_error, reveals
from delta_ops.storage.hadoop import translate_hadoop_names
from delta_ops.storage.locks import Lock
from delta_ops.storage.paths import redact, split_uri
from delta_ops.storage.range_cache import RangeCache
from delta_ops.storage.remote.fsspec_storage import FsspecStorage
from delta_ops.storage.remote.options import client_options, validate_options
from delta_ops.storage.remote.reachable import unreachable_reason

# `url_to_fs` imports this module at its first call, when a fork would not wait for the import.
with contextlib.suppress(ImportError):  # it is new in fsspec
    import fsspec.implementations.chained


def open_remote(
    address: str,
    storage_options: Mapping[str, Any],
    lock: Lock | None,
    cache: RangeCache | None,
) -> FsspecStorage:
    """Open the storage at `address`, which has a scheme; see `open_storage`."""
    scheme, rest = split_uri(address)
    validate_remote(address)
    _validate_scheme(address, scheme)
    uri = f"{scheme}://{rest.rstrip('/')}"
    backend = backend_of(scheme)
    file_system = fsspec.get_filesystem_class(scheme)
    options = client_options(scheme, translate_hadoop_names(uri, storage_options))
    validate_options(scheme, file_system, options)
    # Added here, because fsspec would silently add the options of its own configuration later.
    plain = backend.drop_credentials(apply_config(file_system, options))
    options = {**backend.options_to_open(plain, file_system), "use_listings_cache": False}
    called = backend.address_while_opening(plain)
    if called is not None and (unreachable := unreachable_reason(called, plain)) is not None:
        raise StorageError(redact(address), "opened", unreachable)
    try:
        fs, root = fsspec.url_to_fs(uri, **options)
    except Exception as error:  # file systems raise what their libraries raise
        reason = f"{describe_error(error, options)}; check the address and storage_options"
        failure = StorageError(redact(address), "opened", reason)
        raise failure from (None if reveals(error, options) else error)
    return FsspecStorage(fs, root, uri, lock, cache, plain)


def _validate_scheme(address: str, scheme: str) -> None:
    """Check the scheme by importing its package, so that a missing package has its own error."""
    try:
        with importing():
            fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        backend = backend_of(scheme)
        message = (
            f"the package {backend.package}; install it with: "
            f"pip install 'delta_ops[{backend.extra}]'"
            if backend.package
            else f"a package that is not installed: {error}"
        )
        raise MissingDependencyError(f"{redact(address)} needs {message}.") from error
    except ValueError as error:
        raise address_refusal(
            address, f"fsspec knows no file system {scheme}", "check the scheme"
        ) from error


def _leave_event_loop_behind() -> None:
    """Reset fsspec's lock after a fork; its own `fsspec.asyn.reset_after_fork` omits the lock."""
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None:
        asyn.reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_event_loop_behind)
