"""CHECK constraints and column invariants in the Arrow engine."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError, UnsupportedFeatureError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import optimize
from tests.support.tables import PROTOCOL, metadata, rows


def rule(expression: str) -> dict[str, str]:
    return {"delta.constraints.c": expression}


def table_with_invariant(root: Path, text: object) -> Path:
    fields = [
        {"name": "id", "type": "long", "nullable": True, "metadata": {"delta.invariants": text}}
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    log = DeltaLog(root)
    create_commit(log.storage, log.log_directory, 0, [PROTOCOL, metadata(schema_string=schema)])
    return root


def data(*ids: int | None, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [p] * len(ids)})


@pytest.mark.parametrize(
    ("expression", "kept", "broken"),
    [
        ("id > 0", data(1), data(1, 0, -1)),
        ("id > 0 AND p = 'a'", data(1), data(1, None)),
        ("p IN ('a', 'b')", data(None), data(1, p="c")),
        ("id IS NOT NULL", data(0), data(None)),
    ],
)
def test_a_row_that_violates_a_constraint_is_refused(
    tmp_path: Path, expression: str, kept: pa.Table, broken: pa.Table
) -> None:
    da.write(tmp_path, kept, configuration=rule(expression))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError) as refused:
        da.write(tmp_path, broken)
    assert f"CHECK constraint c ({expression}) is not true" in str(refused.value)
    assert "(rows: " in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert rows(da.to_table(tmp_path)) == rows(kept)


def test_the_first_rows_of_a_table_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="is not true"):
        da.write(tmp_path, data(0), configuration=rule("id > 0"))
    assert not list(tmp_path.rglob("*.*"))


def test_a_constraint_is_held_against_what_is_stored(tmp_path: Path) -> None:
    """An empty partition value is read back as null."""
    da.write(tmp_path, data(1), partition_by=["p"], configuration=rule("p <> 'b'"))
    with pytest.raises(InvalidRequestError, match="is not true"):
        da.write(tmp_path, data(1, p=""))


@pytest.mark.parametrize("expression", ["length(p) = 1", "id + 1 > 0", "id % 2 = 1 OR p = 'b'"])
def test_expressions_are_checked(tmp_path: Path, expression: str) -> None:
    da.write(tmp_path, data(1), configuration=rule(expression))
    with pytest.raises(InvalidRequestError, match=r"is not true \(rows: [12] of a batch of 2"):
        da.write(tmp_path, data(1, -2, p="bb" if "length" in expression else "a"))
    assert rows(da.to_table(tmp_path)) == rows(data(1))


def test_an_expression_is_held_against_what_is_stored(tmp_path: Path) -> None:
    """An empty partition value is read back as null."""
    da.write(tmp_path, data(1), partition_by=["p"], configuration=rule("length(p) < 3"))
    with pytest.raises(InvalidRequestError, match="is not true"):
        da.write(tmp_path, data(1, p=""))


@pytest.mark.parametrize("expression", ["xxhash64(id) > 0", "rand() < 2", "id > 0 OR", "z > 1", ""])
def test_checks_that_only_spark_supports_are_left_to_it(tmp_path: Path, expression: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"c \(.*\) needs the Spark engine: .*ops\.spark"):
        da.write(tmp_path, data(1), configuration=rule(expression))
    assert not list(tmp_path.rglob("*.*"))


def test_rows_that_survive_are_checked_too(tmp_path: Path) -> None:
    da.write(tmp_path, data(1, 2, 3), configuration=rule("id > 0"))
    da.write(tmp_path, data(20), "overwrite", replace_where=col("id") >= 2)
    assert [row["id"] for row in rows(da.to_table(tmp_path))] == [1, 20]


def test_rows_that_only_move_are_not_checked_again(tmp_path: Path) -> None:
    log = DeltaLog(tmp_path)
    da.write(log, data(-1))
    da.write(log, data(-2))
    recorded = metadata(
        schema_string=log.snapshot().metadata.schema_string, configuration=rule("length(p) = 9")
    )
    create_commit(log.storage, log.log_directory, 2, [recorded])
    optimize(log)
    assert log.snapshot().num_files == 1
    assert [row["id"] for row in rows(da.to_table(log))] == [-1, -2]


def test_an_invariant_is_a_constraint_of_a_column(tmp_path: Path) -> None:
    wrapped = json.dumps({"expression": {"expression": "id > 3"}})
    table = table_with_invariant(tmp_path, wrapped)
    da.write(table, pa.table({"id": [4]}))
    with pytest.raises(InvalidRequestError, match=r"the invariant of column id \(id > 3\) is not"):
        da.write(table, pa.table({"id": [4, None]}))


@pytest.mark.parametrize("text", ["id > 3", "{}", "[]", '{"expression":{}}', 7])
def test_an_invariant_that_cannot_be_read_is_refused(tmp_path: Path, text: object) -> None:
    table = table_with_invariant(tmp_path, text)
    with pytest.raises(UnsupportedFeatureError, match="the invariant of column id"):
        da.write(table, pa.table({"id": [4]}))
