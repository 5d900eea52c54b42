"""Merges of random rows and clauses, compared with a row-by-row model."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, lit, parse_expression
from delta_ops.errors import InvalidRequestError
from delta_ops.transaction import CommitResult
from tests.arrow.encoding import encode_all
from tests.arrow.test_vectors import rows_by_query
from tests.support.examples import check_examples, few_or_many
from tests.support.tables import rows, rows_by_deltalake

Row = dict[str, Any]
Test = Callable[[Row | None, Row | None], bool | None]

SCHEMA = pa.schema(
    [("k", pa.int64()), ("t", pa.string()), ("n", pa.int32()), ("tags", pa.list_(pa.string()))]
)
KEYS = st.none() | st.integers(0, 6)
ROWS = st.fixed_dictionaries(
    {
        "k": KEYS,
        "t": st.sampled_from([None, "a", "b"]),
        "n": st.none() | st.integers(0, 3),
        "tags": st.sampled_from([None, [], ["x"]]),
    }
)


def less(target: Row | None, source: Row | None) -> bool:
    assert target is not None and source is not None  # noqa: PT018
    return None not in (target["n"], source["n"]) and target["n"] < source["n"]


def not_above(target: Row | None, source: Row | None) -> bool:
    assert target is not None and source is not None  # noqa: PT018
    return None not in (target["n"], source["n"]) and target["n"] <= source["n"]


def same_text(target: Row | None, source: Row | None) -> bool:
    assert target is not None and source is not None  # noqa: PT018
    return target["t"] is not None and target["t"] == source["t"]


def at_most(target: Row | None, bound: int) -> bool:
    return target is not None and target["n"] is not None and target["n"] <= bound


class Condition(NamedTuple):
    text: str | None
    holds: Test


ALWAYS = Condition(None, lambda _t, _s: True)
OF_BOTH = (
    ALWAYS,
    Condition("source.n > target.n", less),
    Condition("target.t = 'a'", lambda t, _: t is not None and t["t"] == "a"),
)
OF_SOURCE = (ALWAYS, Condition("source.t = 'a'", lambda _, s: s is not None and s["t"] == "a"))
OF_TARGET = (
    ALWAYS,
    Condition("target.n = 1", lambda t, _: t is not None and t["n"] == 1),
    Condition("coalesce(target.n, 0) < 2", lambda t, _: t is not None and (t["n"] or 0) < 2),
)
ON = (
    Condition("target.k = source.k", lambda _t, _s: True),
    Condition("target.k = source.k AND target.t = source.t", same_text),
    Condition("source.k = target.k AND target.n <= 2", lambda t, _: at_most(t, 2)),
    Condition("source.k = target.k AND source.n >= target.n", not_above),
)


class Clause(NamedTuple):
    kind: str
    condition: Condition


BY_KIND = {
    "update all": OF_BOTH,
    "update": OF_BOTH,
    "delete": OF_BOTH,
    "insert all": OF_SOURCE,
    "insert": OF_SOURCE,
    "update others": OF_TARGET,
    "delete others": OF_TARGET,
}
CLAUSES = st.lists(
    st.one_of(
        *(st.builds(Clause, st.just(kind), st.sampled_from(of)) for kind, of in BY_KIND.items())
    ),
    min_size=1,
    max_size=4,
)


def add_clause(merge: da.Merge, clause: Clause) -> da.Merge:
    text = clause.condition.text
    match clause.kind:
        case "update all":
            return merge.when_matched_update_all(text, except_cols=["t"])
        case "update":
            values = {
                "n": parse_expression("CASE WHEN target.n > 1 THEN source.n ELSE 9 END"),
                "tags": ["new"],
            }
            return merge.when_matched_update(values, text)
        case "delete":
            return merge.when_matched_delete(text)
        case "insert all":
            return merge.when_not_matched_insert_all(text)
        case "insert":
            return merge.when_not_matched_insert(
                {"k": parse_expression("source.k"), "t": lit("i")}, text
            )
        case "update others":
            return merge.when_not_matched_by_source_update({"t": lit("o")}, text)
        case _:
            return merge.when_not_matched_by_source_delete(text)


def changed(clause: Clause, target: Row, source: Row) -> Row:
    if clause.kind == "update all":
        return {**source, "t": target["t"]}
    big = target["n"] is not None and target["n"] > 1
    return {**target, "n": source["n"] if big else 9, "tags": ["new"]}


MATCHED = ("update all", "update", "delete")


class AmbiguousError(Exception):
    """Raised when several source rows would change one target row."""


def meets(target: Row, source: Row, on: Condition) -> bool:
    """Whether the two match."""
    equal = target["k"] is not None and target["k"] == source["k"]
    return equal and on.holds(target, source) is True


def model(
    targets: Sequence[Row], sources: Sequence[Row], on: Condition, clauses: Sequence[Clause]
) -> list[Row]:
    """Model of a merge, row by row."""

    def first(kinds: tuple[str, ...], target: Row | None, source: Row | None) -> Clause | None:
        fitting = (c for c in clauses if c.kind in kinds)
        return next((c for c in fitting if c.condition.holds(target, source)), None)

    result: list[Row] = []
    of_matched = [c for c in clauses if c.kind in MATCHED]
    deletes_all = len(of_matched) == 1 and of_matched[0] == Clause("delete", ALWAYS)
    for target in targets:
        met = [source for source in sources if meets(target, source, on)]
        if not met:
            other = first(("update others", "delete others"), target, None)
            if other is None:
                result.append(target)
            elif other.kind == "update others":
                result.append({**target, "t": "o"})
            continue
        deciding = [(c, s) for s in met if (c := first(MATCHED, target, s)) is not None]
        if len(deciding) > 1 and not deletes_all:
            raise AmbiguousError
        if not deciding:
            result.append(target)
        elif deciding[0][0].kind != "delete":
            result.append(changed(deciding[0][0], target, deciding[0][1]))
    for source in sources:
        if any(meets(target, source, on) for target in targets):
            continue
        insert = first(("insert all", "insert"), None, source)
        if insert is not None:
            inserted = {"k": source["k"], "t": "i", "n": None, "tags": None}
            result.append(source if insert.kind == "insert all" else inserted)
    return result


def table_of(listed: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(listed), schema=SCHEMA)


@few_or_many(20, 80)
def test_a_merge_comes_to_what_its_clauses_say_of_each_row(num_examples: int) -> None:
    check_examples(
        num_examples,
        check_merge,
        st.lists(st.lists(ROWS, min_size=1, max_size=5), min_size=1, max_size=3),
        st.lists(ROWS, max_size=5),
        st.sampled_from(ON),
        CLAUSES,
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    )


def check_merge(
    files: list[list[Row]],
    sources: list[Row],
    on: Condition,
    clauses: list[Clause],
    is_partitioned: bool,
    has_feed: bool,
    has_vectors: bool,
    is_encoded: bool,
) -> None:
    properties = {
        "delta.enableChangeDataFeed": str(has_feed).lower(),
        "delta.enableDeletionVectors": str(has_vectors).lower(),
    }
    partition_by = ["t"] if is_partitioned else None
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as monkeypatch:
        if is_encoded:
            encode_all(monkeypatch)
        for listed in files:
            da.write(root, table_of(listed), partition_by=partition_by, configuration=properties)
        before = [row for each in files for row in each]
        if has_vectors:  # rows are numbered with the deleted rows included
            da.delete(root, col("n") == 3)
            before = [row for row in before if row["n"] != 3]
        version = DeltaLog(root).snapshot().version
        assert on.text
        merge = da.merge(root, table_of(sources), on.text)
        for each in clauses:
            merge = add_clause(merge, each)
        try:
            expected = model(before, sources, on, clauses)
        except AmbiguousError:
            with pytest.raises(InvalidRequestError, match=r"matches \d+ source rows"):
                merge.execute()
            assert DeltaLog(root).snapshot().version == version
            return
        result = merge.execute()
        found = rows(da.to_table(root))
        assert found == rows(table_of(expected))
        of_deltalake = (
            rows_by_query(DeltaLog(root)) if has_vectors else rows_by_deltalake(Path(root))
        )
        assert of_deltalake == found
        if has_feed and result.version is not None:
            assert_changes(root, result, table_of(before), found)


def assert_changes(root: str, result: CommitResult, before: pa.Table, after: Sequence[Row]) -> None:
    """Assert that the feed turns the old rows into the new rows, and matches the metrics."""
    assert result.version is not None
    recorded: dict[str, list[Row]] = {}
    columns = [*SCHEMA.names, "_change_type"]
    changes = da.read_changes(root, result.version, result.version, columns=columns)
    for row in rows(pa.table(changes)):
        recorded.setdefault(row.pop("_change_type"), []).append(row)
    gone = [*recorded.get("delete", ()), *recorded.get("update_preimage", ())]
    came = [*recorded.get("insert", ()), *recorded.get("update_postimage", ())]
    assert Counter(map(str, rows(before))) + Counter(map(str, came)) == Counter(
        map(str, after)
    ) + Counter(map(str, gone))
    metrics = result.metrics
    assert [len(recorded.get(each, ())) for each in ("delete", "update_preimage", "insert")] == [
        metrics["numTargetRowsDeleted"],
        metrics["numTargetRowsUpdated"],
        metrics["numTargetRowsInserted"],
    ]
