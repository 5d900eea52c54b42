"""Type handlers: convert a Python value to rows of a table, and a table to a value.

The class of an output or the annotation of an input chooses the handler: the nearest class in
Python's method resolution order. `Optional[X]` is X, or None if there is no table yet. An input
without an annotation is a `Snapshot`, which holds no rows. Any other output with
`__arrow_c_stream__` is Arrow data.

Built-in handlers: Arrow, Spark, pandas, polars, and the table itself as `Snapshot` and `DeltaLog`.
A handler names its class by text if the package of the class must not be imported.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

import pyarrow as pa

from delta_ops import arrow
from delta_ops.arrow import arrow_data
from delta_ops.arrow.unsigned import signed_fields
from delta_ops.error_texts import class_name
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration.io_manager.frames import (
    pandas_of_table,
    scan_table,
    table_of_pandas,
    table_of_polars,
)
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.arrow_types import columns_from_arrow


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """The table version, columns and rows that an input reads."""

    log: DeltaLog
    snapshot: Snapshot
    """The snapshot at the version that Dagster records as provenance."""
    columns: Sequence[str] | None
    """Columns to read; None: all columns."""
    predicate: Predicate | None
    """Matches the rows to read; None: all rows."""
    spark_session: Callable[[], Any]
    """Returns the Spark session of the IO manager; raises an error without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeHandler:
    """How values of one class are written and read.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Ids:
        ...     ids: list[int]
        >>> handler = TypeHandler(
        ...     python_type=Ids,
        ...     to_rows=lambda value: pa.table({"id": value.ids}),
        ...     from_table=lambda read: Ids(da.to_table(read.snapshot)["id"].to_pylist()),
        ... )
    """

    python_type: type | str
    """The class, or its public name such as "polars.DataFrame", which requires no import."""
    to_rows: Callable[[Any], Any] | None = None
    """Converts a value to Arrow data (a table, batch or reader) or to a Spark DataFrame. The IO
    manager writes Spark DataFrames with Spark and other data with Arrow. None: the class is not
    supported for outputs."""
    from_table: Callable[[TableRead], Any] | None = None
    """Converts a table to a value; None: the class is not supported for inputs."""

    @property
    def name(self) -> str:
        """The public name of the class."""
        return (
            self.python_type if isinstance(self.python_type, str) else class_name(self.python_type)
        )


def register_type_handler(handler: TypeHandler) -> None:
    """Support a class for outputs and inputs of assets, or replace the handler of a class.

    Call this function in the module of your `Definitions`, which every step process imports.

    Raises:
        InvalidRequestError: The handler is incomplete.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Names:
        ...     first: list[str]
        >>> def rows_of(names: Names) -> pa.Table:
        ...     return pa.table({"first": names.first})
        >>> register_type_handler(TypeHandler(python_type=Names, to_rows=rows_of))
        >>> @dg.asset
        ... def names() -> Names:
        ...     return Names(["Ada", "Bo"])
        >>> resources = {"io_manager": DeltaIOManager(root="lake")}
        >>> dg.materialize([names], resources=resources).success, da.count_rows("lake/names")
        (True, 2)
    """
    is_name = isinstance(handler.python_type, str)
    if is_name and not all(str(handler.python_type).rpartition(".")[::2]):
        raise InvalidRequestError(
            f"the type handler's python_type is {handler.python_type!r}; give a class, or the "
            'name of one with its package, such as "polars.DataFrame"'
        )
    if not is_name and not isinstance(handler.python_type, type):
        raise InvalidRequestError(
            f"the type handler's python_type is {handler.python_type!r}; give a class or its name"
        )
    if handler.to_rows is None and handler.from_table is None:
        raise InvalidRequestError(
            f"the type handler of {handler.name} neither writes nor reads; give to_rows, "
            "from_table or both"
        )
    handlers_by_name.pop(handler.name, None)
    handlers_by_name[handler.name] = handler


def rows_of(value: Any) -> Any:
    """Convert an output to a Spark DataFrame, or to Arrow data with a schema.

    Raises:
        InvalidRequestError: No handler supports the output.
    """
    handler = _find_handler(type(value))
    if handler is not None and handler.to_rows is not None:
        value = handler.to_rows(value)
    if is_spark_data(value) or isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return value
    if hasattr(value, "__arrow_c_stream__"):
        return arrow_data.reader_of(value)
    known = ", ".join(each.name for each in handlers_by_name.values() if each.to_rows)
    raise InvalidRequestError(
        f"a value of type {class_name(type(value))} cannot be written as rows; return one of "
        f"{known} or anything with __arrow_c_stream__, or add a handler for the type with "
        "register_type_handler"
    )


def has_handler(python_type: type) -> bool:
    """Whether a value of the class can be written as rows."""
    handler = _find_handler(python_type)
    is_stream = hasattr(python_type, "__arrow_c_stream__")
    return (
        (handler is not None and handler.to_rows is not None)
        or is_spark_type(python_type)
        or is_stream
    )


def schema_of_rows(rows: Any) -> StructType:
    """The table schema for rows from `rows_of`."""
    if is_spark_data(rows):
        from delta_ops.spark.schema import schema_from_spark

        return schema_from_spark(rows.schema)
    return columns_from_arrow(pa.schema(signed_fields(rows.schema, rows)))


