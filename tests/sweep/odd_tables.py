"""Valid tables of odd shapes: without rows, without files, with extreme values or odd names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import ddl, maintenance
from delta_ops.protocol.schema.arrow_types import schema_from_arrow
from tests.arrow.foreign_table import create, data_file, inline_vector, stats
from tests.sweep.hostile_tables import actions_of, log_file

Build = Callable[[Path], None]
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A table of one shape."""

    build: Build
    """Creates the table in a folder."""
    rows: pa.Table
    """Its rows, in any order."""


def _written(rows: pa.Table, *, model: pa.Table | None = None, **options: Any) -> Shape:
    def build(root: Path) -> None:
        da.write(root, rows, **options)

    return Shape(build=build, rows=rows if model is None else model)


def _steps(rows: pa.Table, *steps: Build) -> Shape:
    def build(root: Path) -> None:
        for step in steps:
            step(root)

    return Shape(build=build, rows=rows)


def set_commit(root: Path, version: int, actions: Iterable[Mapping[str, Any]]) -> None:
    log_file(root, f"{version:020}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))
    log_file(root, f"{version:020}.crc").unlink(missing_ok=True)


def _without_statistics(root: Path) -> None:
    """Remove what other writers may leave out."""
    for version in range(len(list((root / "_delta_log").glob("*.json")))):
        actions = actions_of(root, version)
        for action in actions:
            if "add" in action:
                action["add"].pop("stats", None)
                action["add"].pop("tags", None)
        set_commit(root, version, actions)


def _foreign(*files: pa.Table, rows: pa.Table, model: pa.Table, **fields: Any) -> Shape:
    """A table with files of another writer; `rows` has the columns of the table."""
    options = fields.pop("options", {})

    def build(root: Path) -> None:
        adds = [
            data_file(root, f"{number}.parquet", each, options=options, **fields)
            for number, each in enumerate(files)
        ]
        create(root, schema_from_arrow(rows.schema), adds, DV)

    return Shape(build=build, rows=model)


def _only_checkpoint(root: Path) -> None:
    maintenance.create_checkpoint(root)
    for place in (root / "_delta_log").glob("*"):
        if place.suffix == ".crc" or (place.suffix == ".json" and place.stem.isdigit()):
            place.unlink()


def _write(rows: pa.Table, **options: Any) -> Build:
    def build(root: Path) -> None:
        da.write(root, rows, **options)

    return build


ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "p": ["a", "b", None, "b"],
        "s": pa.array([{"x": 1, "t": "u"}, None, {"x": None, "t": None}, {"x": 4, "t": "v"}]),
    }
)
DV = {"delta.enableDeletionVectors": "true"}
CDF = {"delta.enableChangeDataFeed": "true"}
MAPPING = {"delta.columnMapping.mode": "name"}
ODD_TEXTS = [
    *(None, " ", "  a", "a ", "/", "a/b", "a=b", "%", "%2F", "%25", "é", "e\u0301", "'", '"', "\\"),
    *("\n", "\t", "{x}", "#?&", "..", ".", "_x", "a:b", "\U0001f600", "*", "null", "NULL", "\x7f"),
]
NUMBERS = pa.table(
    {
        "id": pa.array([*range(8)], pa.int32()),
        "d": [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, None, 5e-324, 1.7e308],
        "f": pa.array(
            [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, None, 1e-45, 3e38], pa.float32()
        ),
    }
)
DECIMALS = pa.table(
    {
        "id": pa.array([0, 1, 2, 3], pa.int32()),
        "whole": pa.array(
            [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0), None], pa.decimal128(38, 0)
        ),
        "part": pa.array(
            [
                Decimal("0." + "9" * 38),
                Decimal("-0." + "9" * 38),
                Decimal("0." + "0" * 37 + "1"),
                None,
            ],
            pa.decimal128(38, 38),
        ),
        "both": pa.array(
            [Decimal("9" * 28 + ".0123456789"), Decimal("-1.5"), Decimal("1E-10"), None],
            pa.decimal128(38, 10),
        ),
        "one": pa.array([Decimal(9), Decimal(-9), Decimal(0), None], pa.decimal128(1, 0)),
    }
)
BYTES = pa.table(
    {
        "id": pa.array([*range(6)], pa.int32()),
        "b": [b"", b"\0", b"\xff" * 40, b"a" * 100_000, None, b"\x00\xff'"],
    }
)
TEXTS = pa.table(
    {
        "id": pa.array([*range(9)], pa.int32()),
        "t": [
            *("", "x" * 100_000, "x" * 32, "x" * 33, "\U0010ffff" * 40, "\ud7ff" * 40, None),
            *("a" * 31 + "\U0001f600" + "b", "\x00\x01\n"),
        ],
    }
)
_EARLY = [
    date(1, 1, 1),
    date(1582, 10, 4),
    date(1582, 10, 15),
    date(1969, 12, 31),
    date(9999, 12, 31),
]
_TIMES = [
    *(datetime(1, 1, 1), datetime(1582, 10, 4, 23, 59, 59, 999_999), datetime(1900, 1, 1, 0, 0, 1)),
    *(datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(9999, 12, 31, 23, 59, 59, 999_999)),
]
DATES = pa.table(
    {
        "id": pa.array([*range(6)], pa.int32()),
        "day": pa.array([*_EARLY, None], pa.date32()),
        "local": pa.array([*_TIMES, None], pa.timestamp("us")),
        "at": pa.array([*(t.replace(tzinfo=UTC) for t in _TIMES), None], pa.timestamp("us", "UTC")),
    }
)
INTEGERS = pa.table(
    {
        "i8": pa.array([-(2**7), 2**7 - 1, 0, None], pa.int8()),
        "i16": pa.array([-(2**15), 2**15 - 1, 0, None], pa.int16()),
        "i32": pa.array([-(2**31), 2**31 - 1, 0, None], pa.int32()),
        "i64": pa.array([-(2**63), 2**63 - 1, 2**53 + 1, None], pa.int64()),
        "yes": [True, False, True, None],
    }
)
NESTED = pa.table(
    {
        "s": pa.array([{"a": {"b": 1}}, {"a": {"b": None}}, {"a": None}, None, {"a": {"b": 9}}]),
        "l": pa.array([[1, None], [], None, [2], [None]], pa.list_(pa.int64())),
        "m": pa.array(
            [[("k", 1)], [], None, [("a", None), ("b", 2)], [("", 0)]],
            pa.map_(pa.string(), pa.int64()),
        ),
        "ls": pa.array(
            [[{"x": 1}], [None], [], None, [{"x": None}]], pa.list_(pa.struct({"x": pa.int64()}))
        ),
    }
)
ODD_NAMES = pa.table(
    {
        "a.b": [1, 2, None],
        "a": pa.array([{"b": 5, "c.d": 1}, None, {"b": None, "c.d": None}]),
        "select": ["x", None, "y"],
        "ü": [1, 2, 3],
        "back`tick": [1.0, None, 3.0],
        "_": [True, False, None],
        "quote'\"": ["q", "r", None],
        "col": [1, 1, 1],
        "path": ["p", "q", "r"],
        "%20": [1, 2, 3],
    }
)
BLANK_NAMES = pa.table(
    {" ": [1, 2, None], "a b": ["x", None, "y"], "c,d;{}()=\t": [1, 2, 3], "\u3000": [1, 2, 3]}
)
ONE = pa.table({"id": pa.array([7], pa.int64()), "p": ["a"]})
NULLS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "n": pa.nulls(2, pa.int64()),
        "t": pa.nulls(2, pa.string()),
        "s": pa.nulls(2, pa.struct({"x": pa.int32()})),
    }
)
VOID = pa.table({"id": pa.array([1, 2], pa.int64()), "v": pa.nulls(2)})
PARTITIONED = pa.table(
    {
        "id": pa.array([*range(len(ODD_TEXTS))], pa.int64()),
        "p": pa.array(ODD_TEXTS, pa.string()),
    }
)
_EMPTY_TEXT = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["", None, "x"]})
_DAYS = pa.table(
    {"day": DATES["day"], "local": DATES["local"], "at": DATES["at"], "id": DATES["id"]}
)


