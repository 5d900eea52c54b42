"""Compare the commits of delta-spark and delta_ops for the same operations, field by field.

Actions have the same order and the same fields with the same JSON types, except for `DIFFERENCES`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.maintenance import optimize
from delta_ops.protocol.predicate import Predicate, parse_predicate
from tests.peers.delta_spark import DeltaSpark

Json = dict[str, Any]
Act = tuple[Callable[[DeltaSpark, Path], Any], Callable[[Path], Any]]

IN_A = col("p") == "a"
REPLACE_METRICS_OF_SPARK = {
    "commitInfo.operationMetrics.numAddedChangeFiles",
    "commitInfo.operationMetrics.numCopiedRows",
    "commitInfo.operationMetrics.numDeletedRows",
}


def data(*ids: int, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [p] * len(ids)})


OPERATIONS: dict[str, Act] = {
    "create": (
        lambda spark, t: spark.write(t, data(1, 2), partition_by=["p"], userMetadata="why"),
        lambda t: da.write(t, data(1, 2), partition_by=["p"], user_metadata="why"),
    ),
    "append with a txn": (
        lambda spark, t: spark.write(t, data(3), txnAppId="job", txnVersion="4"),
        lambda t: da.write(t, data(3), txn=("job", 4)),
    ),
    "append": (
        lambda spark, t: spark.write(t, data(4, p="b")),
        lambda t: da.write(t, data(4, p="b")),
    ),
    "optimize a partition": (
        lambda spark, t: spark.sql(f"OPTIMIZE delta.`{t}` WHERE p = 'a'"),
        lambda t: optimize(DeltaLog(t), predicate=IN_A),
    ),
    "replace a partition": (
        lambda spark, t: spark.write(t, data(5), "overwrite", replaceWhere="p = 'a'"),
        lambda t: da.write(t, data(5), "overwrite", replace_where=IN_A),
    ),
    "overwrite": (
        lambda spark, t: spark.write(t, data(6), "overwrite"),
        lambda t: da.write(t, data(6), "overwrite"),
    ),
}
DIFFERENCES: dict[str, tuple[set[str], set[str]]] = {
    # By operation: fields that only delta-spark writes, and fields that only we write.
    "optimize a partition": (
        {"remove.stats"},
        {"commitInfo.operationParameters.targetSize"}
        | {f"commitInfo.operationMetrics.{n}" for n in ("numFiles", "numOutputRows")}
        | {"commitInfo.operationMetrics.numOutputBytes"}
        # The next dry run estimates its seconds from this.
        | {"commitInfo.operationMetrics.executionTimeMs"}
        # With this a rerun finds its work done.
        | {"txn", "txn.appId", "txn.lastUpdated", "txn.version"},
    ),
    "replace a partition": (REPLACE_METRICS_OF_SPARK | {"remove.stats"}, set()),
}


@pytest.fixture(scope="module")
def commits(
    delta_spark: DeltaSpark, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[list[Json], list[Json]]]:
    """By operation: delta-spark's actions, and our actions."""
    theirs, ours = tmp_path_factory.mktemp("theirs") / "t", tmp_path_factory.mktemp("ours") / "t"
    for by_spark, by_us in OPERATIONS.values():
        by_spark(delta_spark, theirs)
        by_us(ours)
    return {
        name: (actions(theirs, version), actions(ours, version))
        for version, name in enumerate(OPERATIONS)
    }


def actions(table: Path, version: int) -> list[Json]:
    lines = (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def fields(value: Any, path: str = "") -> dict[str, str]:
    """The JSON type by the path of every field; partition values count as one field."""
    if not isinstance(value, dict) or path.endswith("partitionValues"):
        return {path: type(value).__name__}
    found = {path: "dict"} if path else {}
    for name, each in value.items():
        found |= fields(each, f"{path}.{name}" if path else name)
    return found


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_actions_have_the_order_of_the_reference(
    commits: dict[str, tuple[list[Json], list[Json]]], operation: str
) -> None:
    theirs, ours = ([kind for action in side for kind in action] for side in commits[operation])
    only_ours = DIFFERENCES.get(operation, (set(), set()))[1]
    assert [kind for kind in ours if kind not in only_ours] == theirs


@pytest.mark.parametrize("operation", OPERATIONS)
def test_fields_have_the_names_and_types_of_the_reference(
    commits: dict[str, tuple[list[Json], list[Json]]], operation: str
) -> None:
    theirs, ours = (
        {path: kind for action in side for path, kind in fields(action).items()}
        for side in commits[operation]
    )
    only_theirs, only_ours = DIFFERENCES.get(operation, (set(), set()))
    assert theirs.keys() - ours.keys() == only_theirs
    assert ours.keys() - theirs.keys() == only_ours
    assert {path: ours[path] for path in ours.keys() & theirs.keys()} == {
        path: theirs[path] for path in ours.keys() & theirs.keys()
    }


def read(text: str | None) -> Predicate | None:
    return None if text is None else parse_predicate(text)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_values_that_say_what_was_done_agree(
    commits: dict[str, tuple[list[Json], list[Json]]], operation: str
) -> None:
    theirs, ours = (side[0]["commitInfo"] for side in commits[operation])
    for name in ("operation", "readVersion", "isolationLevel", "isBlindAppend", "userMetadata"):
        assert ours.get(name) == theirs.get(name), name
    if ours["operation"] == "WRITE":
        of_ours, of_theirs = (info["operationParameters"] for info in (ours, theirs))
        assert of_ours["mode"] == of_theirs["mode"]
        # delta-spark keeps the user's own text.
        assert read(of_ours.get("predicate")) == read(of_theirs.get("predicate"))
    for metric in ("numFiles", "numOutputRows", "numRemovedFiles", "numAddedFiles"):
        if metric in theirs["operationMetrics"]:
            assert ours["operationMetrics"][metric] == theirs["operationMetrics"][metric]
