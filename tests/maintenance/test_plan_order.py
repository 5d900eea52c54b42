"""The choice of an order is the same by file columns and file by file."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, col
from delta_ops.errors import InvalidRequestError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import optimize
from delta_ops.maintenance.checkpoint.act import create_checkpoint
from delta_ops.maintenance.optimize.overlaps import (
    Ranges,
    choose_overlapping,
    choose_small,
    find_last_in_place,
)
from delta_ops.maintenance.optimize.plan import age_key, small_file_limit
from delta_ops.maintenance.optimize.plan_order import plan_order
from delta_ops.maintenance.optimize.small_files import own_files
from delta_ops.protocol.actions import AddFile, CommitInfo
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.transaction import CurveOrder

TARGET = 100
BY_TWO = CurveOrder(columns=(("id",), ("b",)), curve="hilbert")
BY_ONE = CurveOrder(columns=(("id",),), curve="hilbert")


def columns_text(order: CurveOrder) -> str:
    return json.dumps([name for (name,) in order.columns], separators=(",", ":"))


TAGS: list[dict[str, Any]] = [
    *(
        {"ZCUBE_ZORDER_BY": columns_text(order), "ZCUBE_ZORDER_CURVE": "hilbert"}
        for order in (BY_TWO, BY_ONE)
    ),
    {"ZCUBE_ZORDER_BY": columns_text(BY_TWO), "ZCUBE_ZORDER_CURVE": "zorder"},
    {"ZCUBE_ZORDER_BY": '["b"]', "ZCUBE_ZORDER_CURVE": "hilbert"},
    {"ZCUBE_ZORDER_CURVE": "hilbert", "other": "1"},
    *(
        {"ZCUBE_ZORDER_BY": seen, "delta_ops.zorderBy": stored, "ZCUBE_ZORDER_CURVE": "hilbert"}
        for seen, stored in ((columns_text(BY_TWO), '["b"]'), ('["c"]', columns_text(BY_TWO)))
    ),
]
BOUNDS = st.none() | st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
FILE: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "size": st.integers(1, 1000) | st.integers(1, 30),
        "time": st.integers(0, 3),
        "tags": st.none() | st.sampled_from(TAGS[:2]) | st.sampled_from([{}, *TAGS]),
        "cube": st.none() | st.sampled_from(["a", "b", "c", "d"]),
        "provider": st.none() | st.sampled_from(["liquid", "liquid", "another"]),
        "bounds": BOUNDS | st.just("nulls"),
        "partition": st.none() | st.sampled_from(["1", "2"]),
    }
)


def table_of(
    root: Path | str, files: list[dict[str, Any]], *, outside: int | None, partitioned: bool
) -> DeltaLog:
    names = ["id", "b", "p"]
    da.write(
        root,
        pa.table({name: pa.array([], pa.int64()) for name in names}),
        partition_by=["p"] if partitioned else None,
    )
    adds = []
    for number, each in enumerate(files):
        cube = {} if each["cube"] is None else {"ZCUBE_ID": each["cube"]}
        adds.append(
            AddFile(
                path=f"/elsewhere/{number}" if number == outside else f"{number}%20.parquet",
                partition_values={"p": each["partition"]} if partitioned else {},
                size=each["size"],
                modification_time=each["time"],
                data_change=True,
                tags=None if each["tags"] is None else {**each["tags"], **cube},
                clustering_provider=each["provider"],
                stats=stats_of(each["bounds"]),
            )
        )
    log = DeltaLog(root)
    create_commit(log.storage, log.log_directory, 1, [CommitInfo(values={}), *adds])
    return log


def stats_of(bounds: Any) -> str | None:
    if bounds is None:
        return None
    if bounds == "nulls":
        return '{"numRecords":9,"minValues":{},"maxValues":{},"nullCount":{"id":9}}'
    low, high = bounds
    values = {"minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
    return json.dumps({"numRecords": 9, **values})


def chosen_of(
    snapshot: Snapshot, order: CurveOrder, max_bytes: int, full: bool, predicate: Predicate | None
) -> list[tuple[list[str], str | None]]:
    """The groups by the written rules, file by file."""
    partitions: dict[str | None, list[AddFile]] = {}
    for add in own_files(snapshot, predicate):
        if add.clustering_provider in (None, "liquid"):
            partitions.setdefault(add.partition_values.get("p"), []).append(add)
    limit = small_file_limit(TARGET)
    groups = []
    for files in partitions.values():
        chosen, separate = choose(files, order, limit, max_bytes, full)
        size = sum(add.size for add in chosen)
        if len(chosen) >= 2 or size >= (1 if full else limit):
            groups.append(([add.path for add in sorted(chosen, key=age_key)], separate))
    return sorted(groups)


def choose(
    files: Sequence[AddFile], order: CurveOrder, limit: int, max_bytes: int, full: bool
) -> tuple[list[AddFile], str | None]:
    loose: list[AddFile] = []
    cubes: dict[str, list[AddFile]] = {}
    for add in files:
        tags = dict(add.tags or {})
        is_in_order = (
            tags.get("delta_ops.zorderBy", tags.get("ZCUBE_ZORDER_BY")) == columns_text(order)
            and tags.get("ZCUBE_ZORDER_CURVE") == order.curve
            and tags.get("ZCUBE_ID") is not None
        )
        (cubes.setdefault(str(tags["ZCUBE_ID"]), []) if is_in_order else loose).append(add)
    laid_out = [add for cube in cubes.values() for add in cube]
    if full:
        return ([], None) if not loose and len(cubes) == 1 else ([*loose, *laid_out], None)
    taken: list[AddFile] = []
    size = 0
    for add in sorted(loose, key=age_key):
        if len(taken) > 1 and size + add.size > max_bytes:
            return taken, None
        taken.append(add)
        size += add.size
    if not taken or not cubes:
        return taken, None
    if len(order.columns) == 1:
        overlapping = choose_by_overlap(taken, laid_out, limit)
        if overlapping and sum(add.size for add in overlapping[0]) <= max(max_bytes, size):
            return overlapping
    for cube in sorted(cubes.values(), key=lambda cube: sum(add.size for add in cube)):
        of_cube = sum(add.size for add in cube)
        if of_cube > 2 * size or size + of_cube > max_bytes:
            break
        taken += cube
        size += of_cube
    return taken, None


def choose_by_overlap(
    loose: list[AddFile], laid_out: list[AddFile], limit: int
) -> tuple[list[AddFile], str | None] | None:
    files = [*laid_out, *loose]
    sizes = np.array([add.size for add in files])
    bounds = [bounds_of(add) for add in files]
    values = sorted({value for pair in bounds for value in pair})
    lows, highs = (np.array([values.index(pair[end]) for pair in bounds]) for end in (0, 1))
    ranges = Ranges(lows, highs)
    is_rewritten = np.array([False] * len(laid_out) + [True] * len(loose))
    is_rewritten[choose_small(sizes[: len(laid_out)], limit)] = True
    overlapping = choose_overlapping(ranges, sizes, is_rewritten)
    if overlapping is None:
        return None
    is_rewritten[overlapping] = True
    last = find_last_in_place(ranges, ~is_rewritten)
    bound = None if last is None or files[last].stats is None else bounds[last][1]
    chosen = [add for add, chosen in zip(files, is_rewritten, strict=True) if chosen]
    return chosen, None if bound in (None, -1) else f"`id` > {bound}"


def text_of(separate: Predicate | None) -> str | None:
    return None if separate is None else predicate_text(separate)


def bounds_of(add: AddFile) -> tuple[int, int]:
    if add.stats is None:
        return -1, 99
    stats = json.loads(add.stats)
    if not stats["minValues"]:
        return -1, -1
    return stats["minValues"]["id"], stats["maxValues"]["id"]


def check_plan(
    *,
    files: list[dict[str, Any]],
    outside: int | None,
    max_bytes: int,
    order: CurveOrder,
    full: bool,
    partitioned: bool,
    chooses_partition: bool,
    from_checkpoint: bool,
) -> None:
    log = table_of(f"memory://{uuid.uuid4()}/t", files, outside=outside, partitioned=partitioned)
    if from_checkpoint:
        create_checkpoint(log)
    snapshot = log.snapshot()
    predicate = col("p") == 1 if partitioned and chooses_partition else None
    plan = plan_order(
        snapshot,
        order,
        target_size_bytes=TARGET,
        predicate=predicate,
        full=full,
        max_group_bytes=max_bytes,
    )
    found = [([add.path for add in each.files], text_of(each.separate)) for each in plan.groups]
    assert found == chosen_of(snapshot, order, max_bytes, full, predicate)
    known = {add.path: add for add in own_files(snapshot)}
    assert all(add == known[add.path] for each in plan.groups for add in each.files)


PLANS = given(
    files=st.lists(FILE, max_size=25),
    outside=st.none() | st.integers(0, 9),
    max_bytes=st.sampled_from([10, 500, 10**9]),
    order=st.sampled_from([BY_ONE, BY_TWO]),
    full=st.booleans(),
    partitioned=st.booleans(),
    chooses_partition=st.booleans(),
    from_checkpoint=st.booleans(),
)


@pytest.mark.full
@PLANS
@settings(max_examples=40)
def test_the_plan_is_that_of_the_rules_file_by_file(**drawn: Any) -> None:
    check_plan(**drawn)


@pytest.mark.full
@PLANS
@settings(max_examples=200)
def test_the_plan_is_that_of_the_rules_on_many_tables(**drawn: Any) -> None:
    check_plan(**drawn)


def test_where_all_is_laid_out_there_is_nothing_to_do(tmp_path: Path) -> None:
    laid_out = {
        "size": 9,
        "time": 1,
        "tags": TAGS[0],
        "cube": "a",
        "provider": "liquid",
        "bounds": None,
        "partition": None,
    }
    log = table_of(tmp_path, [laid_out] * 3, outside=None, partitioned=False)
    assert not plan_order(log.snapshot(), BY_TWO, target_size_bytes=TARGET).has_work
    others = CurveOrder(columns=(("b",), ("id",)), curve="hilbert")
    assert plan_order(log.snapshot(), others, target_size_bytes=TARGET).num_files == 3


@pytest.mark.parametrize("order", [BY_ONE, BY_TWO])
def test_a_file_that_a_checkpoint_names_twice_is_laid_out_once(
    tmp_path: Path, order: CurveOrder
) -> None:
    loose = {"size": 9, "time": 1, "tags": None, "cube": None, "provider": None, "partition": None}
    files = [{**loose, "bounds": [number, number]} for number in range(3)]
    log = table_of(tmp_path, files, outside=None, partitioned=False)
    create_checkpoint(log)
    (checkpoint,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    (tmp_path / "_delta_log/_last_checkpoint").unlink()
    rows = pq.read_table(checkpoint)
    pq.write_table(pa.concat_tables([rows, rows.filter(rows["add"].is_valid())]), checkpoint)
    for path in (tmp_path / "_delta_log").glob("*.crc"):
        path.unlink()
    snapshot = DeltaLog(tmp_path).snapshot()
    assert sum(map(len, snapshot.stream_live(["path"]))) == 6
    (group,) = plan_order(snapshot, order, target_size_bytes=TARGET).groups
    assert [add.path for add in group.files] == [f"{n}%20.parquet" for n in range(3)]


def test_a_predicate_is_refused_though_nothing_is_to_be_done(tmp_path: Path) -> None:
    log = table_of(tmp_path, [], outside=None, partitioned=False)
    with pytest.raises(InvalidRequestError, match="id is not a partition column"):
        optimize(log, zorder_by=["id", "b"], predicate=col("id") == 1)
