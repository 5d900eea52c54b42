"""Table facts in Dagster: version, columns, rows, place, and column lineage."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize, vacuum
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    TableRef,
    add_table_metadata,
    external_table,
)
from delta_ops.orchestration.markdown import console_url, place_link
from delta_ops.orchestration.metadata import (
    column_schema,
    definition_metadata,
    row_count,
)
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    PrimitiveType,
    StructField,
    StructType,
    schema_to_json,
)
from tests.orchestration.rendered_markdown import links, tokens

ROWS = pa.table({"x": [1, 2, 3]})
NO_TAGS: Mapping[str, str] = {}


def materialize(
    assets: list[dg.AssetsDefinition],
    lake: Path,
    instance: dg.DagsterInstance,
    *,
    partition_key: str | None = None,
) -> dg.ExecuteInProcessResult:
    defs = dg.Definitions(assets=assets, resources={"io_manager": DeltaIOManager(root=str(lake))})
    job = defs.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=instance, partition_key=partition_key, raise_on_error=False
    )


def latest(instance: dg.DagsterInstance, key: str) -> dg.AssetMaterialization:
    event = instance.get_latest_materialization_event(dg.AssetKey(key))
    assert event is not None
    assert event.asset_materialization is not None
    return event.asset_materialization


def figure(event: dg.AssetMaterialization, name: str) -> int:
    """A whole number of an event's metadata."""
    value = event.metadata[name].value
    assert isinstance(value, int)
    return value


def number(event: Any) -> int:
    """The number in an event's data version."""
    return int(event.tags["dagster/data_version"].rpartition("@")[2])


def small_files(place: Path) -> None:
    for _ in range(3):
        da.write(place, ROWS)


def test_columns_have_comments_and_constraints(tmp_path: Path) -> None:
    inner = StructType((StructField("a", LONG, nullable=False),))
    invariant = '{"expression": {"expression": "id > 0"}}'
    schema = StructType(
        (
            StructField("id", LONG, nullable=False, metadata={"delta.invariants": invariant}),
            StructField("text", STRING, metadata={"comment": "what *they* wrote"}),
            StructField("day", PrimitiveType("date")),
            StructField("inner", inner),
            StructField(
                "twice",
                LONG,
                metadata={"delta.generationExpression": "id * 2", "CURRENT_DEFAULT": "0"},
            ),
        )
    )
    table = {
        "id": "t",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_to_json(schema),
        "partitionColumns": ["day"],
        "configuration": {"delta.constraints.short": "len(text) < 9"},
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 4}
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    lines = [{"protocol": protocol}, {"metaData": table}]
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    shown = column_schema(DeltaLog(tmp_path / "t").snapshot())
    by_name = {column.name: column for column in shown.columns}
    assert by_name["id"].constraints.nullable is False
    assert by_name["id"].constraints.other == ["id > 0"]
    assert by_name["text"].description == "what *they* wrote"
    assert by_name["day"].tags == {"partition": ""}
    assert by_name["inner"].constraints.other == ["inner.a is not null"]
    assert by_name["twice"].tags == {"generated": ""}
    assert by_name["twice"].constraints.other == ["generated as id * 2", "default 0"]
    assert shown.constraints.other == ["short: len(text) < 9"]


def test_rows_are_counted_by_the_log(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path / "t")
    small_files(tmp_path / "t")
    assert row_count(log.snapshot()) == 9
    DeltaTable(tmp_path / "t").delete("x = 1")
    assert row_count(log.snapshot()) == 6


def test_definitions_describe_their_tables() -> None:
    @dg.asset(metadata={"dagster/table_name": "sales.orders", "mine": 1}, kinds={"pyspark"})
    def orders() -> None: ...

    @dg.multi_asset(specs=[dg.AssetSpec("a"), dg.AssetSpec(["deep", "b"])])
    def both():  # type: ignore[no-untyped-def]
        ...

    lake = DeltaLogResource(root="s3://bucket/lake")
    assets = add_table_metadata([orders, both, dg.AssetSpec("outside")], lake.table)
    graph = dg.Definitions(assets=assets).resolve_asset_graph()
    metadata = {key.to_user_string(): graph.get(key).metadata for key in graph.get_all_asset_keys()}
    assert metadata["orders"]["dagster/table_name"] == "sales.orders"
    assert metadata["orders"]["mine"] == 1
    assert metadata["deep/b"]["dagster/table_name"] == "deep/b"
    for name in ("orders", "a", "deep/b", "outside"):
        assert metadata[name]["dagster/storage_kind"] == "deltalake"
        assert metadata[name]["dagster/uri"] == dg.MetadataValue.text(f"s3://bucket/lake/{name}")
        assert "deltalake" in graph.get(dg.AssetKey(name.split("/"))).kinds
    assert graph.get(orders.key).kinds == {"pyspark", "deltalake"}