def value_of_table(wanted: Any, read: TableRead) -> Any:
    """Convert a table to the annotated type; to a `Snapshot` without an annotation.

    Raises:
        InvalidRequestError: No handler supports the annotated type.
    """
    wanted = drop_none(wanted)
    if wanted in (Any, object):
        return read.snapshot
    handler = _find_handler(wanted) if isinstance(wanted, type) else None
    if handler is None or handler.from_table is None:
        known = ", ".join(each.name for each in handlers_by_name.values() if each.from_table)
        shown = class_name(wanted) if isinstance(wanted, type) else str(wanted)
        raise InvalidRequestError(
            f"{read.log.uri}: an input cannot be annotated with {shown}; choose one of {known}, "
            "dict[str, ...] of one of them for the rows by partition, leave the annotation out for "
            "a Snapshot, or add a handler for the type with register_type_handler"
        )
    return handler.from_table(read)


def takes_none(annotation: Any) -> bool:
    """Whether an annotation allows None."""
    return type(None) in get_args(annotation) or annotation in (None, type(None))


def holds_rows(annotation: Any) -> bool:
    """Whether a value of the annotated type has rows. A handle of the table has none."""
    wanted = drop_none(annotation)
    handles = (Snapshot, DeltaLog)
    return wanted not in (Any, object) and not (isinstance(wanted, type) and wanted in handles)


def is_spark_data(value: Any) -> bool:
    """Whether a value is a Spark DataFrame, classic or Connect; does not import pyspark."""
    return is_spark_type(type(value))


def is_spark_type(python_type: type) -> bool:
    """Whether a class is a Spark DataFrame, classic or Connect; does not import pyspark."""
    return any(
        base.__name__ == "DataFrame" and base.__module__.startswith("pyspark.sql")
        for base in python_type.__mro__
    )


def drop_none(annotation: Any) -> Any:
    """The annotation `X` of `Optional[X]`; any other annotation stays."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    others = [each for each in get_args(annotation) if each is not type(None)]
    return others[0] if len(others) == 1 else annotation


def _find_handler(wanted: type) -> TypeHandler | None:
    by_class = {_class_of(each): each for each in handlers_by_name.values()}
    return next((by_class[base] for base in wanted.__mro__ if base in by_class), None)


def _class_of(handler: TypeHandler) -> type | None:
    """The class; None if its package is not imported, so no value of the class exists."""
    if isinstance(handler.python_type, type):
        return handler.python_type
    package, _, name = handler.python_type.rpartition(".")
    return getattr(sys.modules.get(package), name, None)


def _arrow_table(read: TableRead) -> pa.Table:
    return arrow.to_table(read.snapshot, read.columns, read.predicate)


def _arrow_reader(read: TableRead) -> pa.RecordBatchReader:
    return _open_reader(read.snapshot, read.columns, read.predicate)


def _open_reader(
    snapshot: Snapshot, columns: Sequence[str] | None = None, predicate: Predicate | None = None
) -> pa.RecordBatchReader:
    from delta_ops.arrow.read.scan import open_reader  # most code locations read no rows

    return open_reader(snapshot, columns, predicate)


def _arrow_dataset(read: TableRead) -> Any:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(_arrow_table(read))


def _reader_of_dataset(dataset: Any) -> pa.RecordBatchReader:
    return dataset.scanner().to_reader()


def _spark_frame(read: TableRead) -> Any:
    session = read.spark_session()
    from delta_ops.spark import read as read_by_spark

    return read_by_spark(session, read.snapshot, read.columns, read.predicate)


def _polars_frame(read: TableRead) -> Any:
    import polars as pl

    return pl.from_arrow(_arrow_table(read))


def _initial_handlers() -> Iterator[TypeHandler]:
    yield TypeHandler(python_type="pyarrow.Table", to_rows=_itself, from_table=_arrow_table)
    yield TypeHandler(
        python_type="pyarrow.RecordBatchReader", to_rows=_itself, from_table=_arrow_reader
    )
    yield TypeHandler(python_type="pyarrow.RecordBatch", to_rows=_itself)
    yield TypeHandler(
        python_type="pyarrow.dataset.Dataset",
        to_rows=_reader_of_dataset,
        from_table=_arrow_dataset,
    )
    yield TypeHandler(python_type="pyspark.sql.DataFrame", to_rows=_itself, from_table=_spark_frame)
    yield TypeHandler(
        python_type="pandas.DataFrame",
        to_rows=table_of_pandas,
        from_table=lambda read: pandas_of_table(_arrow_table(read)),
    )
    yield TypeHandler(
        python_type="polars.DataFrame",
        to_rows=table_of_polars,
        from_table=_polars_frame,
    )
    yield TypeHandler(
        python_type="polars.LazyFrame",
        to_rows=lambda frame: table_of_polars(frame.collect()),
        from_table=lambda read: scan_table(read.snapshot, read.columns, read.predicate),
    )
    # For outputs these are rows of another table; the asset's own table needs no write.
    yield TypeHandler(
        python_type=Snapshot,
        to_rows=_open_reader,
        from_table=lambda read: read.snapshot,
    )
    yield TypeHandler(
        python_type=DeltaLog,
        to_rows=lambda log: _open_reader(log.snapshot()),
        from_table=lambda read: read.log,
    )


def _itself(value: Any) -> Any:
    return value


handlers_by_name: dict[str, TypeHandler] = {each.name: each for each in _initial_handlers()}
"""Handlers by class name; the last registered handler of a class applies."""
