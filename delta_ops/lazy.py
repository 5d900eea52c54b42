"""Lazy values: computed when they are first asked for, kept with their object, never locked.

`functools.cached_property` of Python 3.11 has one lock for the values of all objects: whoever
computes one that takes long, or is held up by a store, holds up every other object, and a child of
a fork that happens meanwhile waits for ever, since the thread that would give the lock back is not
there. A lock for each object would still be inherited, and would have to be left out of pickles.

So there is none. Threads that ask for a value at the same time each compute it, and all get the
one that was kept first. That is right for values that are the same however often they are computed,
and hold nothing that has to be closed; no other value may be lazy. It costs the work twice where
two threads share an object and ask before either is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801  (a decorator, as `property` is)
    """A method of no arguments, as an attribute that is computed once it is asked for."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Compute and keep the value: what an object holds already is found before this."""
        if instance is None:
            return self
        value = self._compute(instance)
        kept: T = vars(instance).setdefault(self._name, value)  # at once, for all threads
        return kept
