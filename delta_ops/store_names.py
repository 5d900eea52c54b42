"""Store names: parse and compare addresses of stores, such as `s3a://bucket/key`. Pure.

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
    """The address forms `scheme://authority/key` of one kind of store."""

    schemes: tuple[str, ...]
    """Schemes that open the store, in lower case. Canonical addresses use the first."""
    foreign_schemes: tuple[str, ...] = ()
    """Schemes of other programs for the store; they may be in a log, but cannot open the store."""
    canonical_authority: Callable[[str], str] = _keep
    """Maps an authority to its canonical spelling."""
    service_of: Callable[[str], str | None] = _keep
    """Maps a canonical authority to the service that a set of options opens, such as an account.

    None: the options name the service.
    """
    is_container_first: bool = False
    """Whether `container@account` is an authority, so that the part before "@" is no secret."""
    has_own_service: bool = False
    """Whether the client has a service and credentials without any options."""


_by_scheme: dict[str, StoreNames] = {}
_loaders: list[Callable[[], None]] = []


def load_names_by(load: Callable[[], None]) -> None:
    """Add a function that registers names on demand; each look-up calls it first."""
    _loaders.append(load)


def register_names(names: StoreNames) -> None:
    """Register the schemes of a store."""
    _by_scheme.update(dict.fromkeys(names.schemes + names.foreign_schemes, names))


def forget_names(names: StoreNames) -> None:
    """Undo `register_names`."""
    for scheme in names.schemes + names.foreign_schemes:
        _by_scheme.pop(scheme, None)


def names_of(scheme: str) -> StoreNames:
    """Names of the store with this scheme, ignoring case.

    An unknown scheme is a store of its own.
    """
    for load in _loaders:
        load()
    lower = scheme.lower()
    return _by_scheme.get(lower) or StoreNames(schemes=(lower,))
