"""Invalid values in the YAML of components: each error names the file and the attribute.

No value is silently reinterpreted, and none causes an unhandled Python exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from dagster.components.testing.utils import DefsFolderSandbox

from delta_ops.components import (
    DeltaLakeComponent,
    DeltaMaintenanceComponent,
    DeltaTableComponent,
)
from tests.components.defs_files import loaded

TABLE = ("DeltaTableComponent", {"uri": "s3://lake/orders", "asset": {"key": "sales/orders"}})
LAKE = ("DeltaLakeComponent", {"root": "s3://lake/silver"})
MAINTENANCE = ("DeltaMaintenanceComponent", {"root": "/lake", "tables": ["sales/orders"]})
DAYS = {"type": "daily", "start_date": "2026-01-01"}


def asset(**settings: Any) -> dict[str, Any]:
    return {"asset": {"key": "a", **settings}}


def policy(**settings: Any) -> dict[str, Any]:
    return {"policies": [settings]}


POLICIES: list[dict[str, Any]] = [
    {"operations": ["drop"]},
    {"operations": "vacuum"},
    {"options": {"vacuum": {"nosuch": 1}}},
    {"options": {"vacuum": {"retention": "1 h"}}},
    {"options": {"vacuum": {"keep_last": -2}}},
    {"options": {"nosuch": {}}},
    {"thresholds": {"small_files": "many"}},
    {"thresholds": {"small_files": -1}},
    {"thresholds": {"small_files": True}},
    {"thresholds": {"deleted_rows": True}},
    {"thresholds": {"deleted_rows": 7}},
    {"thresholds": {"stats_coverage": float("nan")}},
    {"thresholds": {"nosuch": 1}},
    {"cron": "x"},
    {"timezone": "Nowhere/X"},
    {"timezone": "Nowhere/X", "cron": None},
    {"budget_s": 0},
    {"budget_s": 1.5},
    {"budget_s": True},
    {"tables_at_once": -1},
    {"tables_at_once": True},
    {"options": {"vacuum": {"keep_last": True}}},
    {"owners": ["nobody"]},
    {"tags": {"a": 1}},
    {"tags": {"delta_ops/table": "x"}},
    {"pool": ""},
    {"name": "a b"},
    {"tables": "sales/**"},
    {"tables": 5},
]
HOSTILE: list[tuple[tuple[str, dict[str, Any]], dict[str, Any], str]] = [
    *(
        (TABLE, {"uri": uri}, "uri")
        for uri in (
            None,
            5,
            ["a"],
            "",
            "/a\0b",
            "lake/orders",
            "s3:/lake/orders",
            "s3://",
            "s3://lake/o?versionId=1",
            "s3://key:secret@lake/o",
            "file://host/x",
            "file:///my%20lake/50%",
            "C:\\lake",
            "~nobody-of-that-name/x",
            "simplecache::s3://lake/o",
            "filecache://lake/o",
            "{{ nosuch }}",
            "{{ 1/0 }}",
            "{{ [1] }}",
        )
    ),
    *(
        (TABLE, {"asset": value}, "asset")
        for value in (None, {}, "orders", {"key": ""}, {"key": ".."}, {"key": "a/../b"})
    ),
    (TABLE, asset(nosuch=1), "nosuch"),
    (TABLE, asset(partitions_def={**DAYS, "start_date": "yesterday"}), "partitions_def"),
    (TABLE, asset(metadata={"dagster/uri": "/elsewhere"}), "asset.metadata"),
    (TABLE, asset(metadata={"delta/mode": "append"}), "asset.metadata"),
    (TABLE, asset(metadata={"delta.appendOnly": "true"}), "asset.metadata"),
    (TABLE, asset(metadata={"partitionExpr": "day"}, partitions_def=DAYS), "asset.metadata"),
    (TABLE, asset(metadata={"partition_expr": 5}, partitions_def=DAYS), "asset.metadata"),
    (TABLE, asset(metadata={"partition_expr": "day"}), "asset.metadata"),
    (TABLE, {"storage_options": [1]}, "storage_options"),
    (TABLE, {"storage_options": {5: 6}}, "storage_options"),
    (TABLE, {"storage_options": {"secret": {"env": 5}}}, "storage_options"),
    (TABLE, {"storage_options": {"deep": [{"password": "x"}]}}, "storage_options"),
    *((TABLE, {"name": name}, "name") for name in ("", "a b", 5, "a;b", "../a")),
    *((TABLE, {"check_cron": cron}, "check_cron") for cron in ("", "noon", 5, "61 * * * *")),
    *((TABLE, {"switched_on": value}, "switched_on") for value in ("maybe", 3)),
    (TABLE, {"Uri": "s3://lake/x"}, "Uri"),
    *((LAKE, {"include": value}, "include") for value in ("sales/*", [5], [], ["/sales/*"])),
    *((LAKE, {"exclude": value}, "exclude") for value in (["../*"], ["sales/"], ["a//b"])),
    *((LAKE, {"key_prefix": value}, "key_prefix") for value in ("a/../b", "/", "a b", 5)),
    (LAKE, {"defs_state": {"management_type": "NOPE"}}, "defs_state"),
    *((LAKE, {"policies": value}, "policies") for value in ({"tables": "*"}, ["x"], [{"a": 1}])),
    *((MAINTENANCE, {"tables": value}, "tables") for value in ("a", [], [""], ["a/../b"])),
    (MAINTENANCE, {"tables": ["t/_delta_log"]}, "tables"),
    *((MAINTENANCE, {"assets_from": [value]}, "assets_from") for value in ("nosuch", "../..")),
    *((MAINTENANCE, policy(**settings), "policies") for settings in POLICIES),
]


def in_tiers() -> Iterator[Any]:
    """The cases; every tier has each attribute's first two cases."""
    seen = Counter[str]()
    for component, changes, attribute in HOSTILE:
        kind = component[0]
        seen[f"{kind} {attribute}"] += 1
        marks = pytest.mark.full if seen[f"{kind} {attribute}"] > 2 else ()
        yield pytest.param(component, changes, attribute, id=f"{kind} {changes!r}", marks=marks)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, followed by its causes."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


