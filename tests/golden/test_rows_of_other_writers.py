"""The rows of every table from other writers in our data, by `catalogue`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _pytest.mark import ParameterSet
from deltalake import DeltaTable, QueryBuilder

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.golden.catalogue import EXPECTED, SECOND_OPINION, TABLES, Alone, Refused
from tests.support.tables import SHARED, needs_shared

ROOT = SHARED / "data" / "tables"
LARGE = ("delta_rs/COVID-19_NYT", "golden/parquet-decimal-dictionaries/delta")
"""Tables that take seconds each; smaller tables cover their types and logs."""

pytestmark = needs_shared


def test_the_catalogue_names_every_table() -> None:
    found = {str(log.parent.relative_to(ROOT)) for log in ROOT.rglob("_delta_log")}
    assert found == set(TABLES) - {"golden/no-delta-log-folder/delta"}


def named(kind: str) -> list[ParameterSet]:
    """Tables with this kind of entry in the catalogue."""
    return [
        pytest.param(name, marks=[pytest.mark.full] if name in LARGE else [])
        for name, entry in TABLES.items()
        if entry == kind
    ]


@pytest.mark.some_cases(15)
@pytest.mark.parametrize("name", named(EXPECTED))
def test_the_rows_match_the_rows_that_spark_wrote_next_to_the_table(name: str) -> None:
    files = sorted((ROOT / name).parent.joinpath("expected").rglob("*.parquet"))
    expected = pa.concat_tables(
        [pq.read_table(file, coerce_int96_timestamp_unit="us") for file in files],
        promote_options="permissive",
    )
    table = da.to_table(DeltaLog(ROOT / name))
    assert [each.lower() for each in table.column_names] == [
        each.lower() for each in expected.column_names
    ]
    assert rows(table) == rows(expected.rename_columns(table.column_names))


@pytest.mark.some_cases(30)
@pytest.mark.parametrize("name", named(SECOND_OPINION))
def test_the_rows_match_another_implementation(name: str) -> None:
    query = QueryBuilder().register("t", DeltaTable(str(ROOT / name)))
    expected = pa.table(query.execute("SELECT * FROM t"))
    table = da.to_table(DeltaLog(ROOT / name))
    assert rows(table) == rows(expected.rename_columns(table.column_names))


@pytest.mark.parametrize("name", [n for n, what in TABLES.items() if isinstance(what, Alone)])
def test_tables_that_only_we_can_read(name: str) -> None:
    snapshot = DeltaLog(ROOT / name).snapshot()
    assert len(da.to_table(snapshot)) == da.count_rows(snapshot)


@pytest.mark.parametrize("name", [n for n, what in TABLES.items() if isinstance(what, Refused)])
def test_unreadable_files_give_a_reason(name: str) -> None:
    refused = TABLES[name]
    assert isinstance(refused, Refused)
    with pytest.raises(refused.error, match=refused.says) as error:
        da.to_table(DeltaLog(ROOT / name))
    assert str(ROOT / name) in str(error.value)


def rows(table: pa.Table) -> list[str]:
    """Rows in a fixed order; as text, because NaN is not equal to itself."""
    found: list[dict[str, Any]] = table.to_pylist()
    return sorted(map(repr, found))
