"""A table of arrays keeps each value of a later partition, or rejects the partition."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

pytest.importorskip("zarr")
pytest.importorskip("xarray")

import numpy as np
import xarray

from delta_ops import DeltaLog
from delta_ops.arrays import DeltaStore
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaArrayIOManager
from tests.orchestration.array_jobs import DAYS, dataset_of

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings(
        "ignore::zarr.errors.UnstableSpecificationWarning",
        "ignore::xarray.SerializationWarning",
        "ignore:Times can't be serialized faithfully",
        "ignore:invalid value encountered in cast",
    ),
]

FIRST, SECOND = "2026-01-01", "2026-01-02"
HALVES = {"dtype": "int16", "scale_factor": 0.5, "_FillValue": -999}
DAY, HALF_HOUR = np.datetime64(FIRST, "ns"), np.timedelta64(30, "m")


def with_variable(day: str, value: Any, encoding: Mapping[str, Any] | None = None) -> Any:
    """A day with the variable `more`, all of whose values are equal."""
    found = dataset_of(day).assign(more=("time", np.full(24, value)))
    found["more"].encoding = dict(encoding or {})
    return found


def write(lake: Path, instance: dg.DagsterInstance, day: str | None, dataset: Any) -> None:
    @dg.asset(
        partitions_def=DAYS if day else None, metadata={"partition_expr": "time"} if day else {}
    )
    def air() -> xarray.Dataset:
        return dataset  # type: ignore[no-any-return]

    resources = {"io_manager": DeltaArrayIOManager(root=str(lake))}
    dg.materialize([air], partition_key=day, resources=resources, instance=instance)


def read(lake: Path) -> Any:
    return xarray.open_zarr(DeltaStore(lake / "air"), consolidated=False).load()


@pytest.mark.parametrize(
    ("first", "encoding", "second", "message"),
    [
        pytest.param(0.5, {}, "1.5", "is of type object", id="text into numbers"),
        pytest.param("a", {}, DAY, "is of type datetime64", id="times into text"),
        pytest.param(b"ab", {}, "ab", "is of type object", id="text into bytes"),
        pytest.param(1, {}, DAY, "is of type datetime64", id="times into whole numbers"),
        pytest.param(1, {}, DAY - DAY, "is of type timedelta64", id="durations into whole numbers"),
        pytest.param(
            DAY.astype("M8[s]"), {}, DAY + 1, "in seconds since", id="nanoseconds into seconds"
        ),
        pytest.param(
            DAY,
            {"units": f"hours since {FIRST}", "dtype": "int64"},
            DAY + HALF_HOUR,
            "int64 in hours since 2026-01-01; round the times",
            id="half hours into hours",
        ),
        pytest.param(
            DAY,
            {"units": f"hours since {FIRST}", "dtype": "int16"},
            np.datetime64("2126-01-01", "ns"),
            "int16 in hours since",
            id="a century into 16 bits",
        ),
        pytest.param(
            DAY, {}, np.datetime64("9999-01-01", "s"), "in nanoseconds since", id="a year too far"
        ),
        pytest.param(
            0.5, {"_FillValue": -9.0}, -9.0, "-9.0, which the table reads as missing", id="missing"
        ),
    ],
)
def test_a_partition_that_the_table_would_change_is_rejected(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    first: Any,
    encoding: Mapping[str, Any],
    second: Any,
    message: str,
) -> None:
    write(tmp_path, instance, FIRST, with_variable(FIRST, first, encoding))
    before = read(tmp_path)
    with pytest.raises(InvalidRequestError, match=message):
        write(tmp_path, instance, SECOND, with_variable(SECOND, second))
    assert DeltaLog(tmp_path / "air").snapshot().version == 1
    xarray.testing.assert_identical(read(tmp_path), before)


@pytest.mark.parametrize(
    ("value", "encoding", "message"),
    [
        pytest.param(1e6, HALVES, "1000000.0, which does not fit int16", id="too large"),
        pytest.param(np.inf, HALVES, "inf, which does not fit int16", id="infinite"),
        pytest.param(
            np.nan,
            {"dtype": "int16", "scale_factor": 0.5},
            "nan, which does not fit int16",
            id="missing, without a number for it",
        ),
        pytest.param(300, {"dtype": "int8"}, "300, which does not fit int8", id="whole numbers"),
    ],
)
@pytest.mark.parametrize("day", [FIRST, None], ids=["a partition", "the whole group"])
def test_numbers_that_the_packed_type_cannot_hold_are_rejected(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    day: str | None,
    value: Any,
    encoding: Mapping[str, Any],
    message: str,
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        write(tmp_path, instance, day, with_variable(FIRST, value, encoding))
    assert DeltaLog(tmp_path / "air").snapshot().version == 0


@pytest.mark.parametrize(
    ("value", "encoding"),
    [
        pytest.param(2.5, {"dtype": "int16", "scale_factor": 0.5}, id="no number for missing"),
        pytest.param(2.5, {**HALVES, "_FillValue": 0}, id="zero for missing"),
        pytest.param(np.nan, {"missing_value": -9.0}, id="the older attribute for missing"),
        pytest.param(
            200.0, {"dtype": "int8", "_Unsigned": "true", "_FillValue": -1}, id="unsigned"
        ),
    ],
)
def test_packed_numbers_are_read_as_they_were_written(
    tmp_path: Path, instance: dg.DagsterInstance, value: Any, encoding: Mapping[str, Any]
) -> None:
    for day in (SECOND, FIRST):
        write(tmp_path, instance, day, with_variable(day, value, encoding))
    found = read(tmp_path)["more"].sel(time=slice(FIRST, SECOND))
    assert found.sizes["time"] == 48
    np.testing.assert_array_equal(found, np.full(48, value))


def test_the_number_of_another_encoding_for_missing_is_rejected(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    write(tmp_path, instance, FIRST, with_variable(FIRST, 1.5, HALVES))
    second = with_variable(SECOND, -499.5, {**HALVES, "_FillValue": -1})
    with pytest.raises(InvalidRequestError, match="'_FillValue': -999}, which may round"):
        write(tmp_path, instance, SECOND, second)


def test_labels_that_their_encoding_changes_are_rejected(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    found = dataset_of(FIRST)
    found["time"].encoding = {"units": "days since 1900-01-01", "dtype": "float32"}
    with pytest.raises(InvalidRequestError, match="would be read as 2026-01-01T01:01:52"):
        write(tmp_path, instance, FIRST, found)
    assert DeltaLog(tmp_path / "air").snapshot().version == 0


@pytest.mark.parametrize("attributes", [{"title": "hours"}, {}], ids=["the same", "none"])
def test_a_partition_has_the_attributes_of_the_dataset_or_none(
    tmp_path: Path, instance: dg.DagsterInstance, attributes: dict[str, Any]
) -> None:
    titled = dataset_of(FIRST).assign_attrs(title="hours")
    write(tmp_path, instance, FIRST, titled)
    with pytest.raises(InvalidRequestError, match="dataset has the attribute title='days'"):
        write(tmp_path, instance, SECOND, dataset_of(SECOND).assign_attrs(title="days"))
    write(tmp_path, instance, SECOND, dataset_of(SECOND).assign_attrs(attributes))
    assert read(tmp_path).attrs == {"title": "hours"}
