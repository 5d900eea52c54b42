"""What an order chooses of the files that may be chosen is what it chooses of all."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import optimize
from delta_ops.maintenance.checkpoint import create_checkpoint
from delta_ops.maintenance.optimize.candidates import find_candidates
from delta_ops.maintenance.optimize.plan_order import plan_order
from delta_ops.maintenance.optimize.small_files import own_files
from delta_ops.protocol.actions import AddFile, CommitInfo
from delta_ops.transaction import CurveOrder

BY_TWO = CurveOrder(columns=(("id",), ("b",)), curve="hilbert")
NAMES = json.dumps(["id", "b"], separators=(",", ":"))
TAGS: list[dict[str, Any]] = [
    {"ZCUBE_ZORDER_BY": NAMES, "ZCUBE_ZORDER_CURVE": "hilbert"},
    {"ZCUBE_ZORDER_BY": NAMES, "ZCUBE_ZORDER_CURVE": "zorder"},
    {"ZCUBE_ZORDER_BY": '["b"]', "ZCUBE_ZORDER_CURVE": "hilbert"},
    {"ZCUBE_ZORDER_CURVE": "hilbert", "other": "1"},
]

FILE: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "size": st.integers(1, 1000) | st.integers(1, 30),
        "tags": st.none() | st.just({}) | st.sampled_from(TAGS),
        "cube": st.none() | st.sampled_from(["a", "b", "c", "d"]),
        "provider": st.none() | st.sampled_from(["liquid", "another"]),
    }
)


def table_of(root: Any, files: list[dict[str, Any]], outside: int | None) -> DeltaLog:
    da.write(root, pa.table({"id": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}))
    adds = []
    for number, each in enumerate(files):
        cube = {} if each["cube"] is None else {"ZCUBE_ID": each["cube"]}
        tags = None if each["tags"] is None else {**each["tags"], **cube}
        adds.append(
            AddFile(
                path=f"/elsewhere/{number}" if number == outside else f"{number}.parquet",
                partition_values={},
                size=each["size"],
                modification_time=number,
                data_change=True,
                tags=tags,
                clustering_provider=each["provider"],
            )
        )
    log = DeltaLog(root)
    create_commit(log.storage, log.log_directory, 1, [CommitInfo(values={}), *adds])
    return log


@given(
    files=st.lists(FILE, max_size=25),
    outside=st.none() | st.integers(0, 9),
    max_bytes=st.sampled_from([10, 500, 10**9]),
    from_checkpoint=st.booleans(),
)
@settings(max_examples=60)
def test_the_plan_is_that_over_all_files(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[dict[str, Any]],
    outside: int | None,
    max_bytes: int,
    from_checkpoint: bool,
) -> None:
    log = table_of(tmp_path_factory.mktemp("t"), files, outside)
    if from_checkpoint:
        create_checkpoint(log)
    snapshot = log.snapshot()
    of_all, of_candidates = (
        plan_order(each, BY_TWO, target_size_bytes=100, max_group_bytes=max_bytes)
        for each in (own_files(snapshot), find_candidates(snapshot, BY_TWO))
    )
    assert of_candidates.groups == of_all.groups


def test_where_all_is_laid_out_nothing_is_a_candidate(tmp_path: Any) -> None:
    laid_out = {"size": 9, "tags": TAGS[0], "cube": "a", "provider": "liquid"}
    log = table_of(tmp_path, [laid_out] * 3, None)
    assert find_candidates(log.snapshot(), BY_TWO) == []
    others = CurveOrder(columns=(("b",), ("id",)), curve="hilbert")
    assert len(find_candidates(log.snapshot(), others)) == 3


def test_a_predicate_is_refused_though_nothing_is_to_be_done(tmp_path: Any) -> None:
    log = table_of(tmp_path, [], None)
    with pytest.raises(InvalidRequestError, match="id is no partition column"):
        optimize(log, zorder_by=["id", "b"], predicate=col("id") == 1)
