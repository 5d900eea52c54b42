"""Backends: one value per store, with everything that is specific to it.

A new store is a module here, and its entry in `BACKENDS`. Other packages `register` theirs.
"""

from __future__ import annotations

from delta_ops.storage.backends.azure import AZURE
from delta_ops.storage.backends.backend import UNKNOWN, Backend
from delta_ops.storage.backends.gcs import GCS
from delta_ops.storage.backends.local import LOCAL
from delta_ops.storage.backends.memory import MEMORY
from delta_ops.storage.backends.s3 import S3
from delta_ops.store_names import forget_names, register_names

__all__ = ["BACKENDS", "Backend", "backend_of", "backends", "forget", "register"]

BACKENDS = (LOCAL, MEMORY, S3, GCS, AZURE)

_by_scheme: dict[str, Backend] = {}


def register(backend: Backend) -> None:
    """Open addresses with the schemes of this backend by it."""
    _by_scheme.update(dict.fromkeys(backend.schemes, backend))
    register_names(backend.names)


def forget(backend: Backend) -> None:
    """Undo `register`."""
    for scheme in backend.schemes:
        _by_scheme.pop(scheme, None)
    forget_names(backend.names)


def backend_of(*schemes: str) -> Backend:
    """Backend of the first of these schemes that has one; `UNKNOWN` if none has."""
    return next((_by_scheme[each] for each in schemes if each in _by_scheme), UNKNOWN)


def backends() -> tuple[Backend, ...]:
    """Every backend that is registered, once."""
    return tuple({id(each): each for each in _by_scheme.values()}.values())


for each in BACKENDS:
    register(each)
