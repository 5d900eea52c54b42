"""Values of ops that belong to no asset, under our IO manager as the default."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaIOManager


def numbers_of(root: Path, table: str) -> list[int]:
    rows: list[int] = da.to_table(DeltaLog(f"{root}/{table}"))["n"].to_pylist()
    return sorted(rows)


@dg.op
def numbers() -> pa.Table:
    return pa.table({"n": [1, 2]})


@dg.op
def no_value():  # type: ignore[no-untyped-def]
    return None


@dg.op
def doubled(rows: pa.Table, nothing: Any) -> pa.Table:
    assert nothing is None
    return pa.concat_tables([rows, rows])


@dg.op(out={"first": dg.Out(), "second": dg.Out()})
def split(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    return rows.slice(0, 1), rows.slice(1)


def test_ops_of_a_graph_asset_pass_values_and_the_asset_is_a_table(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.graph_asset
    def total() -> Any:
        return doubled(numbers(), no_value())

    @dg.graph_multi_asset(outs={"first": dg.AssetOut(), "second": dg.AssetOut()})
    def parts(total: pa.Table) -> Any:
        first, second = split(total)
        return {"first": first, "second": second}

    @dg.asset
    def after(second: pa.Table) -> pa.Table:
        return second

    root = tmp_path / "lake"
    resources = {"io_manager": DeltaIOManager(root=str(root))}
    dg.materialize([total, parts, after], resources=resources, instance=instance)
    assert numbers_of(root, "total") == [1, 1, 2, 2]
    assert numbers_of(root, "first") == [1]
    assert numbers_of(root, "after") == [1, 2, 2]
    assert {path.name for path in root.iterdir()} == {"total", "first", "second", "after"}


def test_ops_of_a_job_pass_any_value_also_of_dynamic_outputs(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.op(out=dg.DynamicOut())
    def each() -> Any:
        yield dg.DynamicOutput(1, "one")
        yield dg.DynamicOutput(2, "two")

    @dg.op
    def add_one(number: int) -> int:
        return number + 1

    @dg.op
    def total(found: list[int]) -> int:
        return sum(found)

    @dg.job(resource_defs={"io_manager": DeltaIOManager(root=str(tmp_path))})
    def adding() -> None:
        total(each().map(add_one).collect())

    result = adding.execute_in_process(instance=instance)
    assert result.output_for_node("total") == 5
    assert list(tmp_path.iterdir()) == []


def test_values_of_ops_are_rejected_on_request(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.job(resource_defs={"io_manager": DeltaIOManager(root=str(tmp_path), op_outputs="error")})
    def rejected() -> None:
        numbers()

    with pytest.raises(InvalidRequestError, match=r'belongs to no .* op_outputs="pick'):
        rejected.execute_in_process(instance=instance)


def test_settings_of_a_table_have_no_effect_on_the_value_of_an_op(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manager = DeltaIOManager(root=str(tmp_path))
    context = dg.build_output_context(definition_metadata={"delta/mode": "append", "owner": "me"})
    manager.handle_output(context, pa.table({"n": [1]}))
    assert (
        "no table is written, and its metadata delta/mode have no effect" in capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_cannot_be_pickled_is_reported_with_its_op(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.op
    def lock() -> Any:
        return threading.Lock()

    @dg.job(resource_defs={"io_manager": DeltaIOManager(root=str(tmp_path))})
    def locking() -> None:
        lock()

    with pytest.raises(InvalidRequestError, match=r"op lock is of type .*lock"):
        locking.execute_in_process(instance=instance)


def test_contexts_that_a_unit_test_builds_hand_a_value_over(tmp_path: Path) -> None:
    manager, rows = DeltaIOManager(root=str(tmp_path)), pa.table({"n": [1]})
    stored = dg.build_output_context()
    manager.handle_output(stored, rows)
    assert manager.load_input(dg.build_input_context(upstream_output=stored)) is rows
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidRequestError, match="the upstream_output that was stored"):
        manager.load_input(dg.build_input_context())


def count_by(root: Path, instance: dg.DagsterInstance, connect: Callable[[Any], Any]) -> Any:
    """The number of rows that an op counts, whose input a job connects."""
    da.write(root / "orders", pa.table({"id": [1, 2]}))

    @dg.op(ins={"rows": dg.In(input_manager_key="io_manager", asset_key=dg.AssetKey("orders"))})
    def count(rows: pa.Table) -> int:
        return len(rows)

    @dg.job(resource_defs={"io_manager": DeltaIOManager(root=str(root))})
    def job() -> None:
        connect(count)

    return job.execute_in_process(instance=instance).output_for_node("count")


def test_an_op_reads_the_asset_that_its_job_gives_it(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset
    def orders() -> None: ...

    assert count_by(tmp_path, instance, lambda op: op(orders.to_source_asset())) == 2


def test_an_input_that_is_connected_to_nothing_is_refused(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    with pytest.raises(InvalidRequestError, match="input rows is connected to no op and to no"):
        count_by(tmp_path, instance, lambda op: op())
