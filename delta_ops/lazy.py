"""Lazy values: computed on first access, kept in their object, never locked.

`functools.cached_property` of Python 3.11 has one lock for the values of all objects. A slow
computation, for example one that waits for a store, blocks all other objects. A child process
forked during the computation waits forever, since the thread that holds the lock does not exist
there. A lock for each object would still be inherited by forks, and would have to be excluded from
pickles.

`lazy` therefore has no lock. Threads that access a value at the same time each compute it, and all
get the first stored result. This is correct for values that are the same in every computation and
hold no resource to close; no other value may be lazy. The work is done twice if two threads share
an object and both access it before the first is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801  (a decorator, as `property` is)
    """A method without arguments as an attribute, computed on first access."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Compute and store the value; Python finds a stored value without this method."""
        if instance is None:
            return self
        value = self._compute(instance)
        kept: T = vars(instance).setdefault(self._name, value)  # atomic for all threads
        return kept
