"""Opening: from the address of a store to its file system."""

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
from delta_ops.storage.endpoints import drop_credentials
from delta_ops.storage.failures import describe_error, reveals
from delta_ops.storage.fsspec_storage import FsspecStorage
from delta_ops.storage.hadoop_names import translate_hadoop_names
from delta_ops.storage.locks import Lock
from delta_ops.storage.object_stores import options_to_open
from delta_ops.storage.option_names import client_options
from delta_ops.storage.paths import redact, split_uri
from delta_ops.storage.range_cache import RangeCache
from delta_ops.storage.reachable import address_before_opening, unreachable_reason

# `url_to_fs` imports it at its first call, where a fork would not wait for it.
with contextlib.suppress(ImportError):  # it is new in fsspec
    import fsspec.implementations.chained

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
