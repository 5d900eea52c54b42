"""Opening: opens the file system for a store's address, with the user's options.

Option names of other programs and of Hadoop are converted to names of the store's client.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import chain
from typing import Any, cast

import fsspec
from fsspec.config import apply_config
from fsspec.implementations.memory import MemoryFileSystem

from delta_ops.errors import InvalidRequestError, MissingDependencyError, StorageError
from delta_ops.late_imports import importing
from delta_ops.option_words import option
from delta_ops.storage.addresses import address_refusal, validate_remote
from delta_ops.storage.backends import backend_of, backends
from delta_ops.storage.backends.backend import Backend
from delta_ops.storage.backends.option_names import keep_value
from delta_ops.storage.failures import describe_error, reveals
from delta_ops.storage.hadoop import is_hadoop_name, translate_hadoop_names
from delta_ops.storage.locks import Lock
from delta_ops.storage.paths import redact, split_uri
from delta_ops.storage.range_cache import RangeCache
from delta_ops.storage.remote.fsspec_storage import FsspecStorage
from delta_ops.storage.remote.reachable import unreachable_reason

# `url_to_fs` imports this module at its first call, when a fork would not wait for the import.
with contextlib.suppress(ImportError):  # it is new in fsspec
    import fsspec.implementations.chained

Options = Mapping[str, Any]

_OUTER = frozenset({"client_kwargs", "config_kwargs"})
"""Options whose values are options themselves."""
_OF_FSSPEC = frozenset(
    {"use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache"}
)
"""Options that every client accepts without naming them in its signature."""
_CLOSE = 0.85
"""Minimum similarity of a misspelled name and its correction; 1 means equal."""


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
        description = describe_error(error, options)
        reason = f"{description}; check the address and {option('storage_options')}"
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
            address, f"fsspec has no file system for {scheme}", "check the scheme"
        ) from error


def client_options(scheme: str, options: Options) -> dict[str, Any]:
    """Convert option names to the names of the client for this scheme.

    Raises:
        InvalidRequestError: A name is unknown, two names give one option different values, or a
            value is invalid for its name. The message shows no value.
    """
    names = backend_of(scheme).option_names
    if not names:
        return dict(options)
    # Prefixes of all stores, because the client would ignore options of another store.
    prefixes = tuple(chain.from_iterable(each.variable_prefixes for each in backends()))
    found: dict[str, Any] = {}
    names_used: dict[str, str] = {}
    for name, value in options.items():
        if not isinstance(name, str):
            raise InvalidRequestError(
                f"The name of a store option has type {type(name).__name__}; give a string"
            )
        known = names.get(name.lower())
        if known is None and name.lower().startswith(prefixes):
            raise _unknown_name_error(name, scheme)
        option, read = known or (name, keep_value)
        if option == "":
            read(name, value)
            continue
        if option in found and found[option] != read(name, value):
            raise InvalidRequestError(
                f"The options {names_used[option]} and {name} of the store contradict each other; "
                "leave one of them out"
            )
        found[option], names_used[option] = read(name, value), name
    return _nest(found, options)


def validate_options(scheme: str, file_system: type[Any], options: Options) -> None:
    """Reject an option that the client would ignore, such as `endpont_url`.

    Clients of packages without a backend are not checked.

    Raises:
        InvalidRequestError: With the nearest name that the client knows.
    """
    backend = backend_of(scheme)
    if file_system is MemoryFileSystem:
        validate_unneeded(options, f"{scheme}://")
    if file_system.__module__.partition(".")[0] != backend.package:
        return
    cutoff = _CLOSE if backend.passes_options_on else 0
    known = _options_of(cast("Hashable", file_system)) | backend.further_options
    for name in options:
        # A dotted name is a Hadoop setting, which is validated when it is translated.
        if name in known or "." in name:
            continue
        for nearest in get_close_matches(name, known, n=1, cutoff=cutoff):
            raise InvalidRequestError(
                f"The option {name} is unknown for {scheme}; the closest option of the client "
                f"{file_system.__name__} is {nearest}"
            )


def validate_unneeded(options: Options, place: str) -> None:
    """Reject options of a local path or a store in memory, which need none, if no store has them.

    Options that some store has are accepted and ignored, since a lake on a disk and a lake in a
    bucket may share a configuration. If a store's client is not installed, its options are unknown;
    then only likely misspellings are rejected.

    Args:
        place: The location, for messages.

    Raises:
        InvalidRequestError: With the nearest name that a store knows.
    """
    unknown = [name for name in options if not _is_known(name)]
    if not unknown:
        return
    of_clients = [_names_of_client(each) for each in backends() if each.package]
    known = frozenset(chain.from_iterable(of_clients))
    cutoff = 0 if all(of_clients) else _CLOSE
    for name in unknown:
        if name in known:
            continue
        names = known | _names_of_stores()
        for nearest in get_close_matches(str(name).lower(), names, n=1, cutoff=cutoff):
            raise InvalidRequestError(
                f"{place}: the option {name} is unknown to every store; leave it out, since "
                f"this location needs no options (the closest option is {nearest})"
            )


def _is_known(name: object) -> bool:
    """Whether a store is known to have the option; false if only its client may know."""
    return isinstance(name, str) and (name.lower() in _names_of_stores() or is_hadoop_name(name))


def _names_of_stores() -> frozenset[str]:
    """Names of options that the backends name, in lower case."""
    found = set(_OF_FSSPEC)
    for backend in backends():
        clients = {option.partition(".")[0] for option, _ in backend.option_names.values()}
        found |= {*backend.option_names, *clients, *backend.further_options} - {""}
    return frozenset(found)


def _names_of_client(backend: Backend) -> frozenset[str]:
    """Names of options in the client's signature; empty if it is not installed. Imports it."""
    try:
        with importing():
            file_system = fsspec.get_filesystem_class(backend.schemes[0])
    except ImportError:
        return frozenset()
    return _options_of(cast("Hashable", file_system)) - {"self", "args", "kwargs"}


def _nest(found: Options, options: Options) -> dict[str, Any]:
    """Move options such as `client_kwargs.verify` into `client_kwargs`; the user's values win."""
    nested: dict[str, Any] = {name: found[name] for name in found if "." not in name}
    for name, value in found.items():
        outer, dot, inner = name.partition(".")
        if dot and outer in _OUTER:
            nested[outer] = {
                inner: value,
                **(options.get(outer) or {}),
                **(nested.get(outer) or {}),
            }
        elif dot:
            nested[name] = value
    return nested


def _unknown_name_error(name: str, scheme: str) -> InvalidRequestError:
    backend = backend_of(scheme)
    known = ", ".join(
        each for each in backend.option_names if each.startswith(backend.variable_prefixes)
    )
    return InvalidRequestError(
        f"The option {name} is unknown for {scheme}; give one of {known}, or an option of "
        f"fsspec's client ({backend.option_hint})"
    )


@cache
def _options_of(file_system: Any) -> frozenset[str]:
    """Names of the options that a client accepts."""
    makers = [vars(each)["__init__"] for each in file_system.__mro__ if "__init__" in vars(each)]
    return _OF_FSSPEC.union(*(inspect.signature(each).parameters for each in makers))


def _leave_event_loop_behind() -> None:
    """Reset fsspec's lock after a fork; its own `fsspec.asyn.reset_after_fork` omits the lock."""
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None:
        asyn.reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_event_loop_behind)
