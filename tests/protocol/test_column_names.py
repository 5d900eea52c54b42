"""Column names in text: a dot selects a field, and backticks quote."""

from __future__ import annotations

import pytest

from delta_ops import col, parse_predicate
from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.predicate import Comparison, resolve
from delta_ops.protocol.schema import (
    INTEGER,
    ArrayType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.column_names import find_named, path_of_name

A = StructField("A", StructType((StructField("b", INTEGER), StructField("c.d", INTEGER))))
LIST = StructField("l", ArrayType(StructType((StructField("x", INTEGER),)), True))
BOTH = StructType((A, StructField("a.b", INTEGER), LIST))
DOTTED = StructType((StructField("id", INTEGER), StructField("a.b", INTEGER)))


@pytest.mark.parametrize(
    ("schema", "name", "path"),
    [
        pytest.param(BOTH, "a.b", ("a", "b"), id="a dot leads to a field, whatever else there is"),
        pytest.param(BOTH, "`a.b`", ("a.b",), id="backticks quote"),
        pytest.param(BOTH, "`A.B`", ("a.b",), id="in any case"),
        pytest.param(BOTH, "`a`.`b`", ("a", "b"), id="parts in backticks"),
        pytest.param(BOTH, "A.`c.d`", ("A", "c.d"), id="a field with a dot"),
        pytest.param(BOTH, "l.element.x", ("l", "element", "x"), id="below an array"),
        pytest.param(DOTTED, "a.b", ("a.b",), id="a column that it can only be"),
        pytest.param(DOTTED, "`id`", ("id",), id="backticks that are not needed"),
        pytest.param(DOTTED, "x.y", ("x", "y"), id="a path that is not there"),
    ],
)
def test_the_path_that_a_text_says(schema: StructType, name: str, path: tuple[str, ...]) -> None:
    assert path_of_name(name, schema) == path


def test_a_whole_column_is_no_field() -> None:
    with pytest.raises(InvalidRequestError, match=r"is a field of column a.*as `a.b`"):
        find_named(BOTH, "a.b")
    assert find_named(BOTH, "`a.b`").name == find_named(DOTTED, "a.b").name == "a.b"
    with pytest.raises(UnknownColumnError, match="no column x"):
        find_named(BOTH, "x.y")


def test_col_reads_a_name_as_sql_does() -> None:
    assert (col("a.b") == 1) == (col("a", "b") == 1) == parse_predicate("a.b = 1")
    assert (col("`a.b`") == 1) == parse_predicate("`a.b` = 1") == Comparison(("a.b",), "==", 1)
    assert (col("a", "c.d") == 1) == parse_predicate("a.`c.d` = 1")
    assert [repr(col(name)) for name in ("a.b", "`a.b`")] == ["col('a', 'b')", "col('`a.b`')"]


def test_a_path_that_is_not_there_says_how_the_column_is_written() -> None:
    for predicate in (parse_predicate("a.b = 1"), col("a.b") == 1):
        with pytest.raises(InvalidRequestError, match=r"no column a; .* as `a.b`"):
            resolve(predicate, DOTTED)
