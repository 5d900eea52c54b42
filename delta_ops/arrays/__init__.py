"""Arrays: a Zarr store over a Delta table, with one history for tables and grids.

`DeltaStore` needs the package zarr, and loads at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_ops.arrays.keys import Place, block_name, block_shape, place_of
from delta_ops.arrays.reading import etag_of
from delta_ops.arrays.table import create_array_table
from delta_ops.late_imports import importing

if TYPE_CHECKING:
    from delta_ops.arrays.store import DeltaStore
else:

    def __getattr__(name: str) -> object:
        """`DeltaStore`, with zarr."""
        if name != "DeltaStore":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            with importing():
                import zarr  # noqa: F401
        except ImportError as error:
            from delta_ops.errors import MissingDependencyError

            raise MissingDependencyError(
                "delta_ops.arrays needs the package zarr; install it with: "
                "pip install 'delta_ops[zarr]'"
            ) from error
        from delta_ops.arrays.store import DeltaStore

        return DeltaStore


__all__ = [
    "DeltaStore",
    "Place",
    "block_name",
    "block_shape",
    "create_array_table",
    "etag_of",
    "place_of",
]
