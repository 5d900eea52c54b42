"""Code as in other integrations' documentation runs here after a change of imports."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.support.tables import rows_by_deltalake

PROJECT = Path(__file__).resolve().parents[2]
HERE = "delta_ops.orchestration.swap_in."
Rows = list[dict[str, Any]]


class Run(NamedTuple):
    """One materialization of some assets of an example."""

    selection: str
    partition: str | None = None


class Example(NamedTuple):
    """A user's code, and the rows of its tables after these runs."""

    code: str
    runs: Sequence[Run]
    tables: Mapping[str, Rows]


PLANTS: Rows = [{"name": "fern", "height": 3.0}, {"name": "moss", "height": 1.0}]
DEFS = "\ndefs = dg.Definitions(assets=ASSETS, resources={'io_manager': IO_MANAGER})\n"
PANDAS = """
    import dagster as dg
    import pandas as pd
    from dagster_deltalake import LocalConfig
    from dagster_deltalake_pandas import DeltaLakePandasIOManager

    IO_MANAGER = DeltaLakePandasIOManager(
        root_uri="lake", storage_options=LocalConfig(), schema="garden"
    )
"""
PYARROW = """
    import dagster as dg
    import pyarrow as pa
    import pyarrow.compute as pc
    from dagster_deltalake import DeltaLakePyarrowIOManager, LocalConfig, WriteMode

    IO_MANAGER = DeltaLakePyarrowIOManager(root_uri="lake", storage_options=LocalConfig())
"""
DELTA = """
    import dagster as dg
    import polars as pl
    from dagster_delta import (
        DeltaLakePolarsIOManager, GcsConfig, LocalConfig, SchemaMode, WriteMode
    )

    IO_MANAGER = DeltaLakePolarsIOManager(
        root_uri="lake", storage_options=LocalConfig(), mode=WriteMode.overwrite
    )
"""
POLARS = """
    import dagster as dg
    import polars as pl
    from dagster_polars import PolarsDeltaIOManager

    IO_MANAGER = PolarsDeltaIOManager(base_dir="lake")
"""
ICEBERG = """
    import dagster as dg
    import pyarrow as pa
    from dagster_iceberg import DeltaLakeIOManager

    IO_MANAGER = DeltaLakeIOManager(root_uri="lake", namespace="garden")
"""
PARTITIONED = """
    @dg.asset(
        partitions_def=dg.StaticPartitionsDefinition(["fern", "moss"]),
        metadata={"partition_expr": "name"},
    )
    def plants(context) -> pa.Table:
        return pa.table({"name": [context.partition_key], "height": [1.0]})
"""
EXAMPLES = {
    "deltalake: assets in a schema, one of them made elsewhere": Example(
        PANDAS
        + """
    measured = dg.AssetSpec("measured")

    @dg.asset
    def plants(measured: pd.DataFrame) -> pd.DataFrame:
        return measured.dropna()

    @dg.asset
    def tall(plants):
        return plants[plants["height"] > 2]

    ASSETS = [measured, plants, tall]
    """,
        [Run("*")],
        {"garden/plants": PLANTS, "garden/tall": PLANTS[:1]},
    ),
    "deltalake: some columns of an input": Example(
        PANDAS
        + """
    @dg.asset(ins={"heights": dg.AssetIn(key="measured", metadata={"columns": ["height"]})})
    def doubled(heights: pd.DataFrame) -> pd.DataFrame:
        heights["twice"] = heights["height"] * 2
        return heights

    ASSETS = [dg.AssetSpec("measured"), doubled]
    """,
        [Run("*")],
        {"garden/doubled": [{"height": 1.0, "twice": 2.0}, {"height": 3.0, "twice": 6.0}]},
    ),
    "deltalake: static partitions, read as a whole": Example(
        PYARROW
        + PARTITIONED
        + """
    @dg.asset
    def heights(plants: pa.Table) -> pa.Table:
        return plants.group_by("name").aggregate([("height", "sum")])

    ASSETS = [plants, heights]
    """,
        [Run("plants", "fern"), Run("plants", "moss"), Run("plants", "moss"), Run("heights")],
        {"public/heights": [{"name": n, "height_sum": 1.0} for n in ("fern", "moss")]},
    ),
    "deltalake: a partition for each day": Example(
        PYARROW
        + """
    DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-04")

    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "time"})
    def readings(context) -> pa.Table:
        start, _ = context.partition_time_window
        return pa.table({"time": [start.replace(hour=hour) for hour in (0, 23)]})

    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def counts(context, readings: pa.Table) -> pa.Table:
        return pa.table({"day": [context.partition_key], "num": [len(readings)]})

    ASSETS = [readings, counts]
    """,
        [Run("*", "2026-01-01"), Run("*", "2026-01-02"), Run("*", "2026-01-01")],
        {"public/counts": [{"day": f"2026-01-0{n}", "num": 2} for n in (1, 2)]},
    ),
    "deltalake: partitions of two dimensions": Example(
        PYARROW
        + """
    @dg.asset(
        partitions_def=dg.MultiPartitionsDefinition(
            {
                "date": dg.DailyPartitionsDefinition(start_date="2026-01-01"),
                "kind": dg.StaticPartitionsDefinition(["fern", "moss"]),
            }
        ),
        metadata={"partition_expr": {"date": "day", "kind": "name"}},
    )
    def plants(context) -> pa.Table:
        keys = context.partition_key.keys_by_dimension
        return pa.table({"day": [keys["date"]], "name": [keys["kind"]]})

    ASSETS = [plants]
    """,
        [Run("*", f"2026-01-0{day}|{kind}") for day in (1, 2, 1) for kind in ("fern", "moss")],
        {
            "public/plants": [
                {"day": f"2026-01-0{day}", "name": kind}
                for day in (1, 2)
                for kind in ("fern", "moss")
            ]
        },
    ),
    "deltalake: schemas by keys and by metadata": Example(
        PYARROW
        + """
    @dg.asset(key_prefix=["a", "ferns"])
    def small() -> pa.Table:
        return pa.table({"x": [1]})

    @dg.asset(key_prefix=["a", "ferns"], metadata={"schema": "mosses"})
    def large(context) -> pa.Table:
        return pa.table({"x": [2]})

    @dg.asset(ins={"large": dg.AssetIn(key=["a", "ferns", "large"])})
    def copied(large: pa.Table) -> pa.Table:
        return large

    ASSETS = [small, large, copied]
    """,
        [Run("*")],
        {"ferns/small": [{"x": 1}], "mosses/large": [{"x": 2}], "public/copied": [{"x": 2}]},
    ),
    "deltalake: an IO manager of one's own for several types": Example(
        """
    import dagster as dg
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from dagster_deltalake import (
        DeltaLakeIOManager, DeltaLakePyArrowTypeHandler, LocalConfig, WriteMode
    )
    from dagster_deltalake_pandas import DeltaLakePandasTypeHandler
    from dagster_deltalake_polars import DeltaLakePolarsTypeHandler

    class MyIOManager(DeltaLakeIOManager):
        @staticmethod
        def type_handlers():
            return [
                DeltaLakePandasTypeHandler(),
                DeltaLakePyArrowTypeHandler(),
                DeltaLakePolarsTypeHandler(),
            ]

        @staticmethod
        def default_load_type():
            return pd.DataFrame

    IO_MANAGER = MyIOManager(
        root_uri="lake",
        storage_options=LocalConfig(),
        mode=WriteMode.append,
        table_config={"delta.checkpointInterval": "7"},
        custom_metadata={"team": "green"},
    )

    @dg.asset
    def first() -> pa.Table:
        return pa.table({"x": [1]})

    @dg.asset
    def second(first):
        assert isinstance(first, pd.DataFrame)
        return pl.from_pandas(first)

    @dg.asset(metadata={"mode": "overwrite"})
    def third(second: pl.DataFrame) -> pl.DataFrame:
        return second

    ASSETS = [first, second, third]
    """,
        [Run("first"), Run("*")],
        {
            "public/first": [{"x": 1}] * 2,
            "public/second": [{"x": 1}] * 2,
            "public/third": [{"x": 1}] * 2,
        },
    ),
    "deltalake: beside another IO manager": Example(
        PYARROW
        + """
    @dg.asset(io_manager_key="io_manager")
    def plants() -> pa.Table:
        return pa.table({"x": [1, 2]})

    @dg.asset(io_manager_key="files")
    def picture(plants: pa.Table) -> str:
        return "*" * len(plants)

    @dg.asset
    def widths(picture: str) -> pa.Table:
        return pa.table({"x": [len(picture)]})

    defs = dg.Definitions(
        assets=[plants, picture, widths],
        resources={
            "io_manager": IO_MANAGER, "files": dg.FilesystemIOManager(base_dir="files")
        },
    )
    """,
        [Run("*")],
        {"public/widths": [{"x": 2}]},
    ),
    "delta: metadata of an asset": Example(
        DELTA
        + """
    @dg.asset(
        metadata={
            "table_configuration": {"delta.checkpointInterval": "7"},
            "mode": "append",
            "schema": "garden",
            "schema_mode": "merge",
            "custom_metadata": {"team": "green"},
        }
    )
    def plants(context) -> pl.DataFrame:
        name = "y" if context.instance.get_latest_materialization_event(context.asset_key) else "x"
        return pl.DataFrame({name: [1]})

    ASSETS = [plants]
    """,
        [Run("*"), Run("*")],
        {"garden/plants": [{"x": 1, "y": None}, {"x": None, "y": 1}]},
    ),
    "delta: a merge, by the IO manager": Example(
        """
    import dagster as dg
    import polars as pl
    from dagster_delta import (
        DeltaLakePolarsIOManager, LocalConfig, MergeConfig, MergeType, WriteMode
    )

    IO_MANAGER = DeltaLakePolarsIOManager(
        root_uri="lake",
        storage_options=LocalConfig(),
        mode=WriteMode.merge,
        merge_config=MergeConfig(
            merge_type=MergeType.upsert,
            predicate="s.name = t.name",
            source_alias="s",
            target_alias="t",
        ),
    )

    @dg.asset(metadata={"merge_predicate": "s.key = t.key"})
    def plants(context) -> pl.DataFrame:
        is_new = context.instance.get_latest_materialization_event(context.asset_key) is None
        rows = [(1, 1), (2, 1)] if is_new else [(2, 2), (3, 2)]
        return pl.DataFrame(rows, schema=["key", "n"], orient="row")

    ASSETS = [plants]
    """,
        [Run("*"), Run("*")],
        {"public/plants": [{"key": 1, "n": 1}, {"key": 2, "n": 2}, {"key": 3, "n": 2}]},
    ),
    "delta: some rows of an input": Example(
        DELTA
        + """
    @dg.asset
    def plants() -> pl.DataFrame:
        return pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})

    @dg.asset(ins={"plants": dg.AssetIn(metadata={"predicate": "a > 1", "columns": ["b"]})})
    def later(plants: pl.DataFrame) -> pl.DataFrame:
        return plants

    ASSETS = [plants, later]
    """,
        [Run("*")],
        {"public/later": [{"b": "y"}, {"b": "z"}]},
    ),
    "polars: a merge": Example(
        POLARS
        + """
    @dg.asset(
        metadata={
            "mode": "merge",
            "delta_merge_options": {
                "source_alias": "s",
                "target_alias": "t",
                "predicate": "s.key == t.key",
                "merge_schema": True,
            },
            "when_not_matched_by_source_delete": True,
        }
    )
    def plants(context) -> pl.DataFrame:
        if context.instance.get_latest_materialization_event(context.asset_key) is None:
            return pl.DataFrame({"key": [1, 2], "n": [1, 1]})
        return pl.DataFrame({"key": [2, 3], "n": [2, 2], "m": ["new", "new"]})

    ASSETS = [plants]
    """,
        [Run("*"), Run("*")],
        {"plants.delta": [{"key": 2, "n": 2, "m": "new"}, {"key": 3, "n": 2, "m": "new"}]},
    ),
    "iceberg: an upsert": Example(
        ICEBERG
        + """
    @dg.asset(
        metadata={
            "write_mode": "upsert",
            "upsert_options": {
                "join_cols": ["key"],
                "when_matched_update_all": False,
                "when_not_matched_insert_all": True,
            },
        }
    )
    def plants(context) -> pa.Table:
        is_new = context.instance.get_latest_materialization_event(context.asset_key) is None
        return pa.table({"key": [1, 2] if is_new else [2, 3], "n": [1, 1] if is_new else [2, 2]})

    ASSETS = [plants]
    """,
        [Run("*"), Run("*")],
        {"garden/plants": [{"key": 1, "n": 1}, {"key": 2, "n": 1}, {"key": 3, "n": 2}]},
    ),
    "delta: two assets are parts of one table": Example(
        DELTA
        + """
    def part(name, keys):
        @dg.asset(
            name=name,
            partitions_def=dg.StaticPartitionsDefinition(keys),
            metadata={"partition_expr": "key", "root_name": "whole"},
        )
        def rows(context) -> pl.DataFrame:
            return pl.DataFrame({"key": [context.partition_key]})

        return rows

    @dg.asset
    def counted(part_1, part_2):
        return pl.DataFrame({"num": [len(part_1), len(part_2)]})

    ASSETS = [part("part_1", ["a", "b"]), part("part_2", ["c", "d"]), counted]
    """,
        [*(Run("part_1", key) for key in "aab"), Run("part_2", "c"), Run("counted")],
        {"public/whole": [{"key": k} for k in "abc"], "public/counted": [{"num": 1}, {"num": 2}]},
    ),
    "delta: the Output overrides the asset": Example(
        DELTA
        + """
    @dg.asset(metadata={"mode": "append", "schema_mode": "merge"})
    def plants(context) -> pl.DataFrame:
        is_new = context.instance.get_latest_materialization_event(context.asset_key) is None
        if not is_new:
            context.add_output_metadata({"mode": "overwrite", "schema_mode": "overwrite"})
        return pl.DataFrame({"x" if is_new else "y": [1]})

    ASSETS = [plants]
    """,
        [Run("*"), Run("*")],
        {"public/plants": [{"y": 1}]},
    ),
    "polars: append, and new columns": Example(
        POLARS
        + """
    @dg.asset(
        key_prefix=["garden"],
        metadata={"mode": "append", "delta_write_options": {"schema_mode": "merge"}},
    )
    def plants(context) -> pl.DataFrame:
        name = "y" if context.instance.get_latest_materialization_event(context.asset_key) else "x"
        return pl.DataFrame({name: [1]})

    @dg.asset(ins={"plants": dg.AssetIn(key=["garden", "plants"], metadata={"columns": ["x"]})})
    def xs(plants: pl.LazyFrame) -> pl.LazyFrame:
        return plants.drop_nulls()

    ASSETS = [plants, xs]
    """,
        [Run('key:"garden/plants"'), Run("*")],
        {"garden/plants.delta": [{"x": 1, "y": None}, {"x": None, "y": 1}], "xs.delta": [{"x": 1}]},
    ),
    "polars: partitions in one table": Example(
        POLARS
        + """
    @dg.asset(
        metadata={"partition_by": "name"},
        partitions_def=dg.StaticPartitionsDefinition(["fern", "moss"]),
    )
    def plants(context) -> pl.DataFrame:
        return pl.DataFrame({"height": [1]}).with_columns(
            pl.lit(context.partition_key).alias("name")
        )

    @dg.asset
    def names(plants: pl.LazyFrame) -> pl.DataFrame:
        return plants.select("name").collect()

    ASSETS = [plants, names]
    """,
        [Run("plants", "fern"), Run("plants", "moss"), Run("plants", "fern"), Run("names")],
        {"names.delta": [{"name": "fern"}, {"name": "moss"}]},
    ),
    "iceberg: the write mode, overridden by the Output": Example(
        ICEBERG
        + """
    @dg.asset(metadata={"write_mode": "append", "schema_update_mode": "update"})
    def plants(context) -> pa.Table:
        if context.run.tags.get("again"):
            context.add_output_metadata({"write_mode": "overwrite"})
        name = "y" if context.instance.get_latest_materialization_event(context.asset_key) else "x"
        return pa.table({name: [1]})

    ASSETS = [plants]
    """,
        [Run("*"), Run("*")],
        {"garden/plants": [{"x": 1, "y": None}, {"x": None, "y": 1}]},
    ),
}


