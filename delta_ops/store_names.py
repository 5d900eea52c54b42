"""Store names: how addresses such as `s3a://bucket/key` name a store. Pure.

`storage.backends` registers the names of each store. Paths in a log and addresses of tables are
compared by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _keep(authority: str) -> str:
    return authority


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreNames:
    """How addresses `scheme://authority/key` name one kind of store."""

    schemes: tuple[str, ...]
    """Schemes that open the store, in lower case. Canonical addresses have the first one."""
    foreign_schemes: tuple[str, ...] = ()
    """Schemes by which only other programs open the store, and a log may name its files."""
    canonical_authority: Callable[[str], str] = _keep
    """Takes an authority; returns the text that stands for all spellings of it."""
    service_of: Callable[[str], str | None] = _keep
    """Takes a canonical authority; returns what one set of options opens, such as an account.

    None: the options name it.
    """
    is_container_first: bool = False
    """Whether `container@account` is an authority, so that the part before "@" is no secret."""
    has_own_service: bool = False
    """Whether the client has a service and credentials without any options."""


_by_scheme: dict[str, StoreNames] = {}
_loaders: list[Callable[[], None]] = []


def load_names_by(load: Callable[[], None]) -> None:
    """Call `load`, which registers names, before names are looked up."""
    _loaders.append(load)


def register_names(names: StoreNames) -> None:
    """Let addresses with these schemes name this store."""
    _by_scheme.update(dict.fromkeys(names.schemes + names.foreign_schemes, names))


def forget_names(names: StoreNames) -> None:
    """Undo `register_names`."""
    for scheme in names.schemes + names.foreign_schemes:
        _by_scheme.pop(scheme, None)


def names_of(scheme: str) -> StoreNames:
    """Names of the store with this scheme, in upper or lower case.

    A scheme that no store has is a store of its own.
    """
    for load in _loaders:
        load()
    lower = scheme.lower()
    return _by_scheme.get(lower) or StoreNames(schemes=(lower,))
