"""Backends: one value per store, with everything that is specific to the store.

To add a store, add a module here and an entry in `built_in`. Other packages `register` theirs. The
built-in backends are loaded at the first address with a scheme; most processes that use only local
tables need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_ops.late_imports import importing
from delta_ops.store_names import forget_names, load_names_by, register_names

if TYPE_CHECKING:
    from delta_ops.storage.backends.backend import Backend

__all__ = ["backend_of", "backends", "forget", "register"]

_by_scheme: dict[str, Backend] = {}


def register(backend: Backend) -> None:
    """Use this backend for all addresses with its schemes."""
    _by_scheme.update(dict.fromkeys(backend.schemes, backend))
    if not backend.is_local:  # a log names local files by path
        register_names(backend.names)


def forget(backend: Backend) -> None:
    """Undo `register` for this backend."""
    for scheme in backend.schemes:
        _by_scheme.pop(scheme, None)
    forget_names(backend.names)


def backend_of(*schemes: str) -> Backend:
    """The backend of the first scheme that has one; else `UNKNOWN`."""
    _load_built_in()
    from delta_ops.storage.backends.backend import UNKNOWN

    return next((_by_scheme[each] for each in schemes if each in _by_scheme), UNKNOWN)


def backends() -> tuple[Backend, ...]:
    """Every registered backend once."""
    _load_built_in()
    return tuple({id(each): each for each in _by_scheme.values()}.values())


def _load_built_in() -> None:
    """Register the built-in backends, except where another backend has their schemes."""
    if "file" in _by_scheme:  # scheme of the last built-in backend
        return
    with importing():
        from delta_ops.storage.backends.built_in import BACKENDS
    for backend in BACKENDS:
        if _by_scheme.keys().isdisjoint(backend.schemes):
            register(backend)


load_names_by(_load_built_in)
