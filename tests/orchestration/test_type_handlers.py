"""Values of Python types as tables and back, through real runs; Spark's are in `tests/spark`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot
from delta_ops.error_texts import class_name
from delta_ops.errors import InvalidRequestError, TableNotFoundError
from delta_ops.orchestration import (
    DeltaIOManager,
    SourcePart,
    TableRead,
    TypeHandler,
    register_type_handler,
)
from delta_ops.orchestration.io_manager import type_handlers as registry
from tests.support.column_less import create_without_columns
from tests.support.tables import rows

BIG = 2**53 + 1
DATA = pa.table({"id": pa.array([1, None, BIG], pa.int64()), "name": ["a", "b", None]})
DAYS = dg.StaticPartitionsDefinition(["1", "2"])


def run(
    instance: dg.DagsterInstance, root: Path, *assets: Any, **settings: Any
) -> dg.ExecuteInProcessResult:
    """The assets materialized with the IO manager as the default of a `Definitions`."""
    definitions = dg.Definitions(
        assets=list(assets), resources={"io_manager": DeltaIOManager(root=str(root))}
    )
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, **settings)


def returned(value: Any, annotation: Any, **settings: Any) -> Any:
    """An asset that returns the value."""

    def numbers() -> Any:
        return value() if callable(value) else value

    numbers.__annotations__["return"] = annotation
    return dg.asset(**settings)(numbers)


def taken(annotation: Any, found: list[Any], **settings: Any) -> Any:
    """An asset that takes `numbers` and keeps the value."""

    def follower(numbers: Any) -> None:
        found.append(numbers.read_all() if isinstance(numbers, pa.RecordBatchReader) else numbers)

    follower.__annotations__["numbers"] = annotation
    return dg.asset(**settings)(follower)


def as_it_is(table: pa.Table) -> pa.Table:
    return table


@pytest.mark.some_cases(3)
@pytest.mark.parametrize(
    ("annotation", "value", "read_as", "to_arrow"),
    [
        pytest.param(pa.Table, DATA, pa.Table, as_it_is, id="a table"),
        pytest.param(
            Optional[pa.Table],  # noqa: UP045
            DATA,
            Optional[pa.Table],  # noqa: UP045
            as_it_is,
            id="a table or None",
        ),
        pytest.param(
            pa.Table | None, DATA, DeltaLog, da.to_table, id="a table or None by a bar, a log"
        ),
        pytest.param(
            pa.RecordBatchReader, DATA.to_reader, pa.RecordBatchReader, as_it_is, id="a reader"
        ),
        pytest.param(
            pa.RecordBatch, DATA.to_batches()[0], Snapshot, da.to_table, id="a batch, a snapshot"
        ),
        pytest.param(
            pyarrow.dataset.Dataset,
            lambda: pyarrow.dataset.dataset(DATA),
            pyarrow.dataset.Dataset,
            lambda each: each.to_table(),
            id="a dataset",
        ),
        pytest.param(
            pd.DataFrame,
            lambda: DATA.to_pandas(integer_object_nulls=True).astype({"id": "Int64"}),
            pd.DataFrame,
            pa.Table.from_pandas,
            id="pandas",
        ),
        pytest.param(
            pl.DataFrame,
            lambda: pl.from_arrow(DATA),
            pl.DataFrame,
            lambda frame: frame.to_arrow(),
            id="polars",
        ),
        pytest.param(
            pl.LazyFrame,
            lambda: pl.DataFrame(DATA).lazy(),
            pl.LazyFrame,
            lambda frame: frame.collect().to_arrow(),
            id="lazy polars",
        ),
        pytest.param(
            Any,
            lambda: pl.DataFrame(DATA),
            Optional[DeltaLog],  # noqa: UP045
            da.to_table,
            id="polars without an annotation, a log or None",
        ),
    ],
)
def test_a_value_is_written_and_an_input_is_what_its_annotation_says(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    annotation: Any,
    value: Any,
    read_as: Any,
    to_arrow: Callable[[Any], pa.Table],
) -> None:
    found: list[Any] = []
    assert run(instance, tmp_path, returned(value, annotation), taken(read_as, found)).success
    assert rows(da.to_table(DeltaLog(tmp_path / "numbers"))) == rows(DATA)
    assert sorted(map(repr, rows(to_arrow(found[0])))) == sorted(map(repr, rows(DATA)))


@pytest.mark.parametrize(
    "annotation",
    [
        pa.Table,
        pa.RecordBatchReader,
        pd.DataFrame,
        pytest.param(
            pl.DataFrame,
            marks=pytest.mark.skipif(
                pl.__version__.startswith("1."), reason="polars 1 has no rows without columns"
            ),
        ),
    ],
)
def test_an_input_may_be_a_table_without_columns(
    tmp_path: Path, instance: dg.DagsterInstance, annotation: Any
) -> None:
    create_without_columns(tmp_path / "numbers", 3)
    found: list[Any] = []
    follower = taken(annotation, found, ins={"numbers": dg.AssetIn()})
    assert run(instance, tmp_path, follower, dg.AssetSpec("numbers")).success
    assert len(found[0]) == 3


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("annotation", [pa.RecordBatchReader, pd.DataFrame, pl.DataFrame])
def test_an_input_has_the_requested_partition_and_columns(
    tmp_path: Path, instance: dg.DagsterInstance, annotation: Any
) -> None:
    found: list[Any] = []

    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def numbers(context: dg.AssetExecutionContext) -> pl.DataFrame:
        return pl.DataFrame({"day": [context.partition_key], "x": [int(context.partition_key)]})

    follower = taken(
        annotation,
        found,
        partitions_def=DAYS,
        ins={"numbers": dg.AssetIn(metadata={"columns": ["x"]})},
    )
    for key in ("1", "2"):
        assert run(instance, tmp_path, numbers, follower, partition_key=key).success
    tables = [pa.table(value).select(["x"]) for value in found]
    assert [table.to_pydict() for table in tables] == [{"x": [1]}, {"x": [2]}]
    assert all(len(each.columns) == 1 for each in found)


def test_whole_numbers_with_nulls_are_not_rounded_by_pandas(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    found: list[Any] = []
    run(instance, tmp_path, returned(DATA, pa.Table), taken(pd.DataFrame, found))
    (frame,) = found
    assert frame["id"].tolist()[2] == BIG
    assert str(frame["id"].dtype) == "Int64"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        pytest.param(
            pd.DataFrame({"x": [1]}, pd.MultiIndex.from_tuples([(1, 2)])),
            "the index of a pandas frame has several levels and none has a name",
            id="levels without names",
        ),
        pytest.param(
            pd.DataFrame({"x": [1]}, pd.Index([1], name="x")),
            "the index of a pandas frame has the levels ['x'], which cannot be columns beside",
            id="a level with the name of a column",
        ),
        pytest.param(
            pd.DataFrame({"x": [1, "a"]}),
            f"column x of a {class_name(pd.DataFrame)} cannot be converted to Arrow (Conversion "
            "failed for column x with type object; its values have the types int, str); cast, ",
            id="a column of several types",
        ),
        pytest.param(
            pl.DataFrame({"x": [object()]}, schema={"x": pl.Object}),
            "column x of a polars frame holds Python objects; cast or drop it",
            id="a column of objects",
        ),
        pytest.param(
            pl.DataFrame({"x": [1]}, schema={"x": pl.Int128}).lazy(),
            "column x of a polars.dataframe.frame.DataFrame cannot be converted to Arrow ("
            "Invalid or unsupported format string: '_pli128'); cast, rename or drop the column",
            id="a column that only polars knows",
        ),
    ],
)
def test_a_frame_that_is_no_table_is_refused(
    tmp_path: Path, instance: dg.DagsterInstance, frame: Any, message: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        run(instance, tmp_path, returned(lambda: frame, type(frame)))
    assert message in str(refused.value)
    assert not DeltaLog(tmp_path / "numbers").exists()


def test_parts_of_a_source_may_be_frames(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.asset(metadata={"delta/idempotency": "source"})
    def numbers() -> list[SourcePart]:
        return [SourcePart(data=pl.DataFrame({"x": [1]}), source="a", position=1)]

    assert run(instance, tmp_path, numbers).success
    assert da.to_table(DeltaLog(tmp_path / "numbers")).to_pydict() == {"x": [1]}


@pytest.mark.parametrize("annotation", [Snapshot, DeltaLog])
def test_an_asset_that_wrote_by_itself_returns_its_table(
    tmp_path: Path, instance: dg.DagsterInstance, annotation: Any
) -> None:
    def write() -> Any:
        log = DeltaLog(tmp_path / "numbers")
        da.write(log, DATA)
        return log if annotation is DeltaLog else log.snapshot()

    assert run(instance, tmp_path, returned(write, annotation)).success
    snapshot = DeltaLog(tmp_path / "numbers").snapshot()
    assert snapshot.version == 0
    event = instance.get_latest_materialization_event(dg.AssetKey("numbers"))
    assert event is not None
    assert event.asset_materialization is not None
    tags = event.asset_materialization.tags
    assert tags is not None
    assert tags["dagster/data_version"] == f"{snapshot.metadata.id[:8]}@0"


@pytest.mark.parametrize("annotation", [Snapshot, DeltaLog])
def test_the_table_of_another_asset_is_copied(
    tmp_path: Path, instance: dg.DagsterInstance, annotation: Any
) -> None:
    def copy(numbers: Any) -> Any:
        return numbers

    copy.__annotations__.update({"numbers": annotation, "return": annotation})
    assert run(instance, tmp_path, returned(DATA, pa.Table), dg.asset(copy)).success
    assert rows(da.to_table(DeltaLog(tmp_path / "copy"))) == rows(DATA)


def test_an_input_without_an_annotation_is_a_snapshot(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    found: list[Any] = []

    @dg.asset
    def follower(numbers) -> None:  # type: ignore[no-untyped-def]
        found.append(numbers)

    assert run(instance, tmp_path, returned(DATA, pa.Table), follower).success
    assert [type(each) for each in found] == [Snapshot]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        pytest.param(Optional[pa.Table], [None], id="None where it may be None"),  # noqa: UP045
        pytest.param(pa.Table, TableNotFoundError, id="an error otherwise"),
    ],
)
def test_an_input_whose_table_is_not_there_yet(
    tmp_path: Path, instance: dg.DagsterInstance, annotation: Any, expected: Any
) -> None:
    found: list[Any] = []
    assets = (dg.AssetSpec("numbers"), taken(annotation, found))
    if isinstance(expected, list):
        assert run(instance, tmp_path, *assets).success
        assert found == expected
    else:
        with pytest.raises(expected):
            run(instance, tmp_path, *assets)


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param(Optional[pa.Table], id="a table or None"),  # noqa: UP045
        pytest.param(None, id="None"),
    ],
)
def test_none_writes_nothing_where_it_is_annotated(
    tmp_path: Path, instance: dg.DagsterInstance, annotation: Any
) -> None:
    assert run(instance, tmp_path, returned(None, annotation)).success
    assert not DeltaLog(tmp_path / "numbers").exists()


def test_none_by_mistake_is_refused(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.asset
    def numbers():  # type: ignore[no-untyped-def]
        pa.table({"id": [1]})

    with pytest.raises(InvalidRequestError) as refused:
        run(instance, tmp_path, numbers)
    assert str(refused.value) == (
        "asset numbers returned None, so nothing was written; return its rows, or annotate the "
        "function with -> None, or Optional[...], where it may write nothing"
    )
    assert instance.get_latest_materialization_event(numbers.key) is None


def test_an_op_of_a_job_may_be_done_without_a_value(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.op
    def tidy():  # type: ignore[no-untyped-def]
        pass

    @dg.job(resource_defs={"io_manager": DeltaIOManager(root=str(tmp_path))})
    def tidying() -> None:
        tidy()

    assert tidying.execute_in_process(instance=instance).success


def test_an_output_that_is_no_rows_is_refused(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        run(instance, tmp_path, returned({"id": [1]}, Any))
    table = tmp_path / "numbers"
    assert str(refused.value).startswith(
        f"{table}: a value of type dict cannot be written as rows; return one of pyarrow.T"
    )
    assert "pandas.DataFrame" in str(refused.value)


@pytest.mark.parametrize(
    ("annotation", "name"), [(dict, "dict"), (pa.RecordBatch, "pyarrow.lib.RecordBatch")]
)
def test_an_input_that_no_table_can_be_is_refused(
    tmp_path: Path, instance: dg.DagsterInstance, annotation: Any, name: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        run(instance, tmp_path, returned(DATA, pa.Table), taken(annotation, []))
    assert f"an input cannot be annotated with {name}; choose" in str(refused.value)
    assert "register_type_handler" in str(refused.value)


@dataclass
class Names:
    """A user's own type."""

    names: list[str]


