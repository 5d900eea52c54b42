"""Absent names: importing an unsupported name of another integration raises an explanation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from delta_ops.errors import InvalidRequestError

NO_BACKOFF = "the clients of the stores have their own; leave it out"


def explain_absence(module: str, reasons: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module, which explains its absent names."""

    def find_attribute(name: str) -> Any:
        if name in reasons:
            raise InvalidRequestError(f"{module} has no {name}: {reasons[name]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find_attribute