@pytest.mark.some_cases(20)
@pytest.mark.parametrize(
    ("component", "changes", "attribute"),
    list(in_tiers()),
)
def test_a_hostile_value_is_an_error_that_names_file_and_attribute(
    sandbox: DefsFolderSandbox,
    component: tuple[str, dict[str, Any]],
    changes: dict[str, Any],
    attribute: str,
) -> None:
    kind, attributes = component
    with (
        pytest.raises(Exception, match="Error while") as caught,
        loaded(sandbox, kind, {**attributes, **changes}),
    ):
        pass
    reported = [str(each) for each in causes(caught.value)]
    assert any("/lake" in each and attribute in each for each in reported[1:]), reported
    assert "secret@" not in "".join(reported)


KINDS = (
    (TABLE, DeltaTableComponent),
    (LAKE, DeltaLakeComponent),
    (MAINTENANCE, DeltaMaintenanceComponent),
)


@pytest.mark.parametrize(("component", "kind"), KINDS, ids=[each.__name__ for _, each in KINDS])
def test_each_attribute_is_rejected_if_it_is_misspelt(
    sandbox: DefsFolderSandbox, component: tuple[str, dict[str, Any]], kind: Any
) -> None:
    name, attributes = component
    misspelt = [f"{each}x" for each in kind.model_fields]
    with (
        pytest.raises(Exception, match="Error while") as caught,
        loaded(sandbox, name, {**attributes, **dict.fromkeys(misspelt, "1")}),
    ):
        pass
    reported = "".join(str(each) for each in causes(caught.value))
    assert [each for each in misspelt if each not in reported] == []


@pytest.mark.parametrize(
    ("component", "changes"),
    [
        (TABLE, {"uri": "/lake/a b/50%"}),
        (TABLE, {"uri": "file:///lake/a%20b"}),
        (TABLE, {"uri": "/lake/a:b/'; --"}),
        (TABLE, asset(description="<script>alert(1)</script>", tags={"a": "b"})),
        (TABLE, asset(metadata={"partition_expr": "`a``b`", "note": "{}"}, partitions_def=DAYS)),
        (LAKE, {"include": ["[a", "?", "a b/*"], "exclude": ["*/tmp_*"]}),
        (LAKE, {"policies": [{"tables": "not-there-yet"}]}),
        (MAINTENANCE, policy(options={"vacuum": {"keep_last": 2}}, tags={"team": "a"})),
    ],
)
def test_a_value_that_only_looks_hostile_is_taken(
    sandbox: DefsFolderSandbox, component: tuple[str, dict[str, Any]], changes: dict[str, Any]
) -> None:
    kind, attributes = component
    with loaded(sandbox, kind, {**attributes, **changes}) as (found, _defs):
        for name, value in changes.items():
            if isinstance(value, str | list) and name != "policies":
                assert getattr(found, name) == value
