"""Spark DataFrames as asset values, with annotations more specific than their class."""

from pathlib import Path
from typing import Any, Optional

import dagster as dg
import pyarrow as pa
import pytest
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import DataFrame

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.orchestration import DeltaIOManager
from tests.support.instances import new_instance


@pytest.mark.usefixtures("spark")
def test_a_value_that_is_a_frame_or_none_goes_through_a_table(tmp_path: Path) -> None:
    @dg.asset
    def numbers() -> pa.Table:
        return pa.table({"id": [1, 2]})

    def doubled(numbers: Any) -> Any:
        return numbers.selectExpr("id * 2 AS id")

    either = Optional[DataFrame]  # noqa: UP045
    doubled.__annotations__.update({"numbers": either, "return": either})
    manager = DeltaIOManager(root=str(tmp_path), spark=LazyPySparkResource(spark_config={}))
    with new_instance() as instance:
        assets = [numbers, dg.asset(doubled)]
        resources = {"io_manager": manager}
        assert dg.materialize(assets, instance=instance, resources=resources).success
    written = da.to_table(DeltaLog(tmp_path / "doubled"))["id"].to_pylist()
    assert sorted(written) == [2, 4]
