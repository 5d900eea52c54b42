"""Late imports: import modules on first use, and make forks wait for such imports.

`late_names` makes the public names of a package load on first access, so that a caller of
`from delta_ops import DeltaLog` imports what reads need, and not what writes need.

Python locks a module during its import. A child process forked meanwhile inherits the lock, but not
the thread that would release it: it waits forever when it imports the same module. A fork therefore
waits for late imports in other threads; for the client of a store this takes a second or two.
Imports do not wait for each other.
"""

from __future__ import annotations

# Both modules take a lock before a fork, too. The last registered function runs first, and it must
# be ours, since an import may need their locks.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

_LONGEST_WAIT_S = 10
"""Then the process forks anyway, since an import may itself wait for the forking thread."""

_changed = threading.Condition()
_importing: set[int] = set()
"""Identifiers of the importing threads."""


@contextmanager
def importing() -> Iterator[None]:
    """Make forks wait while the block imports modules."""
    this_thread = threading.get_ident()
    if this_thread in _importing:  # an import within an import
        yield
        return
    with _changed:
        _importing.add(this_thread)
    try:
        yield
    finally:
        with _changed:
            _importing.discard(this_thread)
            _changed.notify_all()


def late_names(package: str, names_by_module: Mapping[str, Iterable[str]]) -> None:
    """Make public names of a package load their modules on first access (PEP 562).

    For type checkers, the package imports the same names under `TYPE_CHECKING`.

    Args:
        names_by_module: Names under the package itself are submodules.
    """
    module = sys.modules[package]
    module.__class__ = _LatePackage
    vars(module)["_modules_by_name"] = {
        name: each for each, names in names_by_module.items() for name in names
    }


class _LatePackage(ModuleType):
    """A package whose public names load on first access, and then are plain attributes."""

    _modules_by_name: Mapping[str, str]

    def __getattr__(self, name: str) -> object:
        """Import a public name."""
        module = self._modules_by_name.get(name)
        if module is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with importing():
            if module == self.__name__:
                return import_module(f"{module}.{name}")
            value: object = getattr(import_module(module), name)
        return vars(self).setdefault(name, value)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, but not a submodule in the place of a public name.

        The import of `delta_ops.maintenance.optimize.act` sets its package as the attribute
        `optimize` of `delta_ops.maintenance`; `optimize` is the function there.
        """
        is_submodule = self._modules_by_name.get(name, self.__name__) == self.__name__
        if is_submodule or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickle the package by its name, as cloudpickle does with modules of the plain type."""
        return import_module, (self.__name__,)

    def __dir__(self) -> list[str]:
        """All names; late names are listed before they load."""
        return sorted({*super().__dir__(), *self._modules_by_name})


def _await_imports() -> None:
    this_thread = threading.get_ident()  # the forking thread may itself be importing
    _changed.acquire()
    _changed.wait_for(lambda: _importing <= {this_thread}, _LONGEST_WAIT_S)


def _go_on_in_child() -> None:
    _importing.intersection_update({threading.get_ident()})
    _changed.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_await_imports,
        after_in_parent=_changed.release,
        after_in_child=_go_on_in_child,
    )