def _partitioned_by(rows: pa.Table, *names: str) -> Shape:
    return _written(rows, partition_by=list(names))


def _renamed(root: Path) -> None:
    rows = pa.table({"old": [1, 2], "gone": ["x", "y"], "s": pa.array([{"f": 1}, {"f": None}])})
    da.write(root, rows)
    ddl.set_properties(root, MAPPING)
    ddl.rename_column(root, "old", "new")
    ddl.rename_column(root, "s.f", "g")
    ddl.drop_columns(root, ["gone"])
    ddl.add_columns(root, [ddl.NewColumn(name="gone", data_type="int")])
    ddl.add_columns(root, [ddl.NewColumn(name="old", data_type="string")])


RENAMED = pa.table(
    {
        "new": [1, 2],
        "s": pa.array([{"g": 1}, {"g": None}]),
        "gone": pa.nulls(2, pa.int32()),
        "old": pa.nulls(2, pa.string()),
    }
)


def _created(schema: pa.Schema, **options: Any) -> Shape:
    def build(root: Path) -> None:
        ddl.create_table(root, schema, **options)

    return Shape(build=build, rows=schema.empty_table())


def _delete_one_and_null(root: Path) -> None:
    da.delete(root, "id = 1")
    da.delete(root, "id IS NULL")