def change_imports(code: str) -> str:
    """The code with its imports changed to our modules; nothing else changes."""
    return re.sub(r"^from (dagster_\w+) import", rf"from {HERE}\1 import", code, flags=re.M)


def load(code: str) -> dg.Definitions:
    scope: dict[str, Any] = {"__name__": "example"}
    source = change_imports(dedent(code))
    exec(compile(source if "defs =" in source else source + DEFS, "example", "exec"), scope)
    defs: dg.Definitions = scope["defs"]
    return defs


def materialize(
    defs: dg.Definitions, instance: dg.DagsterInstance, selection: str, partition: str | None
) -> dg.ExecuteInProcessResult:
    assets: Any = defs.assets
    return dg.materialize(
        list(assets),
        selection=selection,
        resources=dict(defs.resources or {}),
        instance=instance,
        partition_key=partition,
    )


def sort_rows(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


PARTS_ARE_TESTED_ELSEWHERE = (
    "deltalake: some columns of an input",
    "deltalake: a partition for each day",
    "deltalake: beside another IO manager",
    "delta: the Output overrides the asset",
)


@pytest.mark.some_cases(6)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name in PARTS_ARE_TESTED_ELSEWHERE else ())
        for name in EXAMPLES
    ],
)
def test_an_example_runs_with_its_imports_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    da.write(tmp_path / "lake/garden/measured", pa.Table.from_pylist(PLANTS))
    example = EXAMPLES[name]
    defs = load(example.code)
    for run in example.runs:
        assert materialize(defs, instance, run.selection, run.partition).success
    found = {
        table: sort_rows(rows_by_deltalake(tmp_path / "lake" / table)) for table in example.tables
    }
    assert found == {table: sort_rows(rows) for table, rows in example.tables.items()}


