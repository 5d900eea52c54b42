"""Users' values for columns of every type, and values that no column can keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError
from delta_ops.transaction.merge import Merge

NOON = datetime(2026, 1, 31, 12, 0, 0, 1)
PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", PAIR),
        ("l", pa.list_(pa.int64())),
        ("m", pa.map_(pa.int64(), pa.string())),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("text", pa.string()),
        ("state", pa.string()),
        ("kind", pa.string()),
        ("day", pa.date32()),
        ("local", pa.timestamp("us")),
        (
            "deep",
            pa.list_(
                pa.map_(
                    pa.string(),
                    pa.struct(
                        [
                            ("flag", pa.bool_()),
                            ("tiny", pa.int8()),
                            ("f", pa.float32()),
                            ("d", pa.float64()),
                            ("price", pa.decimal128(38, 18)),
                            ("bytes", pa.binary()),
                            ("day", pa.date32()),
                            ("at", pa.timestamp("us", "UTC")),
                            ("local", pa.timestamp("us")),
                            ("texts", pa.list_(pa.string())),
                            ("none", pa.map_(pa.date32(), pa.int16())),
                        ]
                    ),
                )
            ),
        ),
    ]
)


class State(str, Enum):  # noqa: UP042  # as users have it
    """Texts with another string form."""

    NEW = "new"
    ID = '"id" + 1'


DEEP = {
    "flag": True,
    "tiny": -128,
    "f": 0.1,
    "d": 5e-324,
    "price": Decimal("-12345678901234567890.123456789012345678"),
    "bytes": b"\x00\xff",
    "day": date(1, 1, 1),
    "at": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "local": NOON,
    "texts": ["", 'a "b" \\ \n \x00 ü \U0001f600', None],
    "none": None,
}
READ_DEEP = {**DEEP, "f": pa.scalar(0.1, pa.float32()).as_py()}

KEPT: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "a struct whose names have another case": (
        {"s": {"A": 5, "B": "y"}},
        {"s": {"a": 5, "b": "y"}},
    ),
    "numbers that are whole": ({"l": [1.0, None, 2]}, {"l": [1, None, 2]}),
    "a map with keys of another type": ({"m": {Decimal(1): State.NEW}}, {"m": [(1, "new")]}),
    "decimals of floating-point columns": (
        {"f": 0.1, "d": Decimal("0.1")},
        {"f": READ_DEEP["f"], "d": 0.1},
    ),
    "a time of pandas": ({"local": pd.Timestamp(NOON)}, {"local": NOON}),
    "a scalar of Arrow": ({"text": pa.scalar("id")}, {"text": "id"}),
    "a member of an Enum that is a text": ({"state": State.ID}, {"state": '"id" + 1'}),
    "a text of NumPy": ({"kind": np.str_("it's ${x}")}, {"kind": "it's ${x}"}),
    "values of every type, deep down": (
        {"deep": [{"k": DEEP, "": None}, None, {}]},
        {"deep": [[("k", READ_DEEP), ("", None)], None, []]},
    ),
}
"""The given value, and the value read back."""

REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a struct that lacks a field": ({"s": {"a": 5}}, "column s .*lacks the field 'b'"),
    "an unknown field": ({"s": {"a": 5, "b": "y", "c": 1}}, "column s .*no field 'c'"),
    "an element with a fraction": ({"l": [1.0, 2.5]}, "column l.element of type long.* 2.5 "),
    "a key with a fraction": ({"m": {1.5: "x"}}, "column m.key of type long.* 1.5 of type float"),
    "bytes for a text": ({"m": {1: b"x"}}, "column m.value of type string.*b'x' of type bytes"),
    "a time for a date": ({"day": NOON}, "column day of type date.* of type datetime"),
    "a double too large for a float": ({"f": 1e300}, "column f of type float"),
    "a double too small for a float": ({"f": 1e-60}, "column f of type float"),
    "an integer between floats": (
        {"f": 2**24 + 1},
        "column f of type float.* 16777217 of",
    ),
    "an integer between doubles": ({"d": 2**53 + 1}, "column d of type double"),
    "a member of an Enum for a number": (
        {"f": State.NEW},
        "column f of type float.* of type State",
    ),
    "nanoseconds": ({"local": pd.Timestamp(1, unit="ns")}, "column local .*microsec"),
}


def make_table(root: Path) -> Path:
    """A table with one row."""
    row = {"id": 1, "s": {"a": 1, "b": "x"}, "l": [0]}
    da.write(root, pa.Table.from_pylist([row], SCHEMA))
    return root


def read_row(root: Path, number: int) -> dict[str, Any]:
    """The row with an id."""
    rows = da.to_table(root).to_pylist()
    return next(row for row in rows if row["id"] == number)


Give = Callable[[Path, Mapping[str, Any]], object]
"""Sets values in a row of a table."""
Clause = Callable[[Merge, Mapping[str, Any]], object]
"""Sets values by a merge clause, and runs the merge."""


def keeps_values(give: Give, root: Path, number: int, names: Iterable[str] = KEPT) -> None:
    """Assert that each value is read back as given.

    Args:
        number: The id of the row that gets them.
        names: Keys of `KEPT`; their values are set together.
    """
    data, stored = ({k: v for name in names for k, v in KEPT[name][i].items()} for i in (0, 1))
    give(make_table(root), data)
    row = read_row(root, number)
    assert {name: row[name] for name in stored} == stored


def refuses_values(give: Give, root: Path) -> None:
    """Assert that each value is rejected, and nothing is written."""
    make_table(root)
    before = sorted(each for each in root.rglob("*") if each.is_file())
    for data, reported in REFUSED.values():
        with pytest.raises(InvalidRequestError, match=reported) as refused:
            give(root, data)
        assert "\n" not in str(refused.value)
    assert sorted(each for each in root.rglob("*") if each.is_file()) == before


def update_matched(merge: Merge, argument: Mapping[str, Any]) -> object:
    """Set values in matched rows."""
    return merge.when_matched_update(argument).execute()


def update_others(merge: Merge, argument: Mapping[str, Any]) -> object:
    """Set values in rows that the source does not match."""
    return merge.when_not_matched_by_source_update(argument).execute()


def insert(merge: Merge, argument: Mapping[str, Any]) -> object:
    """Set values in an inserted row."""
    return merge.when_not_matched_insert({"id": 2, **argument}).execute()
