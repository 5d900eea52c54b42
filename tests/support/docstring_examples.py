"""Runs the examples of docstrings, and finds public names without one."""

from __future__ import annotations

import doctest
import inspect
import shutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa

import delta_ops.arrow as da
from scripts.docs.api_pages import prelude_of, public_names

_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_ONLY_FIRST_FAILURE


def names_with_examples(package: str) -> list[str]:
    """Public names of a package whose docstring, or a method's docstring, has an example."""
    module = import_module(package)
    return [name for name in public_names(module) if list(_docstrings(name, getattr(module, name)))]


def names_without_examples(package: str) -> set[str]:
    """Public classes and functions of a package without an example."""
    module = import_module(package)
    names = {name for name in public_names(module) if inspect.isroutine(getattr(module, name))}
    names |= {name for name in public_names(module) if inspect.isclass(getattr(module, name))}
    return names - set(names_with_examples(package))


def run_examples(package: str, name: str, **names: Any) -> None:
    """Run the examples of a public name, in the current folder.

    Args:
        names: Further names that the examples use.

    Raises:
        AssertionError: An example has another output; the text shows both.
    """
    module = import_module(package)
    known = {each: getattr(module, each) for each in public_names(module)}
    exec(prelude_of(package), known)
    for place, text in _docstrings(name, getattr(module, name)):
        shutil.rmtree("lake", ignore_errors=True)
        da.write("lake/orders", _orders())
        example = doctest.DocTestParser().get_doctest(text, {**known, **names}, place, None, 0)
        report: list[str] = []
        doctest.DocTestRunner(optionflags=_OPTIONS).run(example, out=report.append)
        assert report == [], "".join(report)


def _orders() -> pa.Table:
    countries = ["NL", "BE", "NL"]
    return pa.table({"id": [1, 2, 3], "country": countries, "price": [10.0, 20.0, 30.0]})


def _docstrings(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The docstrings with an example: of the value, and of the methods of a class."""
    methods = vars(value).items() if inspect.isclass(value) else ()
    for place, each in [(name, value), *((f"{name}.{method}", part) for method, part in methods)]:
        text = inspect.getdoc(getattr(each, "__func__", each)) if callable(each) or each else None
        if text and ">>>" in text and not place.split(".")[-1].startswith("_"):
            yield place, text