def test_settings_of_the_io_manager_reach_the_table_and_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (
        "deltalake: an IO manager of one's own for several types",
        "delta: metadata of an asset",
    ):
        defs = load(EXAMPLES[name].code)
        run_id = materialize(defs, instance, "*", None).run_id
        table = "public/first" if name.startswith("deltalake") else "garden/plants"
        log = DeltaLog(tmp_path / "lake" / table)
        assert log.snapshot().metadata.configuration["delta.checkpointInterval"] == "7"
        (commit,) = log.commits(0, 0)
        assert commit.info is not None
        recorded = json.loads(commit.info.values["userMetadata"])
        assert (recorded["team"], recorded["dagster/run_id"]) == ("green", run_id)


def test_partition_by_of_dagster_polars_lays_out_a_new_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    monkeypatch.chdir(tmp_path)
    defs = load(EXAMPLES["polars: partitions in one table"].code)
    materialize(defs, instance, "plants", "fern")
    assert DeltaLog(tmp_path / "lake/plants.delta").snapshot().partition_columns == ("name",)


def test_the_page_about_other_integrations_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    page = (PROJECT / "docs" / "coming-from-others.md").read_text()
    code, maintained = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    assert materialize(load(code), instance, "*", None).success
    found = rows_by_deltalake(tmp_path / "lake/garden/widths")
    assert [row["width"] for row in found if row["index"] == "mean"] == [2.0]
    (leaves,) = load(maintained).resolve_all_asset_specs()
    assert leaves.metadata["dagster/uri"].value.endswith("lake/garden/leaves")
