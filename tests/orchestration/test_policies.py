"""Policies: which policy applies to a table, and what it decides."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from pydantic import ValidationError

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import HealthThresholds
from delta_ops.orchestration import (
    MaintenancePolicy,
    TableRef,
    build_log_maintenance_job,
    build_maintenance_job,
    build_maintenance_sensor,
)
from delta_ops.orchestration.policies.choice import assign_policies, due_operations

ROWS = pa.table({"x": [1, 2, 3]})
KEYS = ("sales/orders", "sales/raw/clicks", "stock", "sales2/orders")


def table_ref(name: str, root: Path | str = "lake") -> TableRef:
    return TableRef(asset_key=dg.AssetKey(name.split("/")), uri=f"{root}/{name}")


def written(root: Path, name: str, files: int, **properties: str) -> TableRef:
    for _ in range(files):
        da.write(root / name, ROWS, configuration=properties or None)
    return table_ref(name, root)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        pytest.param("sales/orders", "one", id="its own key before any prefix"),
        pytest.param("sales/raw/clicks", "raw", id="the longest of two prefixes"),
        pytest.param("stock", "all", id="the policy for all"),
        pytest.param("sales2/orders", "all", id="a prefix ends where a part of the key ends"),
    ],
)
def test_the_most_exact_policy_of_a_table_counts(name: str, chosen: str) -> None:
    policies = [
        MaintenancePolicy(name="all"),
        MaintenancePolicy(tables="sales/*", name="sales"),
        MaintenancePolicy(tables=["sales/orders"], name="one"),
        MaintenancePolicy(tables=["sales/raw/*", "other/*"], name="raw"),
    ]
    assigned = assign_policies([table_ref(key) for key in KEYS], policies)
    (found,) = [policy.name for policy, tables in assigned if table_ref(name) in tables]
    assert found == chosen


@pytest.mark.parametrize(
    ("pattern", "warning"),
    [
        pytest.param("sale/*", "no asset matches 'sale/*' of a policy; the closest", id="misspelt"),
        pytest.param("archive/*", "", id="the prefix of tables without an asset"),
        pytest.param("sales/*", "", id="the prefix of an asset"),
    ],
)
def test_a_prefix_that_nearly_matches_an_asset_is_reported(
    pattern: str, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    assign_policies(list(map(table_ref, KEYS)), [MaintenancePolicy(tables=[pattern])])
    assert [warning] * bool(warning) == [m[: len(warning)] for m in caplog.messages]


def test_a_table_that_no_policy_is_for_has_the_defaults() -> None:
    own = MaintenancePolicy(tables="stock")
    assigned = assign_policies([table_ref(key) for key in KEYS], [own])
    assert [(policy, len(tables)) for policy, tables in assigned] == [
        (own, 1),
        (MaintenancePolicy(), 3),
    ]


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        pytest.param(
            [MaintenancePolicy(tables="sales/order")],
            "'sales/order', which is not a table; the closest name is 'sales/orders'",
            id="for a table that there is not",
        ),
        pytest.param(
            [MaintenancePolicy(tables="stock"), MaintenancePolicy(tables="stock", name="b")],
            "2 policies match the table stock equally well",
            id="two for one table",
        ),
        pytest.param(
            [MaintenancePolicy(tables="sales/*"), MaintenancePolicy(tables="stock", name="sales")],
            "the jobs of 2 policies would have the same names, which end in 'sales'",
            id="jobs of one name",
        ),
    ],
)
def test_policies_that_do_not_fit_the_tables_are_refused(
    policies: list[MaintenancePolicy], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        assign_policies([table_ref(key) for key in KEYS], policies)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        pytest.param({"tables": "sales*"}, "cannot be for 'sales*'", id="half a name"),
        pytest.param({"tables": []}, "cannot be for ''", id="no tables"),
        pytest.param({"operations": ["vaccum"]}, "no operation 'vaccum'", id="operation"),
        pytest.param({"options": {"vacuum": {"mod": 1}}}, "no option 'mod'", id="option"),
        pytest.param(
            {"options": {"vacuum": {"retention": 7}}},
            "retention is 7, of type int; give a duration",
            id="type of an option",
        ),
        pytest.param(
            {"options": {"vacuum": {"keep_last": -5}}},
            "keep_last of vacuum cannot be -5; give 0 at least",
            id="number of an option",
        ),
        pytest.param(
            {"options": {"vacuum": {"mode": "all"}}},
            "mode of vacuum cannot be 'all'; choose from full, lite",
            id="value of an option",
        ),
        pytest.param({"name": "a b"}, "the name 'a b'", id="name"),
        pytest.param({"budget_s": 0}, "budget_s of a policy must be a whole number", id="budget"),
        pytest.param({"tables_at_once": 1.5}, "tables_at_once", id="tables at once"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(argument: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        MaintenancePolicy(**argument)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("policy", "due"),
    [
        pytest.param(MaintenancePolicy(), (), id="fewer small files than ten are left alone"),
        pytest.param(
            MaintenancePolicy(thresholds=HealthThresholds(small_files=4)),
            ("optimize",),
            id="a threshold of its own",
        ),
        pytest.param(
            MaintenancePolicy(
                thresholds=HealthThresholds(small_files=4), operations=["checkpoint"]
            ),
            (),
            id="operations that it leaves out",
        ),
        pytest.param(None, ("optimize",), id="no policy: whatever there is to do"),
    ],
)
def test_sensor_and_jobs_go_by_the_policy(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    policy: MaintenancePolicy | None,
    due: tuple[str, ...],
) -> None:
    table = written(tmp_path, "t", 4)
    assert due_operations(table.log(), policy)[:2] == (3, due)
    job = build_maintenance_job([table], policy=policy)
    tick = build_maintenance_sensor(job, [table], policy=policy).evaluate_tick(
        dg.build_sensor_context(instance)
    )
    assert len(tick.run_requests or []) == len(due)
    assert job.execute_in_process(instance=instance).success
    assert table.log().snapshot().num_files == (1 if due else 4)


def test_properties_of_a_table_override_the_policy(tmp_path: Path) -> None:
    table = written(tmp_path, "t", 4, **{"delta.checkpointInterval": "3"})
    for checkpoint in (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"):
        checkpoint.unlink()
    (tmp_path / "t" / "_delta_log" / "_last_checkpoint").unlink(missing_ok=True)
    assert due_operations(table.log(), MaintenancePolicy())[:2] == (3, ("checkpoint",))


def test_the_job_of_logs_rewrites_nothing(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    table = written(tmp_path, "t", 4)
    job = build_log_maintenance_job([table])
    assert job.execute_in_process(instance=instance).success
    assert table.log().snapshot().version == 3
    run_config = {"ops": {"maintain_tables": {"config": {"operations": ["optimize"]}}}}
    # Either Dagster or the config class rejects it first.
    with pytest.raises((dg.DagsterInvalidConfigError, ValidationError), match="optimize"):
        job.execute_in_process(instance=instance, run_config=run_config)


def test_a_policy_purges_from_a_share_of_deleted_rows_on(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = table_ref("t", tmp_path)
    vectors = {"delta.enableDeletionVectors": "true"}
    da.write(table.log(), pa.table({"x": range(30)}), configuration=vectors)
    da.delete(table.log(), "x < 3")
    later = MaintenancePolicy(thresholds=HealthThresholds(deleted_rows=0.2))
    assert due_operations(table.log(), later).operations == ()
    policy = MaintenancePolicy()
    assert due_operations(table.log(), policy).operations == ("purge",)
    job = build_maintenance_job([table], policy=policy)
    assert job.execute_in_process(instance=instance).success
    assert due_operations(table.log(), policy).operations == ()
    assert da.to_table(table.log())["x"].to_pylist() == list(range(3, 30))


def test_a_purge_that_would_be_due_for_ever_is_refused() -> None:
    MaintenancePolicy(options={"purge": {"deleted_share": 0.1}})
    with pytest.raises(InvalidRequestError, match="files between both values would keep it due"):
        MaintenancePolicy(options={"purge": {"deleted_share": 0.5}})


def test_options_of_the_policy_are_the_defaults_of_its_jobs(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    table = written(tmp_path, "t", 1)
    orphan = tmp_path / "t" / "orphan.parquet"
    orphan.write_bytes(b"")
    os.utime(orphan, (0, 0))
    policy = MaintenancePolicy(options={"vacuum": {"mode": "lite", "keep_last": 1}})
    job = build_maintenance_job([table], policy=policy)

    def vacuum(**settings: Any) -> None:
        config = {"operations": ["vacuum"], **settings}
        assert job.execute_in_process(
            instance=instance, run_config={"ops": {"maintain_tables": {"config": config}}}
        ).success

    vacuum()
    assert orphan.exists()
    vacuum(vacuum_mode="full")
    assert not orphan.exists()
    assert DeltaLog(table.uri).snapshot().num_files == 1