@pytest.fixture
def own_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of the test's own."""
    monkeypatch.setattr(registry, "handlers_by_name", dict(registry.handlers_by_name))


@pytest.mark.usefixtures("own_handlers")
def test_a_type_of_the_users_own(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    def read(table: TableRead) -> Names:
        return Names(da.to_table(table.snapshot, ["name"])["name"].to_pylist())

    register_type_handler(
        TypeHandler(
            python_type=Names,
            to_rows=lambda names: pa.table({"name": names.names}),
            from_table=read,
        )
    )
    found: list[Any] = []
    assert run(instance, tmp_path, returned(Names(["a"]), Names), taken(Names, found)).success
    assert found == [Names(["a"])]


class Marks(list[int]):
    """A list of a user's own."""


@pytest.mark.usefixtures("own_handlers")
@pytest.mark.parametrize("value", [Marks([1, 2]), Marks()])
def test_a_list_of_the_users_own(
    tmp_path: Path, instance: dg.DagsterInstance, value: Marks
) -> None:
    def rows_of(marks: Marks) -> pa.Table:
        return pa.table({"mark": pa.array(marks, pa.int64())})

    register_type_handler(TypeHandler(python_type=Marks, to_rows=rows_of))
    assert run(instance, tmp_path, returned(value, Marks)).success
    assert da.to_table(tmp_path / "numbers").equals(rows_of(value))


@pytest.mark.usefixtures("own_handlers")
def test_a_handler_of_all_lists_leaves_the_parts_of_sources_alone(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    register_type_handler(TypeHandler(python_type=list, to_rows=lambda _: pa.table({"x": [0]})))
    parts = [SourcePart(data=pa.table({"x": [1]}), source="a", position=1)]
    assert run(instance, tmp_path, returned(parts, list[SourcePart])).success
    assert da.to_table(tmp_path / "numbers").to_pydict() == {"x": [1]}


def _head(num_rows: int, frame: pl.DataFrame) -> pa.Table:
    return frame.head(num_rows).to_arrow()


@pytest.mark.usefixtures("own_handlers")
@pytest.mark.parametrize("python_type", [pl.DataFrame, "polars.DataFrame"])
def test_a_known_type_may_be_handled_in_another_way(
    tmp_path: Path, instance: dg.DagsterInstance, python_type: Any
) -> None:
    for kept in (0, 1):
        register_type_handler(
            TypeHandler(
                python_type=python_type,
                to_rows=partial(_head, kept),
            )
        )
    frame = pl.DataFrame({"x": [1, 2]})
    assert run(instance, tmp_path, returned(lambda: frame, pl.DataFrame)).success
    assert da.to_table(DeltaLog(tmp_path / "numbers")).to_pydict() == {"x": [1]}


@pytest.mark.parametrize(
    ("python_type", "settings", "message"),
    [
        pytest.param(Names, {}, "Names neither writes nor reads; give", id="it does nothing"),
        pytest.param("Names", {"to_rows": list}, "'Names'; give a class, or", id="no package"),
        pytest.param(5, {"to_rows": list}, "python_type is 5; give a class", id="no class"),
    ],
)
def test_a_handler_that_is_not_complete_is_refused(
    python_type: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        register_type_handler(TypeHandler(python_type=python_type, **settings))
    assert message in str(refused.value)


def test_an_empty_list_is_rejected_where_nothing_says_that_it_has_parts(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    with pytest.raises(InvalidRequestError, match=r"an empty list.*annotation list\[SourcePart"):
        run(instance, tmp_path, returned([], Any))
    assert instance.get_latest_materialization_event(dg.AssetKey("numbers")) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("annotation", "metadata"),
    [
        pytest.param(list[SourcePart], {}, id="by its annotation"),
        pytest.param(Any, {"delta/idempotency": "source"}, id="by its metadata"),
    ],
)
def test_an_asset_that_returns_parts_may_have_none(
    tmp_path: Path, instance: dg.DagsterInstance, annotation: Any, metadata: dict[str, str]
) -> None:
    assert run(instance, tmp_path, returned([], annotation, metadata=metadata)).success
    assert list(tmp_path.iterdir()) == []
