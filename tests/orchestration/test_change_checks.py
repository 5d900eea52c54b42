"""Checks of columns and of the row count, compared with their earlier results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import create_checkpoint, optimize
from delta_ops.orchestration import (
    DeltaIOManager,
    TableRef,
    build_column_checks,
    build_row_count_checks,
    external_table,
)
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation
from tests.orchestration.rendered_markdown import links, plain_words, tokens

FOUR = pa.table({"x": [1, 2, 3, 4], "y": [1, 2, 3, 4]})
HOSTILE = (
    "a|b",
    "`" * 5,
    "[x](javascript:y)",
    "<script>x</script>",
    "x\n\n# y",
    "https://evil.example",
)
WARN, ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    """One instance for all tests, because tables have different names."""
    with dg.DagsterInstance.ephemeral() as real:
        yield real


class Look:
    """Evaluations of the checks for one table, one after the other, each in a run."""

    def __init__(
        self, root: Path, instance: dg.DagsterInstance, checks: Any, **options: Any
    ) -> None:
        self.instance, self.uri = instance, str(root / "t")
        ref = TableRef(asset_key=dg.AssetKey(["lake", root.name]), uri=self.uri)
        built: Sequence[dg.AssetChecksDefinition] = checks([ref], **options)
        look = dg.define_asset_job("look", selection=dg.AssetSelection.checks(*built))
        self.job = dg.Definitions(
            assets=[external_table(ref)],
            asset_checks=built,
            jobs=[look],
            resources={"io_manager": DeltaIOManager(root="nowhere")},
        ).resolve_job_def("look")

    def write(self, rows: pa.Table, **options: Any) -> None:
        """An overwrite by another writer; Dagster has no event for it."""
        write_deltalake(self.uri, rows, mode="overwrite", schema_mode="overwrite", **options)

    def evaluation(self) -> AssetCheckEvaluation:
        (found,) = self.job.execute_in_process(instance=self.instance).get_asset_check_evaluations()
        return found


def rename_column(place: Path, version: int, old: str, new: str) -> None:
    """Commit a version with a column name that no engine accepts."""
    log = place / "_delta_log"
    before = (log / f"{version - 1:020d}.json").read_text()
    lines = [json.loads(line) for line in before.splitlines()]
    (metadata,) = [line for line in lines if "metaData" in line]
    schema = json.loads(metadata["metaData"]["schemaString"])
    for field in schema["fields"]:
        field["name"] = new if field["name"] == old else field["name"]
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    (log / f"{version:020d}.json").write_text(json.dumps(metadata))


def test_columns_that_changed_are_named_once(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    look = Look(tmp_path, instance, build_column_checks)
    x = FOUR.schema.field("x")
    not_null = FOUR.cast(pa.schema([x, pa.field("y", pa.int64(), False)]))
    text = FOUR.set_column(1, "y", FOUR["y"].cast(pa.string()))
    for rows, reported in (
        (FOUR, "first result; the next result compares with it"),
        (FOUR.select(["y", "x"]), "as before"),
        (FOUR.select(["x"]), "removed `y`"),
        (FOUR, "added `y`"),
        (text, "changed `y` from `bigint` to `string`"),
        (not_null, "changed `y` from `string` to `bigint not null`"),
        (not_null.rename_columns(["x", "z"]), "added `z`; removed `y`"),
        (not_null.rename_columns(["x", "z"]), "as before"),
    ):
        look.write(rows)
        found = look.evaluation()
        is_change = "`" in reported
        assert (found.description, found.passed, found.severity) == (reported, not is_change, WARN)


def test_a_result_with_arrows_names_of_types_is_the_same_columns(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    look = Look(tmp_path, instance, build_column_checks)
    look.write(FOUR)
    first = look.evaluation()
    earlier = {"x": "int64", "y": "int64"}
    instance.report_runless_asset_event(
        AssetCheckEvaluation(
            asset_key=first.asset_key,
            check_name=first.check_name,
            passed=True,
            metadata={"delta/columns": dg.MetadataValue.json(earlier)},
        )
    )
    assert look.evaluation().description == "as before"


def test_columns_are_compared_with_what_was_seen_though_its_version_is_gone(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    look = Look(tmp_path, instance, build_column_checks)
    look.write(FOUR)
    look.evaluation()
    look.write(FOUR.select(["x"]))
    create_checkpoint(look.uri)
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").unlink()
    assert look.evaluation().description == "removed `y`"


def test_a_look_at_a_table_that_cannot_be_read_is_passed_over(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    look = Look(tmp_path, instance, build_column_checks)
    look.write(FOUR)
    look.evaluation()
    (tmp_path / "t").rename(tmp_path / "away")
    found = look.evaluation()
    assert (found.passed, found.severity) == (False, ERROR)
    assert "not a Delta table" in str(plain_words(str(found.description)))
    (tmp_path / "away").rename(tmp_path / "t")
    look.write(FOUR.select(["x"]))
    assert look.evaluation().description == "removed `y`"


def test_the_name_of_a_column_is_no_markup(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    look = Look(tmp_path, instance, build_column_checks)
    da.write(look.uri, FOUR)
    look.evaluation()
    old = "y"
    for version, name in enumerate(HOSTILE, 1):
        rename_column(Path(look.uri), version, old, name)
        found, old = look.evaluation(), name
        assert not found.passed
        assert str(found.description).startswith("added `")
        kinds = {each.type for each in tokens(str(found.description)) if each.children is None}
        assert kinds <= {"paragraph_open", "paragraph_close", "text", "code_inline"}
        assert links(str(found.description)) == []


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        pytest.param({}, 8, "", id="as many"),
        pytest.param({}, 4, "", id="half"),
        pytest.param({}, 3, "3 rows after 8, a drop of 62%", id="less than half"),
        pytest.param({}, 0, "0 rows after 8, a drop of 100%", id="none"),
        pytest.param({"fewer_rows": 0}, 7, "7 rows after 8, a drop of 12%", id="no drop allowed"),
        pytest.param({"fewer_rows": None}, 0, "", id="any drop allowed"),
        pytest.param({"at_least": 8}, 7, "7 rows, which should be 8 at least", id="too few"),
        pytest.param({"at_most": 8}, 9, "9 rows, which should be 8 at most", id="too many"),
        pytest.param({"at_least": 4, "at_most": 8}, 4, "", id="within bounds"),
    ],
)
def test_an_implausible_number_of_rows_is_reported(
    tmp_path: Path, instance: dg.DagsterInstance, options: dict[str, Any], rows: int, message: str
) -> None:
    look = Look(tmp_path, instance, build_row_count_checks, **options)
    look.write(pa.table({"x": range(8)}))
    assert look.evaluation().passed
    look.write(pa.table({"x": pa.array(range(rows), pa.int64())}))
    found = look.evaluation()
    assert (found.passed, found.severity) == (not message, WARN)
    assert found.description == (message or f"{rows} rows")
    assert (found.metadata["delta/rows"].value, found.metadata["delta/before"].value) == (rows, 8)
    assert found.metadata["delta/version"].value == 1


def test_rows_that_were_deleted_or_rearranged_count_as_what_they_are(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    look = Look(tmp_path, instance, build_row_count_checks, fewer_rows=0)
    for _ in range(2):
        da.write(look.uri, FOUR)
    assert look.evaluation().description == "8 rows"
    optimize(look.uri)
    assert look.evaluation().description == "8 rows"
    DeltaTable(look.uri).delete("x > 3")
    found = look.evaluation()
    assert (found.passed, found.description) == (False, "6 rows after 8, a drop of 25%")


def test_whether_it_is_an_error_is_a_choice(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    look = Look(tmp_path, instance, build_row_count_checks, at_least=9, severity=ERROR)
    look.write(FOUR)
    found = look.evaluation()
    assert (found.passed, found.severity) == (False, ERROR)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"fewer_rows": 1.5}, r"a share from 0 to 1, not 1\.5", id="no share"),
        pytest.param({"at_least": 3, "at_most": 2}, "at least 3 and at most 2", id="no number"),
    ],
)
def test_impossible_properties_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        build_row_count_checks([], **options)