@pytest.mark.parametrize(
    ("uri", "link"),
    [
        pytest.param("s3://bucket/lake/orders", None, id="S3, which several stores speak"),
        pytest.param("/lake/orders", None, id="a local path"),
        pytest.param(
            "gs://bucket/lake/my table",
            "https://console.cloud.google.com/storage/browser/bucket/lake/my%20table",
            id="Google Cloud Storage",
        ),
    ],
)
def test_a_place_has_a_link_to_its_console(uri: str, link: str | None) -> None:
    assert console_url(uri) == link
    metadata = definition_metadata("orders", uri)
    assert metadata["dagster/uri"] == dg.MetadataValue.text(uri)
    assert metadata.get("delta/browse") == (link and dg.MetadataValue.url(link))


@pytest.mark.parametrize(
    ("uri", "shown", "targets"),
    [
        pytest.param("s3://bucket/t", "s3://bucket/t", [], id="no page"),
        pytest.param(
            "gs://bucket/my table",
            "gs://bucket/my table",
            ["https://console.cloud.google.com/storage/browser/bucket/my%20table"],
            id="a page of a console",
        ),
        pytest.param("https://host/a)b", "https://host/a)b", ["https://host/a%29b"], id="a link"),
        pytest.param("s3://key:secret@bucket/t", "s3://bucket/t", [], id="a secret"),
        pytest.param("/lake/`a`", "/lake/`a`", [], id="backticks in a name"),
    ],
)
def test_the_place_on_a_card_is_a_link_if_a_browser_can_open_it(
    uri: str, shown: str, targets: list[str]
) -> None:
    text = place_link(uri)
    assert "".join(code_parts(text)) == shown
    assert links(text) == targets


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("/lake/sales/orders", ["/lake", "/sales", "/orders"]),
        ("s3://bucket/lake/t", ["s3://bucket", "/lake", "/t"]),
        ("lake/orders", ["lake", "/orders"]),
        ("lake", ["lake"]),
    ],
)
def test_a_line_can_end_before_each_folder_of_a_place(uri: str, parts: list[str]) -> None:
    text = place_link(uri)
    assert code_parts(text) == parts
    breaks = [each for each in tokens(text) if each.type == "image"]
    assert [(each.attrs["src"], each.content) for each in breaks] == [("", "")] * (len(parts) - 1)


def code_parts(text: str) -> list[str]:
    return [each.content for each in tokens(text) if each.type == "code_inline"]


@pytest.mark.parametrize("is_placed", [False, True], ids=["not in the definition", "in both"])
def test_the_card_names_the_place_of_the_table_unless_the_definition_does(
    tmp_path: Path, instance: dg.DagsterInstance, is_placed: bool
) -> None:
    """The page of an asset hides the `dagster/uri` of events."""
    place = str(tmp_path / "orders")

    @dg.asset(metadata={"dagster/uri": place} if is_placed else {})
    def orders() -> pa.Table:
        return ROWS

    assert materialize([orders], tmp_path, instance).success
    card = str(latest(instance, "orders").metadata["delta/card"].value)
    assert "".join(code_parts(card)) == ("" if is_placed else place)