def _delete(root: Path) -> None:
    da.delete(root)


def _delete_by_rows(root: Path) -> None:
    """Delete all rows, in ways that leave files with vectors or rewrite them."""
    da.delete(root, "id IS NULL OR id > 1")
    da.delete(root, "id = 1")


_NONE = ROWS.slice(0, 0)
_FOUR = stats(numRecords=4, tightBounds=False)
FOREIGN: Mapping[str, Shape] = {
    "files of no row": _foreign(_NONE, rows=ROWS, model=_NONE, stats=stats(numRecords=0)),
    "files of no row without statistics": _foreign(_NONE, ROWS, _NONE, rows=ROWS, model=ROWS),
    "vectors of all rows": _foreign(
        ROWS, ROWS, rows=ROWS, model=_NONE, deletion_vector=inline_vector(range(4)), stats=_FOUR
    ),
    "vectors of no row": _foreign(
        ROWS, rows=ROWS, model=ROWS, deletion_vector=inline_vector([]), stats=_FOUR
    ),
    "vectors of some rows": _foreign(
        ROWS, rows=ROWS, model=ROWS.slice(1, 2), deletion_vector=inline_vector([0, 3]), stats=_FOUR
    ),
    "files without columns": _foreign(
        ROWS.select(["p"]),
        ROWS.select(["s"]),
        rows=ROWS,
        model=pa.concat_tables([ROWS.select(["p"]), ROWS.select(["s"])], promote_options="default")
        .select(["p", "s"])
        .add_column(0, "id", pa.nulls(8, pa.int64())),
    ),
    "files with more columns in another order": _foreign(
        ROWS.append_column("more", ROWS["id"]).select(["s", "more", "p", "id"]),
        rows=ROWS,
        model=ROWS,
    ),
    "files of small row groups": _foreign(
        ROWS, rows=ROWS, model=ROWS, options={"row_group_size": 1, "data_page_version": "2.0"}
    ),
    "files without footer statistics": _foreign(
        ROWS, rows=ROWS, model=ROWS, options={"write_statistics": False}
    ),
    "statistics of nulls": _foreign(
        NULLS,
        rows=NULLS,
        model=NULLS,
        stats=stats(numRecords=2, nullCount={"id": 0, "n": 2, "t": 2}, minValues={"id": 1}),
    ),
    "times as INT96": _foreign(
        DATES.select(["id", "at"]).slice(2),
        rows=DATES.select(["id", "at"]),
        model=DATES.select(["id", "at"]).slice(2),
        options={"use_deprecated_int96_timestamps": True},
    ),
}


