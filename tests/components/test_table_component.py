"""A table of other writers, as an asset in YAML."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster.components.testing.utils import DefsFolderSandbox

from delta_ops.components import DeltaTableComponent
from delta_ops.components.attributes import AttributeRefusedError
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import DeltaLogResource, delta_ops_definitions
from delta_ops.orchestration.dagster_versions import (
    NUMBERS_AS_TAGS,
    PROJECT_ROOT,
    TEMPLATES_OF_DAGSTER,
    VERSION,
)
from tests.components.defs_files import loaded, specs_by_key

ROWS = pa.table({"id": [1, 2]})
S3_TABLE = {
    "uri": "s3://lake/sales/orders",
    "asset": {"key": "sales/orders"},
    "storage_options": {"key": {"env": "NOT_SET"}, "secret": {"env": "NOT_SET_EITHER"}},
}


def test_a_table_is_an_asset_with_what_its_file_says_and_what_dagster_links_by(
    sandbox: DefsFolderSandbox,
) -> None:
    tier = 1 if VERSION >= NUMBERS_AS_TAGS else "gold"
    asset = {
        "key": "sales/orders",
        "description": "All orders",
        "group_name": "sales",
        "owners": ["team:sales"],
        "kinds": ["s3"],
        "tags": {"tier": tier},
        "metadata": {"contract": "v3"},
        "deps": ["erp/orders"],
    }
    policy = None
    if VERSION >= TEMPLATES_OF_DAGSTER:
        policy = dg.FreshnessPolicy.time_window(dt.timedelta(hours=26))
        asset["freshness_policy"] = (
            "{{ dg.FreshnessPolicy.time_window(fail_window=datetime.timedelta(hours=26)) }}"
        )
    attributes = {**S3_TABLE, "asset": asset}
    with loaded(sandbox, "DeltaTableComponent", attributes) as (_, defs):
        spec = specs_by_key(defs)["sales/orders"]
    assert (spec.description, spec.group_name, list(spec.owners)) == (
        "All orders",
        "sales",
        ["team:sales"],
    )
    assert spec.kinds == {"deltalake", "s3"}
    assert spec.tags["tier"] == str(tier)
    assert [dep.asset_key.to_user_string() for dep in spec.deps] == ["erp/orders"]
    assert spec.freshness_policy == policy
    shown = {name: getattr(value, "value", value) for name, value in spec.metadata.items()}
    assert shown["contract"] == "v3"
    assert shown["dagster/uri"] == "s3://lake/sales/orders"
    assert shown["dagster/storage_kind"] == "deltalake"
    assert "dagster/table_name" in shown


def test_a_location_is_loaded_where_no_store_and_no_variable_is_there(
    sandbox: DefsFolderSandbox,
) -> None:
    with loaded(sandbox, "DeltaTableComponent", S3_TABLE) as (_, defs):
        dg.Definitions.validate_loadable(defs)


def test_digits_of_an_option_stay_text_and_templates_are_filled_in(
    sandbox: DefsFolderSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_ENDPOINT", "https://minio.example:9000")
    options = {
        "account_name": "0123",
        "client_kwargs": {"endpoint_url": "{{ env.LAKE_ENDPOINT }}"},
        "secret": {"env": "LAKE_SECRET"},
    }
    attributes = {**S3_TABLE, "storage_options": options}
    with loaded(sandbox, "DeltaTableComponent", attributes) as (component, _):
        assert component.table.storage_options == {
            **options,
            "client_kwargs": {"endpoint_url": "https://minio.example:9000"},
        }


@pytest.mark.parametrize(
    ("changes", "attribute", "line", "message"),
    [
        pytest.param(
            {"uri": "lake/orders"},
            "uri",
            3,
            f"relative path.*{PROJECT_ROOT}/lake/orders",
            id="a relative path",
        ),
        pytest.param(
            {"uri": "s3://user:hunter2@lake/orders"}, "uri", 3, "password", id="a password"
        ),
        pytest.param(
            {"storage_options": {"secret": "hunter2"}},
            "storage_options",
            6,
            "literal secret.*env: NAME",
            id="a secret that is written out",
        ),
        pytest.param(
            {"storage_options": {"secret": "{{ env.LAKE_SECRET }}"}},
            "storage_options",
            6,
            "literal secret.*env: NAME",
            id="a secret that a template writes out",
        ),
        pytest.param(
            {"uri": "{{ [1] }}"}, "uri", 3, "valid string", id="a template of another type"
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_file_line_and_attribute(
    sandbox: DefsFolderSandbox,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    attribute: str,
    line: int,
    message: str,
) -> None:
    monkeypatch.setenv("LAKE_SECRET", "hunter2")
    attributes = {**S3_TABLE, **changes}
    # Dagster wraps our error in its own, with the place in the component tree.
    with (
        pytest.raises(Exception, match="Error while loading component lake") as caught,
        loaded(sandbox, "DeltaTableComponent", attributes),
    ):
        pass
    error = caught.value.__cause__
    assert isinstance(error, InvalidRequestError)
    reported = str(error)
    assert re.search(message, reported)
    assert reported.startswith(f"{sandbox.defs_folder_path}/lake/defs.yaml:{line}: {attribute}: ")
    assert "\n" not in reported
    assert "hunter2" not in reported


def test_a_component_of_python_is_refused_by_the_same_sentence() -> None:
    with pytest.raises(AttributeRefusedError, match=r"^uri: 'orders' is a relative path"):
        DeltaTableComponent(uri="orders", asset=dg.AssetSpec("orders"))


@pytest.mark.parametrize("key", ["orders", "sales/orders"])
def test_a_table_with_times_for_its_check_and_its_maintenance_makes_a_location_that_loads(
    sandbox: DefsFolderSandbox, key: str
) -> None:
    attributes = {**S3_TABLE, "asset": {"key": key}, "check_cron": "0 6 * * *"}
    with loaded(sandbox, "DeltaTableComponent", attributes) as (_, defs):
        maintained = delta_ops_definitions(
            DeltaLogResource(root="s3://lake"),
            [dg.AssetSpec(key.split("/"))],
            with_checks=False,  # the component has the check
        )
        # The check of `dg check defs` and a code server: every job, with the names of its ops.
        dg.Definitions.validate_loadable(dg.Definitions.merge(defs, maintained))