def test_a_materialization_and_the_definition_name_one_table(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset
    def orders() -> pa.Table:
        return ROWS

    assert materialize([orders], tmp_path, instance).success
    recorded = latest(instance, "orders").metadata
    spec = external_table(TableRef(asset_key=dg.AssetKey("orders"), uri=f"{tmp_path}/orders/"))
    assert recorded["dagster/table_name"].value == spec.metadata["dagster/table_name"] == "orders"
    assert "dagster/storage_kind" not in recorded
    assert recorded["dagster/row_count"].value == 3
    assert figure(latest(instance, "orders"), "dagster/size_bytes") > 0
    assert recorded["dagster/uri"] == dg.MetadataValue.text(str(tmp_path / "orders"))


def test_the_data_version_is_the_last_that_changed_rows(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    place = tmp_path / "orders"

    @dg.asset
    def orders() -> Snapshot:
        """An asset that finds its table already written by another writer."""
        return DeltaLog(place).snapshot()

    small_files(place)
    optimize(DeltaLog(place))
    vacuum(DeltaLog(place))
    assert DeltaLog(place).snapshot().version > 2
    assert materialize([orders], tmp_path, instance).success
    assert number(latest(instance, "orders")) == 2
    assert figure(latest(instance, "orders"), "delta/version") > 2


def test_a_write_of_no_rows_is_no_new_data_version(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata={"delta/mode": "append"})
    def orders() -> pa.Table:
        return ROWS.slice(0, 0)

    da.write(tmp_path / "orders", ROWS)
    assert materialize([orders], tmp_path, instance).success
    assert number(latest(instance, "orders")) == 0


@pytest.mark.parametrize("choice", ["table", "partition"])
def test_a_data_version_may_be_of_the_partition_alone(
    tmp_path: Path, instance: dg.DagsterInstance, choice: str
) -> None:
    place = tmp_path / "orders"

    @dg.asset(
        partitions_def=dg.StaticPartitionsDefinition(["nl", "be"]),
        metadata={"partition_expr": "country", "delta/data_version": choice},
    )
    def orders() -> Snapshot:
        return DeltaLog(place).snapshot()

    for country in ("nl", "be", "nl", "be", "be"):
        da.write(place, pa.table({"country": [country], "x": [1]}), partition_by=["country"])
    optimize(DeltaLog(place))
    for country in ("nl", "be"):
        assert materialize([orders], tmp_path, instance, partition_key=country).success
    records = instance.fetch_materializations(orders.key, limit=2, ascending=True).records
    numbers = [number(record.asset_materialization) for record in records]
    assert numbers == ([2, 4] if choice == "partition" else [4, 4])


def test_an_unknown_kind_of_data_version_is_refused_before_anything_is_written(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    @dg.asset(metadata={"delta/data_version": "row"})
    def orders() -> pa.Table:
        return ROWS

    result = materialize([orders], tmp_path, instance)
    (failure,) = result.get_step_failure_events()
    assert "'row'; choose table or partition" in str(failure.event_specific_data)
    assert DeltaLog(tmp_path / "orders").snapshot_if_exists() is None


def test_declared_lineage_of_columns_is_shown(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    lineage = {"total": {"shop/orders": ["price", "pieces"]}, "gone": {"orders": ["price"]}}

    @dg.asset(metadata={"delta/column_lineage": lineage})
    def totals() -> pa.Table:
        return pa.table({"total": [6], "day": [1]})

    result = materialize([totals], tmp_path, instance)
    assert result.success
    shown: Any = latest(instance, "totals").metadata["dagster/column_lineage"].value
    orders = dg.AssetKey(["shop", "orders"])
    assert list(shown.deps_by_column) == ["total"]
    assert set(shown.deps_by_column["total"]) == {
        dg.TableColumnDep(orders, "price"),
        dg.TableColumnDep(orders, "pieces"),
    }
    logged = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert any("names gone, of which the table has no column" in message for message in logged)


@pytest.mark.parametrize("lineage", ["price", {"total": "price"}, {"total": {"orders": "price"}}])
def test_lineage_in_another_shape_is_refused(
    tmp_path: Path, instance: dg.DagsterInstance, lineage: Any
) -> None:
    @dg.asset(metadata={"delta/column_lineage": lineage})
    def totals() -> pa.Table:
        return ROWS

    (failure,) = materialize([totals], tmp_path, instance).get_step_failure_events()
    assert InvalidRequestError.__name__ in str(failure.event_specific_data)
    assert '{"total": {"orders": ["price", "quantity"]}}' in str(failure.event_specific_data)


def test_the_examples_of_the_document_are_definitions() -> None:
    text = (Path(__file__).parents[2] / "docs/table-versions.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        names: dict[str, Any] = {}
        exec(compile(example, "example", "exec", dont_inherit=True), names)
        if "defs" in names:
            dg.Definitions.validate_loadable(names["defs"])