SHAPES: Mapping[str, Shape] = {
    "plain": _written(ROWS),
    "created empty": _created(ROWS.schema),
    "created empty, partitioned": _created(ROWS.schema, partition_by=["p"]),
    "created empty, clustered": _created(ROWS.schema, cluster_by=["id"]),
    "created empty, sorted": _created(ROWS.schema, properties={"delta_ops.sortKey": "id"}),
    "an empty write": _written(ROWS.slice(0, 0)),
    "an empty write, partitioned": _written(ROWS.slice(0, 0), partition_by=["p"]),
    "all rows deleted": _steps(ROWS.slice(0, 0), _write(ROWS), _delete),
    "all rows deleted, partitioned": _steps(
        ROWS.slice(0, 0), _write(ROWS, partition_by=["p"]), _delete
    ),
    "all rows deleted by vectors": _steps(
        ROWS.slice(0, 0), _write(ROWS, configuration=DV), _delete_by_rows
    ),
    "some rows deleted by vectors": _steps(
        ROWS.slice(1, 2),
        _write(ROWS, configuration=DV),
        _delete_one_and_null,
    ),
    "one row": _written(ONE),
    "only null": _written(NULLS),
    "void": _written(VOID),
    "odd partition values": _partitioned_by(PARTITIONED, "p"),
    "an empty text as partition": _written(
        _EMPTY_TEXT,
        model=_EMPTY_TEXT.set_column(1, "p", pa.array([None, None, "x"])),
        partition_by=["p"],
    ),
    "partitions of dates": _partitioned_by(_DAYS, "day"),
    "partitions of times": _partitioned_by(_DAYS, "at", "local"),
    "partitions of numbers": _partitioned_by(NUMBERS.slice(4), "d", "f"),
    "partitions of decimals": _partitioned_by(DECIMALS, "whole", "part", "both", "one"),
    "partitions of integers": _partitioned_by(INTEGERS, "i64", "i8", "yes"),
    "partitions of bytes": _partitioned_by(BYTES.take([1, 4]), "b"),
    "no statistics": _steps(ROWS, _write(ROWS), _without_statistics),
    "no statistics, partitioned": _steps(
        ROWS, _write(ROWS, partition_by=["p"]), _without_statistics
    ),
    "some statistics": _steps(
        pa.concat_tables([ROWS, ROWS]), _write(ROWS), _without_statistics, _write(ROWS)
    ),
    **FOREIGN,
    "renamed columns": Shape(build=_renamed, rows=RENAMED),
    "renamed columns, no row": _steps(RENAMED.slice(0, 0), _renamed, _delete),
    "nested only": _written(NESTED),
    "numbers": _written(NUMBERS),
    "decimals": _written(DECIMALS),
    "bytes": _written(BYTES),
    "texts": _written(TEXTS),
    "dates": _written(DATES),
    "integers": _written(INTEGERS),
    "odd names": _written(ODD_NAMES, configuration=MAPPING),
    "blank names": _written(BLANK_NAMES, configuration=MAPPING),
    "odd names, partitioned": _written(
        ODD_NAMES, partition_by=["`a.b`", "ü"], configuration=MAPPING
    ),
    "only a checkpoint": _steps(ROWS, _write(ROWS), _only_checkpoint),
    "only a checkpoint, no row": _steps(ROWS.slice(0, 0), _write(ROWS), _delete, _only_checkpoint),
    "only a V2 checkpoint": _steps(
        ROWS, _write(ROWS, configuration={"delta.checkpointPolicy": "v2"}), _only_checkpoint
    ),
    "change feed, no row": _steps(ROWS.slice(0, 0), _write(ROWS, configuration=CDF), _delete),
    "change feed": _written(ROWS, configuration=CDF),
    "row tracking, no row": _steps(
        ROWS.slice(0, 0),
        _write(ROWS, configuration={"delta.enableRowTracking": "true"}),
        _delete,
    ),
    "row tracking": _written(ROWS, configuration={"delta.enableRowTracking": "true"}),
    "no indexed column": _written(ROWS, configuration={"delta.dataSkippingNumIndexedCols": "0"}),
}


def copy_of(table: Path, parent: Path) -> Path:
    """A copy of a table in a folder of its own."""
    shutil.rmtree(parent, ignore_errors=True)
    return Path(shutil.copytree(table, parent / "t"))
