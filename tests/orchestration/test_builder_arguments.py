"""Functions that build definitions reject an argument of another type by a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import (
    DeltaLogResource,
    MaintenancePolicy,
    TableRef,
    add_table_metadata,
    build_commit_sensor,
    build_fleet_maintenance_job,
    build_log_maintenance_job,
    build_maintenance_job,
    build_maintenance_schedule,
    build_maintenance_sensor,
    build_publish_asset,
    build_release_asset,
    build_repair_job,
    build_restore_job,
    build_revert_job,
    delta_ops_definitions,
    external_table,
)

LAKE = DeltaLogResource(root="lake")
TABLE = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
ANY: Any = TABLE
POLICY: Any = MaintenancePolicy()
TEXT: Any = "hot"
BY_NAME: Any = {"hot": POLICY}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: delta_ops_definitions(TEXT, [TABLE]), "lake is 'hot', of type str; give a Del"),
        (
            lambda: delta_ops_definitions(LAKE, ANY),
            "assets is .*; give a list of AssetsDefinitions",
        ),
        (lambda: delta_ops_definitions(LAKE, [TEXT]), "assets is .*TableRef"),
        (lambda: delta_ops_definitions(LAKE, [TABLE], POLICY), "policies is .*; give a list of M"),
        (lambda: delta_ops_definitions(LAKE, [TABLE], BY_NAME), "policies is"),
        (lambda: delta_ops_definitions(LAKE, [TABLE], switched_on=TEXT), "switched_on is 'hot'"),
        (lambda: build_commit_sensor(ANY), "tables is .*; give a list of TableRefs"),
        (lambda: build_maintenance_job(ANY), "tables is"),
        (lambda: build_maintenance_job([TABLE], policy=TEXT), "policy is 'hot'"),
        (lambda: build_log_maintenance_job([TEXT]), "tables is"),
        (lambda: build_fleet_maintenance_job(policies=POLICY), "policies is"),
        (lambda: build_restore_job(ANY), "tables is"),
        (lambda: build_revert_job(ANY), "tables is"),
        (lambda: build_repair_job(ANY), "tables is"),
        (lambda: build_maintenance_schedule(TEXT), "job is 'hot'"),
        (lambda: build_maintenance_sensor(TEXT, [TABLE]), "job is"),
        (lambda: build_publish_asset(ANY, "published"), "asset is"),
        (lambda: build_release_asset(ANY, "library", release_set="lake/releases"), "assets is"),
        (lambda: external_table(TEXT), "table is 'hot'"),
        (lambda: add_table_metadata(ANY, LAKE.table), "assets is"),
        (lambda: TableRef(asset_key=TEXT, uri="lake"), "asset_key is 'hot', of type str"),
        (lambda: MaintenancePolicy(operations=TEXT), "operations is 'hot', of type str"),
        (lambda: MaintenancePolicy(thresholds=BY_NAME), "thresholds is"),
    ],
)
def test_an_argument_of_another_type_is_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        build()
