"""Zarr is imported by the store only, and a missing package is named."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import delta_ops.arrays, delta_ops.arrays.sweep
from delta_ops.maintenance import *
print([name for name in ("zarr", "numcodecs") if name in sys.modules])
sys.modules["zarr"] = None
try:
    from delta_ops.arrays import DeltaStore
except ImportError as error:
    print(error)
"""


def test_only_the_store_needs_zarr() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[]",
        "delta_ops.arrays needs the package zarr; install it with: pip install 'delta_ops[zarr]'",
    ]
