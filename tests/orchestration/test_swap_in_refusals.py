"""Unsupported settings of other integrations are rejected and never silently ignored."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from delta_ops.errors import InvalidRequestError, TableExistsError
from delta_ops.orchestration import DeltaIOManager
from delta_ops.orchestration.dagster_versions import VERSION
from delta_ops.orchestration.swap_in import (
    dagster_delta,
    dagster_deltalake,
    dagster_iceberg,
    dagster_polars,
)
from delta_ops.orchestration.swap_in.io_manager import table_folders
from delta_ops.orchestration.swap_in.storage_configs import (
    AzureConfig,
    ClientConfig,
    GcsConfig,
    LocalConfig,
    S3Config,
    StorageConfig,
)

Make = Callable[..., DeltaIOManager]
DELTALAKE: Make = dagster_deltalake.DeltaLakePyarrowIOManager
DELTA: Make = dagster_delta.DeltaLakePyarrowIOManager
POLARS: Make = dagster_polars.PolarsDeltaIOManager
ICEBERG: Make = dagster_iceberg.DeltaLakeIOManager


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as one:
        yield one


def write(
    manager: DeltaIOManager,
    instance: dg.DagsterInstance,
    metadata: Mapping[str, Any],
    *,
    of_output: bool = False,
) -> None:
    @dg.asset(metadata={} if of_output else dict(metadata))
    def t() -> dg.Output[pa.Table]:
        return dg.Output(pa.table({"x": [1]}), metadata=dict(metadata) if of_output else {})

    dg.materialize([t], resources={"io_manager": manager}, instance=instance)


@pytest.mark.parametrize(
    ("make", "fields", "message"),
    [
        (DELTALAKE, {"writer_engine": "java"}, "choose pyarrow or rust"),
        (DELTALAKE, {"writer_properties": {"compression": "zip"}}, "must be one of"),
        (DELTALAKE, {"writer_properties": {"codec": "zstd"}}, "choose from compression"),
        (DELTALAKE, {"client_options": "timeout=3s"}, "give a ClientConfig"),
        (DELTALAKE, {"client_options": {"proxy_url": "p"}}, "no option proxy_url"),
        (DELTALAKE, {"client_options": ClientConfig(proxy_url="p")}, "no option proxy_url"),
        (
            DELTALAKE,
            {
                "writer_properties": {"compression": "zstd"},
                "table_config": {"delta.parquet.compression.codec": "gzip"},
            },
            "another value of the table property",
        ),
        (DELTALAKE, {"table_confg": {"a": "b"}}, "has no field table_confg"),
        (DELTALAKE, {"root": "elsewhere"}, "both root_uri and root"),
        (ICEBERG, {"db_io_manager": "custom"}, "its fields are .*root_uri,.* namespace"),
        (DELTA, {"merge_config": {"merge_type": "other"}}, "choose from deduplicate_insert"),
        (DELTA, {"merge_config": "upsert"}, "give a MergeConfig"),
        (
            DELTA,
            {"merge_config": {"merge_type": "upsert", "error_on_type_mismatch": False}},
            "leave it out",
        ),
        (DELTA, {"schema_mode": "replace"}, "choose merge or overwrite"),
        (
            DELTA,
            {"schema_mode": "merge", "overwrite_schema": True},
            "and another value for",
        ),
        (DELTA, {"commit_properties": {"app_transactions": [1]}}, "only custom_metadata"),
    ],
)
def test_a_field_that_cannot_be_honoured_is_refused(
    make: Make, fields: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        make(**{"root_uri": "lake", "storage_options": LocalConfig(), **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"version": -3},
        {"extension": ".parquet"},
        {"mode": "append", "metadata": {"delta/mode": "overwrite"}},
    ],
)
def test_a_field_of_dagster_polars_that_cannot_be_honoured_is_refused(
    fields: Mapping[str, Any],
) -> None:
    with pytest.raises(InvalidRequestError):
        POLARS(base_dir="lake", **fields)


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("make", "metadata", "message"),
    [
        (DELTA, {"mode": "merge"}, "do not say which rows a merge matches"),
        pytest.param(
            DELTA,
            {"mode": dagster_delta.WriteMode.create_or_replace},
            "choose append, overwrite",
            marks=pytest.mark.skipif(
                VERSION < (1, 12, 22), reason="this Dagster runs no asset with an enum in metadata"
            ),
        ),
        (DELTA, {"merge_operations_config": {"a": "b"}}, "choose from when_not_matched_insert"),
        (
            DELTA,
            {"mode": "merge", "merge_config": {"merge_type": "custom", "predicate": "s.x = t.x"}},
            "give a list of clauses",
        ),
        (DELTA, {"custom_metadata": {"operation": 3}}, "names to strings"),
        (DELTA, {"mode": "append", "delta/mode": "overwrite"}, "and another value for delta/mode"),
        (DELTA, {"custom_metadata": {"dagster/run_id": "mine"}}, "give it another name"),
        (DELTA, {"root_name": 3}, "give a string"),
        (POLARS, {"delta_merge_options": {"predicate": "s.id = t.id"}}, "which does not merge"),
        (POLARS, {"delta_merge_options": {"streamed_exec": True}}, "use delta/mode merge"),
        (POLARS, {"when_matched_update_all": "no"}, "choose True or False"),
        (
            POLARS,
            {"mode": "merge", "when_matched_delete": {}},
            "which delta_ops does not read; use",
        ),
        (DELTA, {"merge_predicate": "s.id = t.id"}, "which does not merge"),
        (DELTA, {"merge_config": {"merge_tpe": "upsert"}}, "give a merge_type"),
        (ICEBERG, {"upsert_options": {"join_cols": ["x"]}}, "which does not merge"),
        (
            ICEBERG,
            {"upsert_options": {"join_cols": ["x"], "when_matched_update_all": "no"}},
            "choose True or False",
        ),
        (
            POLARS,
            {"delta_write_options": {"predicate": "x = 1"}},
            "the options schema_mode, configuration",
        ),
        (POLARS, {"partition_by": 3}, "give a column"),
        (ICEBERG, {"write_mode": "upsert", "upsert_options": {"keys": ["x"]}}, "give join_cols"),
        (ICEBERG, {"table_properties": {"write.parquet.page-size-bytes": "1"}}, "Iceberg's"),
        (ICEBERG, {"schema_update_mode": "drop"}, "choose error or update"),
    ],
)
def test_metadata_that_cannot_be_honoured_are_refused_before_anything_is_written(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    make: Make,
    metadata: Mapping[str, Any],
    message: str,
) -> None:
    manager = make(base_dir=str(tmp_path)) if make is POLARS else make(root_uri=str(tmp_path))
    with pytest.raises(InvalidRequestError, match=message):
        write(manager, instance, metadata)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "metadata"),
    [
        (DELTA, {"merge_predicate": None, "writer_properties": {}}),
        (DELTA, {"overwrite_schema": True, "schema_mode": "overwrite"}),
        (POLARS, {"streaming": True}),
        (ICEBERG, {"partition_spec_update_mode": "update"}),
        (ICEBERG, {"owner": "somebody"}),
    ],
)
def test_harmless_metadata_are_no_error(
    tmp_path: Path, instance: dg.DagsterInstance, make: Make, metadata: Mapping[str, Any]
) -> None:
    manager = make(base_dir=str(tmp_path)) if make is POLARS else make(root_uri=str(tmp_path))
    write(manager, instance, metadata)
    assert any(tmp_path.rglob("_delta_log"))


@pytest.mark.parametrize("name", ["schema", "root_name"])
def test_the_output_cannot_name_another_table(
    tmp_path: Path, instance: dg.DagsterInstance, name: str
) -> None:
    with pytest.raises(
        InvalidRequestError,
        match="by the metadata of the asset's definition; set them",
    ):
        write(DELTA(root_uri=str(tmp_path)), instance, {name: "other"}, of_output=True)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (POLARS, "pyarrow_options"),
        (POLARS, "delta_table_options"),
    ],
)
def test_an_input_is_not_read_otherwise_without_a_word(
    tmp_path: Path, instance: dg.DagsterInstance, make: Make, name: str
) -> None:
    manager = make(base_dir=str(tmp_path)) if make is POLARS else make(root_uri=str(tmp_path))

    @dg.asset(ins={"t": dg.AssetIn(metadata={name: 1})})
    def reader(t: pa.Table) -> None: ...

    with pytest.raises(InvalidRequestError, match=f"the input t have {name}"):
        dg.materialize(
            [dg.AssetSpec("t"), reader], resources={"io_manager": manager}, instance=instance
        )


@pytest.mark.parametrize(("mode", "again"), [("error", TableExistsError), ("ignore", None)])
def test_the_modes_for_a_new_table_write_it_once(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    mode: str,
    again: type[TableExistsError] | None,
) -> None:
    manager = DELTALAKE(root_uri=str(tmp_path), mode=mode)
    write(manager, instance, {})
    if again is None:
        write(manager, instance, {})
        event = instance.get_latest_materialization_event(dg.AssetKey("t"))
        assert event is not None
        assert event.asset_materialization is not None
        assert event.asset_materialization.metadata["delta/version"].value == 0
    else:
        with pytest.raises(again):
            write(manager, instance, {})
    assert len(list((tmp_path / "public/t/_delta_log").glob("*.json"))) == 1


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_a_mode_for_a_new_table_is_refused_for_partitions(
    tmp_path: Path, instance: dg.DagsterInstance, mode: str
) -> None:
    @dg.asset(
        partitions_def=dg.StaticPartitionsDefinition(["a", "b"]),
        metadata={"partition_expr": "k", "mode": mode},
    )
    def t() -> pa.Table:
        return pa.table({"k": ["a"]})

    with pytest.raises(InvalidRequestError, match="only the first partition of asset"):
        dg.materialize(
            [t],
            resources={"io_manager": DELTALAKE(root_uri=str(tmp_path))},
            instance=instance,
            partition_key="a",
        )


@pytest.mark.parametrize(
    ("base", "method"),
    [
        pytest.param(dagster_polars.PolarsDeltaIOManager, "write_df_to_path", id="writes"),
        pytest.param(dagster_polars.PolarsDeltaIOManager, "scan_df_from_path", id="reads"),
        pytest.param(dagster_polars.PolarsDeltaIOManager, "get_predicate", id="partitions"),
        pytest.param(dagster_polars.PolarsDeltaIOManager, "get_metadata", id="metadata"),
        pytest.param(dagster_delta.BaseDeltaLakeIOManager, "create_io_manager", id="a client"),
        pytest.param(dagster_deltalake.DeltalakeBaseArrowTypeHandler, "to_arrow", id="a type"),
    ],
)
def test_a_subclass_that_overrides_what_nothing_calls_is_refused(base: type, method: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"class Mine overrides {method}"):
        type("Mine", (base,), {method: lambda *_given: None})


def test_a_subclass_without_hooks_of_the_other_package_is_fine(tmp_path: Path) -> None:
    class Mine(dagster_polars.PolarsDeltaIOManager):
        def event_metadata(self, *_given: Any) -> dict[str, Any]:
            return {}

    class Handler(dagster_deltalake.DeltalakeBaseArrowTypeHandler[pa.Table]):
        pass

    assert Mine(base_dir=str(tmp_path)).log("t").uri == str(tmp_path / "t")
    assert isinstance(Handler(), dagster_deltalake.DeltalakeBaseArrowTypeHandler)


def test_a_type_handler_of_somebody_else_is_refused() -> None:
    class Mine(dagster_deltalake.DeltaLakeIOManager):
        @staticmethod
        def type_handlers() -> Any:
            return [object()]

    make: Make = Mine
    with pytest.raises(InvalidRequestError, match="register_type_handler"):
        make(root_uri="lake", storage_options=LocalConfig())


@pytest.mark.parametrize(
    ("config", "root", "options"),
    [
        (
            S3Config(
                access_key_id=dg.EnvVar("K"),
                region="eu-west-1",
                endpoint="http://127.0.0.1:1",
                allow_unsafe_rename=True,
                bucket="b",
                imdsv1_fallback=False,
            ),
            "s3://b/lake",
            {"key": "K", "aws_region": "eu-west-1", "endpoint_url": "http://127.0.0.1:1"},
        ),
        (
            AzureConfig(account_name="a", sas_key=dg.EnvVar("S"), container_name="c"),
            "abfss://c@a.dfs.core.windows.net/lake",
            {"account_name": "a", "sas_token": "S"},
        ),
        (GcsConfig(service_account="/key.json"), "gs://b", {"service_account": "/key.json"}),
        (LocalConfig(), "s3://b/lake", {}),
    ],
)
def test_a_storage_config_is_storage_options(
    config: StorageConfig, root: str, options: Mapping[str, Any]
) -> None:
    assert config.storage_options(root) == options


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: S3Config(unsigned_payload=True).storage_options("s3://b"), "no option unsigned"),
        (lambda: AzureConfig(use_azure_cli=True).storage_options("az://b"), "no option use_azure"),
        (lambda: ClientConfig(proxy_url="p").storage_options(None), "no option proxy_url"),
        (
            lambda: ClientConfig(allow_invalid_certificates=True).storage_options(None),
            "no option allow_invalid",
        ),
        (lambda: LocalConfig(path="x").storage_options("lake"), "known are none"),
        (lambda: S3Config(bucket="a").storage_options("s3://b/lake"), "another bucket"),
        (lambda: GcsConfig().storage_options("s3://b/lake"), "gs://"),
        (
            lambda: DELTALAKE(
                root_uri="s3://b", storage_options=S3Config(secret_access_key="very secret")
            ),
            "the storage option secret is a literal secret",
        ),
    ],
)
def test_a_storage_config_that_cannot_be_honoured_is_refused(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message) as refused:
        make()
    assert "very secret" not in str(refused.value)


def test_a_storage_config_shows_no_value() -> None:
    assert repr(S3Config(secret_access_key="very secret")) == "S3Config(secret_access_key)"


@pytest.mark.parametrize(
    ("key", "metadata", "schema", "folders"),
    [
        (["t"], {}, None, ("public", "t")),
        (["a", "b", "t"], {}, None, ("b", "t")),
        (["a", "b", "t"], {}, "mine", ("mine", "t")),
        (["b", "t"], {"schema": "its"}, "mine", ("its", "t")),
        (["b", "t"], {"root_name": "other"}, None, ("b", "other")),
        (["t"], {"schema": dg.MetadataValue.text("its")}, None, ("its", "t")),
    ],
)
def test_the_schema_is_that_of_the_metadata_then_the_io_manager_then_the_key(
    key: list[str], metadata: Mapping[str, Any], schema: str | None, folders: tuple[str, str]
) -> None:
    assert table_folders(dg.AssetKey(key), metadata, schema) == folders
