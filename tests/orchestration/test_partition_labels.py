"""Labels of a dimension that belong to partitions, and chunk sizes that fit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg
import numpy as np
import pytest

pytest.importorskip("zarr")

from delta_ops.arrays.dimensions import ArrayAlong
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.arrays.chunk_sizes import sizes_that_fit, validate_chunks_fit
from delta_ops.orchestration.arrays.partition_labels import (
    PartitionedLabels,
    positions_of,
    regions,
)

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-05")
MONTHS = dg.MonthlyPartitionsDefinition("2026-01-01", end_date="2026-05-01")
OSLO = dg.DailyPartitionsDefinition("2026-03-28", end_date="2026-03-31", timezone="Europe/Oslo")
LANDS = dg.StaticPartitionsDefinition(["no", "de", "fr"])
YEARS = dg.StaticPartitionsDefinition(["2024", "2025", "2026"])
NOTHING: Any = np.array([])


STEPS = {"1 h": 3600, "6 h": 6 * 3600, "12 h": 12 * 3600, "1 D": 24 * 3600}


def times(start: str, step: str, count: int) -> Any:
    steps = np.arange(count) * np.timedelta64(STEPS[step], "s")
    return (np.datetime64(start, "s") + steps).astype("M8[ns]")


def labels_of(partitions: dg.PartitionsDefinition[Any], *keys: str) -> PartitionedLabels:
    return PartitionedLabels(
        asset="air",
        dimension="t",
        partitions=partitions,
        keys=keys,
        all_keys=partitions.get_partition_keys(),
    )


@pytest.mark.parametrize(
    ("partitions", "key", "labels", "all_labels"),
    [
        pytest.param(
            DAYS,
            "2026-01-03",
            times("2026-01-03", "6 h", 4),
            times("2026-01-01", "6 h", 16),
            id="hours of a day",
        ),
        pytest.param(
            DAYS,
            "2026-01-02",
            times("2026-01-02T12", "1 D", 1).astype("M8[s]"),
            times("2026-01-01T12", "1 D", 4),
            id="one label at noon",
        ),
        pytest.param(
            MONTHS,
            "2026-02-01",
            times("2026-02-01", "1 D", 28),
            times("2026-01-01", "1 D", 120),
            id="days of a month",
        ),
        pytest.param(
            MONTHS,
            "2026-04-01",
            times("2026-04-01", "1 D", 1),
            np.array(["2026-01", "2026-02", "2026-03", "2026-04"], "M8[M]").astype("M8[ns]"),
            id="one label for each month",
        ),
        pytest.param(
            OSLO,
            "2026-03-30",
            times("2026-03-29T22", "1 h", 24),
            times("2026-03-27T23", "1 h", 24 + 23 + 24),
            id="local days, and one of them has 23 hours",
        ),
        pytest.param(LANDS, "de", np.array(["de"]), ["no", "de", "fr"], id="strings"),
        pytest.param(YEARS, "2025", np.array([2025], "i2"), [2024, 2025, 2026], id="numbers"),
    ],
)
def test_the_first_run_gives_each_partition_a_place(
    partitions: dg.PartitionsDefinition[Any], key: str, labels: Any, all_labels: Any
) -> None:
    found = labels_of(partitions, key).new_labels(labels, labels[:0])
    assert list(found) == list(all_labels)
    positions = positions_of(found, partitions, [key])
    assert list(found[positions]) == list(labels)


def test_a_later_run_adds_the_labels_of_later_partitions_only() -> None:
    found = labels_of(DAYS, "2026-01-02").new_labels(
        times("2026-01-02", "12 h", 2), times("2026-01-01", "12 h", 6)
    )
    assert list(found) == list(times("2026-01-04", "12 h", 2))


def test_a_key_that_was_inserted_follows_the_keys_that_have_a_place() -> None:
    labels = labels_of(LANDS, "de")
    found = labels.new_labels(np.array(["de"], object), np.array(["no", "fr"], object))
    assert list(found) == ["de"]


DAY = times("2026-01-02", "6 h", 4)


@pytest.mark.parametrize(
    ("partitions", "keys", "labels", "stored", "message"),
    [
        pytest.param(DAYS, ["2026-01-02"], DAY[[0, 1, 3]], NOTHING, "lack 2026-01-02T12:00:00",
                     id="a missing hour"),
        pytest.param(DAYS, ["2026-01-02", "2026-01-03"], DAY, NOTHING,
                     "lack 2026-01-03T00:00:00 of partition 2026-01-03", id="a missing partition"),
        pytest.param(DAYS, ["2026-01-02"], times("2026-01-02", "6 h", 5), NOTHING,
                     "include 2026-01-03T00:00:00, which does not belong", id="a label too many"),
        pytest.param(DAYS, ["2026-01-04"], DAY, NOTHING, "have no time in partition 2026-01-04",
                     id="another day"),
        pytest.param(DAYS, ["2026-01-02"], DAY[:0], NOTHING, "have no time in", id="no label"),
        pytest.param(DAYS, ["2026-01-02"], DAY[[0, 0, 1, 2, 3]], NOTHING, "occur twice",
                     id="a label twice"),
        pytest.param(DAYS, ["2026-01-02"], np.arange(4), NOTHING, "are of type int64",
                     id="numbers for times"),
        pytest.param(DAYS, ["2026-01-02"], DAY + np.timedelta64(1, "ns"), NOTHING,
                     "fractions of microseconds", id="nanoseconds"),
        pytest.param(DAYS, ["2026-01-02"], np.array(["NaT"], "M8[ns]"), NOTHING,
                     "have no time in", id="not a time"),
        pytest.param(DAYS, ["2026-01-02"], DAY, times("2026-01-01", "12 h", 8),
                     r"include 2026-01-02T06:00:00, .* has 2026-01-01T00:00:00 to 2026-01-04T12",
                     id="another spacing than before"),
        pytest.param(DAYS, ["2026-01-02"], DAY, times("2026-01-03", "6 h", 8),
                     "has no place for it", id="a partition before the first"),
        pytest.param(LANDS, ["de"], np.array(["fr"]), NOTHING, "are fr, and the partitions of the",
                     id="another key"),
        pytest.param(LANDS, ["de"], np.array([1.5]), NOTHING, "are of type float64", id="floats"),
        pytest.param(dg.StaticPartitionsDefinition(["1", "x"]), ["1"], np.array([1]), NOTHING,
                     "partition x is not", id="a number, and keys that are no numbers"),
        pytest.param(dg.MultiPartitionsDefinition({"a": DAYS, "b": LANDS}), ["2026-01-01|de"],
                     np.array(["2026-01-01|de"]), NOTHING, "the partitions have several",
                     id="two dimensions"),
    ],
)  # fmt: skip
def test_labels_that_do_not_fit_are_rejected(
    partitions: dg.PartitionsDefinition[Any],
    keys: Sequence[str],
    labels: Any,
    stored: Any,
    message: str,
) -> None:
    known = labels[:0] if stored is NOTHING else stored
    with pytest.raises(InvalidRequestError, match=message) as caught:
        labels_of(partitions, *keys).new_labels(labels, known)
    assert str(caught.value).startswith("asset air: the labels of dimension t ")


@pytest.mark.parametrize(
    ("partitions", "key", "labels", "sizes"),
    [
        pytest.param(DAYS, "2026-01-02", DAY, [1, 2, 4], id="four labels each day"),
        pytest.param(
            MONTHS, "2026-02-01", times("2026-02-01", "1 D", 28), [1], id="days of months"
        ),
        pytest.param(LANDS, "de", np.array(["de"]), [1], id="keys"),
    ],
)
def test_sizes_that_fit_cut_no_partition(
    partitions: dg.PartitionsDefinition[Any], key: str, labels: Any, sizes: list[int]
) -> None:
    rules = labels_of(partitions, key)
    all_labels = rules.new_labels(labels, labels[:0])
    edges = rules.edges(labels, all_labels)
    assert sizes_that_fit(edges) == sizes
    for size in sizes:
        validate_chunks_fit([ArrayAlong("a", 0, size)], edges, asset="air", dimension="t")
    with pytest.raises(InvalidRequestError, match="Sizes that fit: 1"):
        validate_chunks_fit([ArrayAlong("a", 0, 3)], edges, asset="air", dimension="t")


def test_neighbouring_positions_are_one_region() -> None:
    assert list(regions([])) == []
    assert list(regions([0, 1, 2, 7, 8, 20])) == [
        (slice(0, 3), slice(0, 3)),
        (slice(3, 5), slice(7, 9)),
        (slice(5, 6), slice(20, 21)),
    ]
