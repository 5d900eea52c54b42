"""The pages of the Python API: one for each public package, with the names of its `__all__`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from textwrap import indent
from types import ModuleType

PACKAGES = (
    "delta_ops",
    "delta_ops.arrow",
    "delta_ops.spark",
    "delta_ops.tables",
    "delta_ops.ddl",
    "delta_ops.versioning",
    "delta_ops.maintenance",
    "delta_ops.arrays",
    "delta_ops.orchestration",
    "delta_ops.components",
    "delta_ops.pipes",
    "delta_ops.errors",
)
"""The public packages, in the order of the navigation."""
_INTERNAL = {"naming_table", "AssetWrite"}
"""Names in modules without `__all__` that only delta_ops uses."""
_PRELUDE = """\
import pyarrow as pa
import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col, lit
"""
_MORE_PRELUDE = {
    "delta_ops.orchestration": "import dagster as dg\n",
    "delta_ops.components": "import dagster as dg\n",
    "delta_ops.spark": "import delta_ops.spark as ds\nspark = ds.get_session()\n",
    "delta_ops.tables": "import delta_ops.spark as ds\nspark = ds.get_session()\n",
}
_ABOUT_EXAMPLES = """
??? note "The examples of this page"
    The examples use the names of this page, and

    ```python
{prelude}    ```

    The table `lake/orders` has the columns `id`, `country` and `price` and three rows: `1, "NL",
    10.0`, `2, "BE", 20.0` and `3, "NL", 30.0`. Each example starts with this table at version 0.
"""


def api_pages() -> dict[str, Callable[[], str]]:
    """The text of each page, by its place on the site."""
    return {f"reference/{name}.md": partial(_page, name) for name in PACKAGES}


def _page(name: str) -> str:
    package = import_module(name)
    options = "    options:\n      members: false\n      show_root_heading: false\n"
    head = f"# {name}\n\n::: {name}\n{options}"
    head += _ABOUT_EXAMPLES.format(prelude=indent(prelude_of(name), "    "))
    names = sorted(public_names(package), key=lambda each: (each[0].isupper(), each))
    return head + "".join(f"\n::: {name}.{each}\n" for each in names)


def prelude_of(package: str) -> str:
    """The code that the examples in docstrings of a package share."""
    return _PRELUDE + _MORE_PRELUDE.get(package, "")


def public_names(package: ModuleType) -> list[str]:
    """The names that users import from a package: its `__all__`, else what it defines."""
    if hasattr(package, "__all__"):
        return [name for name in package.__all__ if not name.startswith("__")]
    return [
        name
        for name, value in vars(package).items()
        if not name.startswith("_")
        and name not in _INTERNAL
        and getattr(value, "__module__", "") == package.__name__
    ]
