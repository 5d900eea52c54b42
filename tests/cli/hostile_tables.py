"""Tables with control characters and markup in every name, value and text."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import delta_ops.arrow as da

NAME = "\x1b[2J\x9b7m\x7f\u202e\u200b\u034f[red]x[/]é"
"""A valid name in Delta with hostile characters.

It clears the screen, reverses the colours and the writing direction, and is markup; it has
invisible marks, and a letter that must stay visible.
"""
TEXT = f"{NAME}\x1b]0;title\x07\n\r\t\u2028"
"""The name, the title of the window, and ends of lines."""
SHOWN = r"\x1b[2J\x9b7m\x7f\u202e\u200b\u034f[red]x[/]é"
"""How the name must be shown."""
PLACE = f"t{NAME.replace('/', '')}"
"""A directory's name has no slash."""


def far(kind: pa.DataType, number: int) -> pa.Array:
    """A date or a timestamp from days or microseconds since the epoch."""
    return pa.array([number], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)


def odd_rows() -> pa.Table:
    """One row of values without a type in Python or JSON."""
    utc, local = pa.timestamp("us", "UTC"), pa.timestamp("us")
    no_text = pa.Array.from_buffers(
        pa.string(),
        1,
        [None, pa.py_buffer(bytes([0, 0, 0, 0, 2, 0, 0, 0])), pa.py_buffer(b"a\xff")],
    )
    return pa.table(
        {
            "name": [TEXT],
            "no_text": no_text,
            "last_day": far(pa.date32(), 2**31 - 1),
            "first_day": far(pa.date32(), -(2**31)),
            "day_10000": far(pa.date32(), 2_932_897),
            "day_1_bc": far(pa.date32(), -719_163),
            "last_time": far(utc, 2**63 - 1),
            "first_time": far(utc, -(2**63)),
            "time_10000": far(utc, 253_402_300_800_000_000),
            "time": far(utc, 1_767_225_600_000_001),
            "nan": [float("nan")],
            "infinity": pa.array([float("inf")], pa.float32()),
            "no_infinity": [float("-inf")],
            "binary": [b"\x1b\x00"],
            "decimal": [Decimal("-1.50")],
            "map": pa.array([[(float("nan"), "x")]], pa.map_(pa.float64(), pa.string())),
            "struct": pa.StructArray.from_arrays(
                [far(utc, 2**63 - 1), pa.array([[float("inf"), None]])], ["time", "numbers"]
            ),
            "list": pa.ListArray.from_arrays([0, 1], far(local, -(2**63))),
            "far_map": pa.MapArray.from_arrays([0, 1], far(pa.date32(), 2**31 - 1), ["x"]),
            "long": ["x" * 100_000],
            "none": pa.array([None], pa.date32()),
        }
    )


def create_hostile(parent: Path) -> Path:
    """A table of three files in one partition, and two files outside its log."""
    place = parent / PLACE
    rows = odd_rows().select(["last_day", "nan"])
    rows = rows.append_column(NAME, pa.array([TEXT])).append_column("p", pa.array([TEXT]))
    properties = {TEXT: TEXT, "delta.deletedFileRetentionDuration": "0 days"}
    for number in range(3):
        da.write(
            place,
            rows,
            partition_by=["p"],
            configuration=None if number else properties,
            user_metadata=TEXT,
        )
    for name in (f"orphan{TEXT.replace('/', '')}".encode(), b"orphan\xff\x1b[2J"):
        orphan = os.fsencode(place) + b"/" + name
        with open(orphan, "wb"):
            os.utime(orphan, (0, 0))
    return place
