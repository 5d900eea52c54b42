"""Column names in double quotes, which are texts to Spark: they change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, parse_predicate
from delta_ops.ddl import add_constraint, create_table, drop_constraint
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import STRING, StructField, StructType

ROWS = pa.table({"id": [1, 2], "state": ["old", "new"], "Name": ["x", "y"], "s": [{"f": 1}] * 2})
SOURCE = pa.table({"id": [2, 3], "state": ["newer", "newest"], "Other": ["a", "b"]})
MEETING = "target.id = source.id"

Calls = Mapping[str, Callable[[Path], Any]]


def merge(table: Path, on: str = MEETING) -> da.Merge:
    return da.merge(table, SOURCE, on)


CALLS: Calls = {
    "a delete": lambda t: da.delete(t, "\"state\" != 'old'"),
    "a delete by a mistyped name": lambda t: da.delete(t, "\"sttate\" != 'old'"),
    "a delete by a text": lambda t: da.delete(t, "'state' != 'old'"),
    "a delete by a field": lambda t: da.delete(t, "id > 0 AND \"S.F\" = '1'"),
    "a delete by a predicate": lambda t: da.delete(t, parse_predicate('state = "Name"')),
    "a delete by parts of a name": lambda t: da.delete(t, 's."f" = 1'),
    "an update where": lambda t: da.update(t, {"id": "id + 1"}, "\"NAME\" = 'x'"),
    "a new value": lambda t: da.update(t, {"state": '"Name"'}),
    "a part of a new value": lambda t: da.update(t, {"state": 'concat(state, "name")'}),
    "a read": lambda t: da.to_table(t, predicate=parse_predicate('state = "Name"')),
    "an overwrite": lambda t: da.write(
        t, ROWS, mode="overwrite", replace_where=parse_predicate('state = "Name"')
    ),
    "a key of a merge": lambda t: (
        merge(t, 'target.id = "source.id"').when_matched_delete().execute()
    ),
    "beside the key": lambda t: (
        merge(t, f"{MEETING} AND \"state\" = 'new'").when_matched_delete().execute()
    ),
    "a column of the source": lambda t: merge(t).when_matched_delete("\"OTHER\" = 'a'").execute(),
    "a clause of a text": lambda t: merge(t).when_matched_delete("'Other' = 'a'").execute(),
    "a value of the source": lambda t: (
        merge(t).when_matched_update({"state": '"source.state"'}).execute()
    ),
    "a value of a new row": lambda t: (
        merge(t).when_not_matched_insert({"id": "source.id", "state": '"Other"'}).execute()
    ),
    "a row that the source lacks": lambda t: (
        merge(t).when_not_matched_by_source_delete("\"Name\" = 'x'").execute()
    ),
    "a constraint": lambda t: add_constraint(t, "c", "\"state\" != 'zzz'"),
    "a constraint of texts": lambda t: add_constraint(t, "c", "'state' != 'zzz'"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_names_in_double_quotes_change_nothing(tmp_path: Path, call: Callable[[Path], Any]) -> None:
    da.write(tmp_path, ROWS)
    reported = r"in double quotes|uses no column|a column as `"
    with pytest.raises(InvalidRequestError, match=reported) as caught:
        call(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: ")
    assert DeltaLog(tmp_path).snapshot().version == 0


def test_texts_in_double_quotes_and_all_rows_mean_what_they_mean_to_spark(tmp_path: Path) -> None:
    da.write(tmp_path, ROWS)
    da.update(tmp_path, {"state": '"paid"'}, 'state = "new" AND `Name` = "y"')
    assert da.to_table(tmp_path)["state"].to_pylist() == ["old", "paid"]
    assert da.delete(tmp_path, "1 = 0").version is None
    da.delete(tmp_path, "true")
    assert da.to_table(tmp_path).num_rows == 0


@pytest.mark.parametrize("text", ["\"Name\" != 'q'", "'Name' != 'q'"])
def test_no_table_is_made_with_a_constraint_that_checks_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"in double quotes|uses no column"):
        create_table(tmp_path, ROWS.schema, properties={"delta.constraints.c": text})
    assert not list(tmp_path.iterdir())


def test_no_table_is_made_with_a_column_generated_from_a_text(tmp_path: Path) -> None:
    made = StructField("b", STRING, metadata={"delta.generationExpression": 'upper("a")'})
    with pytest.raises(InvalidRequestError, match=rf"{tmp_path}: column b is gen.* write `a`"):
        begin(DeltaLog(tmp_path)).create_table(StructType((StructField("a", STRING), made)))


def test_a_constraint_of_deltalake_on_a_column_with_capitals_is_not_passed_over(
    tmp_path: Path,
) -> None:
    da.write(tmp_path, ROWS.select(["Name"]))
    DeltaTable(str(tmp_path)).alter.add_constraint({"named": "`Name` != 'q'"})
    with pytest.raises(InvalidRequestError, match="engines read it in different ways"):
        da.write(tmp_path, pa.table({"Name": ["q"]}), mode="append")
    drop_constraint(tmp_path, "named")
    add_constraint(tmp_path, "named", "`Name` != 'q'")
    with pytest.raises(InvalidRequestError, match="is not true"):
        da.write(tmp_path, pa.table({"Name": ["q"]}), mode="append")
    da.write(tmp_path, pa.table({"Name": ["r"]}), mode="append")
